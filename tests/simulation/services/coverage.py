"""What a whole run must have seen, or it has not tested what it claims to.

Responsible for: the list of counters that must not stay 0. Refuses to know: how anything is
counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.services.mixes import MIXES

OTHERS = (
    "told.plain",
    "told.delay",
    "told.timer",
    "told.half",
    "told.again",
    "told.dead",
    "timer.recalled",
    "delay.delivered",
    "timer.delivered",
    "transaction.asked",
    "transaction.ended",
    "pop.given",
    "pop.left",
    "pop.changed",
    "pop.done_in_time",
    "pop.revived",
    "pop.twice",
    "twice",
    "ordered.given",
    "ordered.left",
    "ordered.failed",
    "ordered.twice",
    "ordered.done",
    "offset.told",
    "offset.read",
    "lock.taken",
    "lock.told",
    "lock.renewed",
    "promoted",
    "set.changed",
    "power.bytes_lost",
    "world.settled",
)


def required() -> list[str]:
    """The names of all counters that must move."""
    faults = dict.fromkeys(kind for mix in MIXES.values() for kind in mix.weights)
    return [f"fault.{kind}" for kind in faults] + list(OTHERS)


def missing(counts: Mapping[str, int]) -> list[str]:
    """The counters that stayed 0, by name."""
    return [name for name in required() if not counts.get(name)]
