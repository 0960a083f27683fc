"""Which old files of the log go, and when the disk counts as full.

Responsible for: the rules of PROTOCOL 3.4, from facts that are passed in. Refuses
to know: files, clocks, who reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# As RocketMQ: a round never takes more.
FILES_PER_ROUND = 10


class LogFile(NamedTuple):
    """`start`: global offset of its first byte. `first_ms`: when its first message was there, on
    the clock that tells the time of the decision (brokers/store/log/held_time.py), None without
    one.
    """

    start: int
    first_ms: int | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A file goes `reserved_ms` after its last message was there, in one of `hours` (of the day),
    or at any time while more than `max_percent` of the disk is used. Above `forcibly_percent` the
    oldest go whatever their age; above `full_percent` new messages are refused as well.
    """

    reserved_ms: int
    hours: frozenset[int]
    max_percent: int
    forcibly_percent: int
    full_percent: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Nothing at or above these offsets may go: `confirmed`, here on the disk, whatever happens,
    `wanted` (by slaves that still copy) unless the disk is about to be full.
    """

    confirmed: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Files that end at or below `delete_below` go, for `reason` (empty when none does)."""

    delete_below: int
    reason: str
    full: bool


def decide(
    policy: Policy,
    files: Sequence[LogFile],
    limits: Limits,
    used_percent: float,
    now_ms: int,
    hour: int,
) -> Decision:
    """`files`: the oldest ones, ascending, at least one; the last of them stays, and tells until
    when the one before it was written to.
    """
    forced = used_percent > policy.forcibly_percent
    due = forced or used_percent > policy.max_percent or hour in policy.hours
    keep_from = limits.confirmed if forced else min(limits.confirmed, limits.wanted)
    below = files[0].start
    for following in files[1 : FILES_PER_ROUND + 1]:
        expired = (
            following.first_ms is not None and following.first_ms + policy.reserved_ms <= now_ms
        )
        if not due or not (forced or expired) or following.start > keep_from:
            break
        below = following.start
    reason = (
        (f"{used_percent:.0f} percent of the disk used")
        if forced
        else "older than the reserved time"
    )
    return Decision(
        below, reason if below > files[0].start else "", used_percent > policy.full_percent
    )
