"""What is decided when a store is opened: where reading begins, what is believed, where the log
ends.

Responsible for: the decisions of PROTOCOL 3.8, from facts about files and from
what a checkpoint says.
Refuses to know: files; how records are read; who asks.

In order: `plan`, cut the queues as it says, `scan_from`, walk the log through `Confirmed`,
`settle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

from brokers.store.log import segments
from brokers.store.log.integrity import BadRecord, Place
from brokers.store.log.records import Record

# Damaged records that a start reports; the others are found when they are read.
DAMAGED_MAX = 1000
# Beyond every log.
NOWHERE = 1 << 62


class FileFacts(NamedTuple):
    """A file of the log: global offset of its first byte; store time (ms) of the message it begins
    with, None without.
    """

    start: int
    first_ms: int | None


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier run recorded. Times in ms, offsets in bytes.

    `recovery_ms`: messages stored before it were durable. `flushed_offset`: log and queues are
    durable up to there; None when a broker wrote the checkpoint that tells times only. `same_boot`:
    the machine did not restart since the last write, so nothing written can be missing. `abnormal`:
    the last run did not end in order.
    """

    recovery_ms: int
    flushed_offset: int | None
    confirm_offset: int
    abnormal: bool
    same_boot: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """`read_below`: reading begins at this file or an earlier one. `queues_valid_below`: entries of
    messages at or above it may be lost or torn, and are made again; None: all are as they were
    written. `flushed_offset`: what is durable. `confirm_offset`: what is confirmed, as far as the
    log goes.
    """

    read_below: int
    queues_valid_below: int | None
    flushed_offset: int
    confirm_offset: int

    @property
    def written_end(self) -> int:
        """Every byte below it was written. Above it a write may be missing, and the file holds
        zeros instead.
        """
        return (
            self.flushed_offset
            if self.power_lost
            else max(self.flushed_offset, self.confirm_offset)
        )

    @property
    def power_lost(self) -> bool:
        """What was not flushed may be missing in any part, however much of it was confirmed."""
        return self.queues_valid_below is not None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a store found. Offsets and `cut_bytes` in bytes.

    `cut_bytes`: bytes behind the last complete message that were in use and are gone now.
    `stopped_at`: one line on why reading ended there, empty when the log filled its files.
    `missing_bytes`: how far the log ends before what the checkpoint calls durable or confirmed:
    such a replica lacks what it acknowledged, however its last run ended (S5). `damaged`: what was
    passed over because it had been written once, DAMAGED_MAX at most. `durable_end`: record border
    up to which every byte was flushed. What lies behind may be torn where no checksum looks
    (headers, properties, the rest of a blank record), although its records read well.
    """

    abnormal: bool
    same_boot: bool
    scanned_from: int
    min_offset: int
    end_offset: int
    confirm_offset: int
    cut_bytes: int
    messages: int
    stopped_at: str
    missing_bytes: int
    durable_end: int
    damaged: tuple[BadRecord, ...] = ()


class Walk(Protocol):
    """Reads records one after the other; `end` and `reason` say where it stopped, and why."""

    end: int
    reason: str

    def __iter__(self) -> Iterator[Record]: ...


def plan(files: Sequence[FileFacts], file_bytes: int, known: Known) -> Plan:
    """For a log of these files, ascending and at least one."""
    by_time = _newest(
        files, lambda file: file.first_ms is not None and file.first_ms <= known.recovery_ms
    )
    # Another broker's checkpoint tells by time what is durable: everything in front of the file it
    # names.
    flushed = by_time if known.flushed_offset is None else known.flushed_offset
    end = files[-1].start + file_bytes
    confirm = min(known.confirm_offset, end)
    if not known.abnormal or known.same_boot:
        return Plan(files[-1].start, None, flushed, confirm)
    durable = min(
        by_time, _newest(files, lambda file: file.first_ms is not None and file.start <= flushed)
    )
    # A checkpoint of ours syncs the queues before it names a place: their entries of messages in
    # front of it are durable.
    return Plan(durable, durable if known.flushed_offset is None else flushed, flushed, confirm)


def scan_from(
    made: Plan, files: Sequence[FileFacts], last_dispatched: int, lacks_from: int | None = None
) -> int:
    """Start of the file where reading begins; `last_dispatched`: highest message that a queue
    points to, -1 without. `lacks_from`: messages from there on may have lost their entries, None:
    none has.
    """
    dispatched = last_dispatched if lacks_from is None else min(last_dispatched, lacks_from)
    return min(
        made.read_below,
        _newest(files, lambda file: file.first_ms is not None and file.start <= dispatched),
    )


def _newest(files: Sequence[FileFacts], fits: Callable[[FileFacts], bool]) -> int:
    """Start of the newest file that fits; of the first one when none does."""
    return next((file.start for file in reversed(files) if fits(file)), files[0].start)


class Confirmed:
    """Walks the whole log but hands out only messages that are confirmed: up to the recorded
    confirm offset, and those in front of a message that already has its entry (it got it because it
    was confirmed).

    A caller that finds many complete messages at once may pass them by: `passed`.
    """

    def __init__(self, walk: Walk, made: Plan, last_dispatched: int) -> None:
        self.walk = walk
        self.end = self.durable_end = -1
        self.messages = 0
        self.damaged: list[BadRecord] = []
        self._plan = made
        self._last_dispatched = last_dispatched

    def __iter__(self) -> Iterator[Record]:
        return self.some(None)

    def some(self, count: int | None) -> Iterator[Record]:
        """Looks at `count` messages; None: at all that are left."""
        for record in islice(self.walk, count):
            self.messages += 1
            end = record.physical_offset + record.size
            if end <= self._plan.flushed_offset:
                self.durable_end = end
            if end <= self._plan.confirm_offset or record.physical_offset <= self._last_dispatched:
                self.end = end
                yield record

    def over_damage(self, size: int, following: int) -> None:
        """A record was written where the walk stopped and is damaged: it goes on at `following`.
        `size`: 0 where it is not known. What was confirmed stays so.
        """
        if len(self.damaged) < DAMAGED_MAX:
            self.damaged.append(BadRecord(Place(self.walk.end, size), self.walk.reason))
        self.walk.end, self.walk.reason = following, ""
        if following <= self._plan.flushed_offset:
            self.durable_end = following
        self.end = following

    @property
    def looked_at_singly_from(self) -> int:
        """What lies above may be torn where no checksum looks: only one message after the other
        shows it.
        """
        return self._plan.flushed_offset if self._plan.power_lost else NOWHERE

    def alike_below(self, limit: int) -> int:
        """Messages from here on that end at or below it are all durable or none, all confirmed or
        none.
        """
        borders = (self._plan.flushed_offset, self._confirmed_below, limit)
        return min(border for border in borders if border > self.walk.end or border == limit)

    @property
    def _confirmed_below(self) -> int:
        return max(self._plan.confirm_offset, self._last_dispatched + 1)

    def passed(self, end: int, count: int) -> bool:
        """The next `count` messages, up to `end`, are complete and alike; whether they are
        confirmed.
        """
        self.walk.end = end
        self.messages += count
        if end <= self._plan.flushed_offset:
            self.durable_end = end
        if end > self._confirmed_below:
            return False
        self.end = end
        return True


def settle(
    known: Known,
    made: Plan,
    read: Confirmed,
    *,
    start: int,
    log_min: int,
    file_bytes: int,
    cut_bytes: int,
) -> RecoveryReport:
    """The log was read from `start` to the end and what lay behind was cut away."""
    end = read.walk.end
    confirm = (
        max(read.end, log_min)
        if read.end >= 0
        else max(log_min, min(made.confirm_offset, start, end))
    )
    # A file begins with a record, so its start will do where no record that was read ends below.
    durable = max(read.durable_end, log_min, segments.file_start(made.flushed_offset, file_bytes))
    return RecoveryReport(
        known.abnormal,
        known.same_boot,
        start,
        log_min,
        end,
        min(confirm, end),
        cut_bytes,
        read.messages,
        read.walk.reason,
        missing_bytes(known, made.flushed_offset, end),
        min(durable, end),
        tuple(read.damaged),
    )


def settle_empty(known: Known) -> RecoveryReport:
    """There is no log."""
    missing = missing_bytes(known, known.flushed_offset or 0, 0)
    return RecoveryReport(
        known.abnormal, known.same_boot, 0, 0, 0, 0, 0, 0, "the log is empty", missing, 0
    )


def missing_bytes(known: Known, flushed_offset: int, end: int) -> int:
    """How much of what was durable or confirmed a log that ends there lacks."""
    return max(flushed_offset, known.confirm_offset, end) - end
