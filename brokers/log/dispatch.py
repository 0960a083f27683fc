"""From log order to queues: gives every confirmed message its consume queue entry, and its keys to the index.

Responsible for: the dispatch rule of broker-wire-and-storage.md 3.5, in log order, each message once.
Refuses to know: how the confirm offset came about, who waits for the entries, how keys are indexed.

What this process appended itself is remembered until it is confirmed, so that the log need not be read back for it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from brokers.log.commit_log import CommitLog, LogError
from brokers.log.consume_queue import ConsumeQueues, pack_entry
from brokers.log.index import MessageIndex
from brokers.log.records import SYS_FLAG_PREPARED, SYS_FLAG_TRANSACTION_MASK, Record
from brokers.log.scan import LogWalk

# Unconfirmed messages kept in memory (about 150 bytes each); beyond it they are read back from the log.
PENDING_RECORDS_MAX = 100_000
INDEXED_AT_ONCE = 4096

_log = logging.getLogger(__name__)

# (topic, queue id, new end slot)
QueueGrowth = tuple[str, int, int]


class _Run:
    """Consecutive entries of one queue, not yet written."""

    __slots__ = ("entries", "first_slot", "last_physical", "next_slot")

    def __init__(self, slot: int) -> None:
        self.first_slot = self.next_slot = slot
        self.entries = bytearray()
        self.last_physical = -1


class Dispatcher:
    """`dispatched_offset`: every message that ends at or below it has its entry. `index` None: keys are not indexed."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues) -> None:
        self._log = log
        self._queues = queues
        self._pending: deque[Record] = deque()
        self._pending_end = -1
        self._reported = -1
        self.index: MessageIndex | None = None
        self.dispatched_offset = 0
        self.last_store_ms = 0

    def restart_at(self, offset: int) -> None:
        """Go on from `offset`, forgetting what was remembered (recovery, or a cut of the log)."""
        self._pending.clear()
        self._pending_end = -1
        self.dispatched_offset = offset

    def appended(self, start: int, end: int, records: Sequence[Record]) -> None:
        """This process appended `records` as the bytes [start, end) of the log."""
        pending = self._pending
        if not pending and self.dispatched_offset == start:
            self._pending_end = start
        if self._pending_end != start:
            return
        if len(pending) + len(records) > PENDING_RECORDS_MAX:
            self._pending_end = -1
            return
        pending.extend(records)
        self._pending_end = end

    def dispatch_to(self, confirm_offset: int) -> list[QueueGrowth]:
        """Builds entries of all messages that end at or below `confirm_offset`: [(topic, queue id, new end slot)]."""
        target = min(confirm_offset, self._log.end_offset)
        before = self.dispatched_offset
        if target <= before:
            return []
        try:
            grown = self._dispatch(target)
        except OSError as error:
            # Entries are repeatable and the log holds everything: tried again with the next confirm offset.
            self.restart_at(before)
            self._say(before, f"queue files cannot be written: {error}; free space or replace the disk")
            return []
        return [(topic, queue_id, end) for (topic, queue_id), end in grown.items()]

    def _dispatch(self, target: int) -> dict[tuple[str, int], int]:
        grown: dict[tuple[str, int], int] = {}
        if self._pending:
            start = self.dispatched_offset
            taken = self._take_pending(target)
            grown = self.build(taken)
            if self.index is not None:
                self.index.put(start, taken, self.dispatched_offset)
        if not self._pending and target > self.dispatched_offset:
            walk = LogWalk(self._log.read, self.dispatched_offset, target, self._log.file_bytes, check_body=False)
            grown.update(self.build(walk if self.index is None else self._indexed(walk, self.index)))
            self.dispatched_offset = walk.end
            if walk.reason and not walk.incomplete:
                self._say(walk.end, f"{walk.reason}; start this replica with an empty store")
        return grown

    @staticmethod
    def _indexed(walk: LogWalk, index: MessageIndex) -> Iterator[Record]:
        """The walk's records, each given to the index once its queue has it."""
        start, seen = walk.end, []
        for record in walk:
            yield record
            seen.append(record)
            if len(seen) == INDEXED_AT_ONCE:
                index.put(start, seen, walk.end)
                start, seen = walk.end, []
        index.put(start, seen, walk.end)

    def _say(self, offset: int, problem: str) -> None:
        if self._reported != offset:
            self._reported = offset
            _log.error("queues do not grow beyond log offset %d: %s", offset, problem)

    def _take_pending(self, target: int) -> list[Record]:
        pending, taken = self._pending, []
        while pending:
            record = pending[0]
            end = record.physical_offset + record.size
            if end > target:
                break
            taken.append(pending.popleft())
            self.dispatched_offset = end
        return taken

    def build(self, records: Iterable[Record]) -> dict[tuple[str, int], int]:
        """Writes the entries of `records` (in log order) and returns the new end slot of every queue that grew.

        Entries of one log file are written before those of the next, so that after a kill only the file that holds the
        highest dispatched message can lack some.
        """
        grown: dict[tuple[str, int], int] = {}
        runs: dict[tuple[str, int], _Run] = {}
        file_end = 0
        for record in records:
            physical, size, topic, queue_id, slot, tags_code, store_ms, sys_flag, _ = record
            self.last_store_ms = store_ms
            kind = sys_flag & SYS_FLAG_TRANSACTION_MASK
            if kind == SYS_FLAG_PREPARED or kind == SYS_FLAG_TRANSACTION_MASK:
                continue
            if physical >= file_end:
                self._write_runs(runs, grown)
                file_end = physical - physical % self._log.file_bytes + self._log.file_bytes
            key = (topic, queue_id)
            run = runs.get(key)
            if run is None or run.next_slot != slot:
                if run is not None:
                    self._write_run(key, run, grown)
                run = runs[key] = _Run(slot)
            run.entries += pack_entry(physical, size, tags_code)
            run.next_slot += 1
            run.last_physical = physical
        self._write_runs(runs, grown)
        return grown

    def _write_runs(self, runs: dict[tuple[str, int], _Run], grown: dict[tuple[str, int], int]) -> None:
        for key, run in runs.items():
            self._write_run(key, run, grown)
        runs.clear()

    def _write_run(self, key: tuple[str, int], run: _Run, grown: dict[tuple[str, int], int]) -> None:
        queue = self._queues.get_or_create(*key)
        if queue is None or run.first_slot < 0:
            return
        try:
            if queue.append(run.first_slot, run.entries, run.last_physical):
                grown[key] = queue.max_offset
        except LogError as error:  # the other queues go on
            self._say(run.last_physical, str(error))
