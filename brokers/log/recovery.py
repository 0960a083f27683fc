"""Bringing log and queues of a store folder into agreement when it is opened.

Responsible for: broker-wire-and-storage.md 3.8: where to begin, where the log ends, what the queues must hold.
Refuses to know: roles, epochs, who asks for the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from brokers.log import segments
from brokers.log.checkpoint import Checkpoint
from brokers.log.commit_log import CommitLog, store_ms_of
from brokers.log.consume_queue import ConsumeQueues
from brokers.log.dispatch import Dispatcher
from brokers.log.records import MAGIC_V1, MAGIC_V2, MESSAGE_BYTES_MIN, Record, size_and_magic
from brokers.log.scan import LogWalk


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a store found. Offsets and `cut_bytes` in bytes.

    `cut_bytes`: bytes behind the last complete message that were in use and are gone now. `stopped_at`: one line on
    why reading ended there, empty when the log filled its files. `missing_bytes`: how far the log ends before what the
    checkpoint calls durable or confirmed: such a replica lacks what it acknowledged, however its last run ended (S5).
    `durable_end`: record border up to which every byte was flushed. What lies behind may be torn where no checksum
    looks (headers, properties, the rest of a blank record), although its records read well.
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


def recover(
    log: CommitLog, queues: ConsumeQueues, dispatcher: Dispatcher, checkpoint: Checkpoint, *, abnormal: bool, same_boot: bool
) -> RecoveryReport:
    """Finds the end of the log, cuts what lies behind, and has the queues hold every message known to be confirmed.

    `same_boot`: the machine did not restart since the last write, so nothing written can be missing. Otherwise only
    what the checkpoint calls durable is trusted.
    """
    if not log.file_starts:
        checkpoint = replace(checkpoint, flushed_offset=checkpoint.flushed_offset or 0)
        queues.truncate(-1)
        dispatcher.restart_at(0)
        missing = _missing_bytes(checkpoint, 0)
        return RecoveryReport(abnormal, same_boot, 0, 0, 0, 0, 0, 0, "the log is empty", missing, 0)
    checkpoint = _with_flushed(log, checkpoint)
    start = segments.file_start(log.capacity_end - 1, log.file_bytes)
    if abnormal and not same_boot:
        start = _durable_file(log, checkpoint)
        queues.keep_valid_below(start)
    last_dispatched = queues.last_physical()
    start = min(start, _newest_file(log, lambda position, _: position <= last_dispatched))
    trusted = min(checkpoint.confirm_offset, log.capacity_end)
    walk = LogWalk(log.read, start, log.capacity_end, log.file_bytes, check_body=True)
    confirmed = _Confirmed(walk, trusted, last_dispatched, checkpoint.flushed_offset)
    dispatcher.restart_at(start)
    dispatcher.build(confirmed)
    end = confirmed.walk.end
    cut = log.set_recovered_end(end, checkpoint.flushed_offset)
    queues.truncate(end)
    queues.mark_unsynced(checkpoint.flushed_offset)
    dispatcher.restart_at(max(confirmed.end, start) if end > start else end)
    confirm = max(confirmed.end, log.min_offset) if confirmed.end >= 0 else max(log.min_offset, min(trusted, start, end))
    return RecoveryReport(
        abnormal, same_boot, start, log.min_offset, log.end_offset, min(confirm, end), cut, confirmed.messages,
        confirmed.walk.reason, _missing_bytes(checkpoint, end), min(_durable_end(log, checkpoint, confirmed), end),
    )  # fmt: skip


def _with_flushed(log: CommitLog, checkpoint: Checkpoint) -> Checkpoint:
    """Another broker's checkpoint tells by time what is durable: everything in front of the file it names (3.8)."""
    if checkpoint.flushed_offset is not None:
        return checkpoint
    by_time = _newest_file(log, lambda _, stored_ms: stored_ms <= checkpoint.recovery_ms)
    return replace(checkpoint, flushed_offset=by_time)


def _durable_end(log: CommitLog, checkpoint: Checkpoint, read: _Confirmed) -> int:
    """A file begins with a record, so its start will do where no record that was read ends below."""
    return max(read.durable_end, log.min_offset, segments.file_start(checkpoint.flushed_offset, log.file_bytes))


def _missing_bytes(checkpoint: Checkpoint, end: int) -> int:
    return max(checkpoint.flushed_offset, checkpoint.confirm_offset, end) - end


class _Confirmed:
    """Walks the whole log but hands out only messages that are confirmed: up to the recorded confirm offset, and those
    in front of a message that already has its entry (it got it because it was confirmed)."""

    def __init__(self, walk: LogWalk, confirm_offset: int, last_dispatched: int, flushed_offset: int) -> None:
        self.walk = walk
        self.end = self.durable_end = -1
        self._flushed_offset = flushed_offset
        self.messages = 0
        self._confirm_offset = confirm_offset
        self._last_dispatched = last_dispatched

    def __iter__(self) -> Iterator[Record]:
        for record in self.walk:
            self.messages += 1
            end = record.physical_offset + record.size
            if end <= self._flushed_offset:
                self.durable_end = end
            if end <= self._confirm_offset or record.physical_offset <= self._last_dispatched:
                self.end = end
                yield record


def _durable_file(log: CommitLog, checkpoint: Checkpoint) -> int:
    """Start of the newest file whose predecessors are durable for certain, by time (3.8) and by offset."""
    by_time = _newest_file(log, lambda _, stored_ms: stored_ms <= checkpoint.recovery_ms)
    return min(by_time, _newest_file(log, lambda position, _: position <= checkpoint.flushed_offset))


def _newest_file(log: CommitLog, fits: Callable[[int, int], bool]) -> int:
    """Start of the newest file whose first message fits(position, store time in ms); the first file when none does."""
    for start in reversed(log.file_starts):
        head = log.read(start, MESSAGE_BYTES_MIN)
        if len(head) == MESSAGE_BYTES_MIN and size_and_magic(head, 0)[1] in (MAGIC_V1, MAGIC_V2):
            if fits(start, store_ms_of(head)):
                return start
    return log.file_starts[0]
