"""What a whole run must have seen, or it has not tested what it claims to.

Responsible for: the list of counters that must not stay 0. Refuses to know: how anything is
counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.majority.mixes import ALL

OTHERS = (
    "elected",
    "elected.plain",
    "acknowledged",
    "message.lost",
    "message.doubled",
    "message.cut",
    "message.coded",
    "log.truncated",
    "log.restarted",
    "answer.TERM_CHANGED",
    "answer.WAIT_QUORUM_ACK_TIMEOUT",
    "answer.NOT_LEADER",
    "answer.DISK_FULL",
    "read.SUCCESS",
    "read.TERM_CHANGED",
    "read.NOT_LEADER",
    "transfer.200",
    "report.follower_disk",
    "report.push_unreadable",
    "world.settled",
    "world.weak",
    "world.wiped_idle",
)


def required() -> list[str]:
    """The names of all counters that must move."""
    return [f"fault.{kind}" for kind in ALL] + list(OTHERS)


def missing(counts: Mapping[str, int]) -> list[str]:
    """The counters that stayed 0, by name."""
    return [name for name in required() if not counts.get(name)]
