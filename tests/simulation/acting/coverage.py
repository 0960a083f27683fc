"""What a whole run must have seen, or it has not tested what it claims to.

Responsible for: the list of counters that must not stay 0. Refuses to know: how anything is
counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.acting.world import FAULTS

REPORTS = (
    "EscapeBatch",
    "EscapeWaits",
    "LockRounds",
    "LockVotes",
    "LooksBack",
    "MasterExpelled",
    "PreOnlineOver",
    "PreOnlineWithoutMember",
)
OTHERS = (
    "commit.passed_on",
    "delivered.away",
    "delivered.here",
    "delivered.twice",
    "lost",
    "pop.acknowledged",
    "pop.changed",
    "pop.given",
    "pop.revived",
    "world.one_host",
    "world.settled",
)


def required() -> list[str]:
    """The names of all counters that must move."""
    return [f"fault.{kind}" for kind in dict.fromkeys(FAULTS)] + list(REPORTS) + list(OTHERS)


def missing(counts: Mapping[str, int]) -> list[str]:
    """The counters that stayed 0, by name."""
    return [name for name in required() if not counts.get(name)]
