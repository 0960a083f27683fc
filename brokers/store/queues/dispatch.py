"""From log order to queues: gives every confirmed message its consume queue entry, and its keys to
the index.

Responsible for: the dispatch rule of PROTOCOL 3.5, in log order, each message
once.
Refuses to know: how the confirm offset came about, who waits for the entries, how keys are indexed.

What this process appended itself is remembered until it is confirmed, so that the log need not be
read back for it. What a master sent is read back; long runs of it in pieces whose entries are made
with arrays, elsewhere if one likes.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from brokers.store.files.errors import LogError
from brokers.store.index.index import MessageIndex
from brokers.store.log.integrity import BadRecord, Place
from brokers.store.log.message_log import FileRange, MessageLog, RecordWalk, Starts
from brokers.store.log.records import SYS_FLAG_PREPARED, SYS_FLAG_TRANSACTION_MASK, Record
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.entries import ENTRY, pack_entry

if TYPE_CHECKING:
    from brokers.store.queues.entry_runs import EntryRuns, QueueRun

# Unconfirmed messages kept in memory (about 150 bytes each); beyond it they are read back from the
# log.
PENDING_RECORDS_MAX = 100_000
INDEXED_AT_ONCE = 4096
# Messages that no queue can show and that wait to be reported; of more, none is kept.
HIDDEN_MAX = 1000
# Below this it is not worth the arrays.
PIECE_BYTES_MIN = 256 * 1024
PIECE_BYTES = 1 << 20
# Messages looked at one by one where the arrays stopped, PIECE_BYTES of them at most.
SINGLY = 256

_log = logging.getLogger("regent.store.queues")

Key = tuple[str, int]
# (topic, queue id, new end slot)
QueueGrowth = tuple[str, int, int]


def before_arrays() -> None:
    """To be called before the arrays are loaded."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads: nothing is multiplied here


class Piece(NamedTuple):
    """Bytes of the log from `start`, which may have entries now, as all below `limit`. `place`:
    where they lie, at this moment. `starts`: see `MessageLog`.
    """

    start: int
    limit: int
    life: int
    place: FileRange
    starts: Starts | None = None

    def run(self) -> EntryRuns:
        """Makes the entries, at once. OSError when the bytes cannot be read."""
        before_arrays()
        # numpy only where long runs come: a tenth of a second
        from brokers.store.queues.entry_runs import entry_runs

        data = os.pread(self.place.fileno, self.place.count, self.place.position)
        return entry_runs(data, self.start, None if self.starts is None else self.starts(data))


class _Run:
    """Consecutive entries of one queue, not yet written."""

    __slots__ = ("entries", "first_slot", "last_physical", "next_slot")

    def __init__(self, slot: int) -> None:
        self.first_slot = self.next_slot = slot
        self.entries = bytearray()
        self.last_physical = -1


class Dispatcher:
    """`dispatched_offset`: every message that ends at or below it has its entry. `index` None: keys
    are not indexed.
    """

    def __init__(self, log: MessageLog, queues: ConsumeQueues) -> None:
        self._log = log
        self._queues = queues
        self._pending: deque[Record] = deque()
        self._pending_start = self._pending_end = -1
        self._reported = -1
        # why no message behind `dispatched_offset` can be told from the next; None: all can
        self.stuck: str | None = None
        self._life = 0  # pieces of an older one are of no use
        self.index: MessageIndex | None = None
        # While a start reads what was read before: whether the message of a slot, place and size
        # has its entry elsewhere.
        self.misplaced: Callable[[Key, int, int, int], bool] | None = None
        # messages no queue shows; whoever reports them takes them out
        self.hidden: deque[BadRecord] = deque(maxlen=HIDDEN_MAX)
        self.dispatched_offset = 0
        self.last_store_ms = 0

    def restart_at(self, offset: int) -> None:
        """Go on from `offset`, forgetting what was remembered (recovery, or a cut of the log)."""
        self._pending.clear()
        self._pending_end = -1
        self._life += 1
        self.dispatched_offset = offset
        self.stuck = None

    def appended(self, start: int, end: int, records: Sequence[Record]) -> None:
        """This process appended `records` as the bytes [start, end) of the log."""
        pending = self._pending
        if not pending:
            self._pending_start = self._pending_end = start
        if self._pending_end != start:
            return
        if len(pending) + len(records) > PENDING_RECORDS_MAX:
            self._pending_end = -1
            return
        pending.extend(records)
        self._pending_end = end

    @property
    def remembers(self) -> bool:
        """Whether what comes next need not be read from the log."""
        return bool(self._pending) and self.dispatched_offset >= self._pending_start

    def dispatch_to(self, confirm_offset: int) -> list[QueueGrowth]:
        """Builds entries of all messages that end at or below `confirm_offset`: [(topic, queue id,
        new end slot)].
        """
        target = min(confirm_offset, self._log.end_offset)
        before = self.dispatched_offset
        if target <= before:
            return []
        try:
            grown = self._dispatch(target)
        except OSError as error:
            self._refused(before, error)
            return []
        return [(topic, queue_id, end) for (topic, queue_id), end in grown.items()]

    def _refused(self, before: int, error: OSError) -> None:
        """Entries are repeatable and the log holds everything: tried again with the next confirm
        offset.
        """
        self.restart_at(before)
        self._say(before, f"queue files cannot be written: {error}; free space or replace the disk")

    def _dispatch(self, target: int) -> dict[tuple[str, int], int]:
        grown: dict[tuple[str, int], int] = {}
        self._read_to(min(target, self._pending_start) if self._pending else target, grown)
        if self.remembers:
            start = self.dispatched_offset
            taken = self._take_pending(target)
            grown.update(self.build(taken))
            if self.index is not None:
                self.index.put(start, taken, self.dispatched_offset)
            if not self._pending:
                self._read_to(target, grown)
        return grown

    def _read_to(self, target: int, grown: dict[tuple[str, int], int]) -> None:
        while (piece := self.next_piece(target)) is not None:
            self._take(piece, piece.run(), grown)
            if self.dispatched_offset == piece.start:
                break
        if target > self.dispatched_offset:
            self._walk(target, grown)

    def _walk(self, target: int, grown: dict[tuple[str, int], int], *, few: bool = False) -> None:
        """One message after the other."""
        walk = self._log.walk(self.dispatched_offset, target, check_body=False)
        records = iter(walk) if not few else _few(walk)
        grown.update(
            self.build(records if self.index is None else self._indexed(records, walk, self.index))
        )
        self.dispatched_offset = walk.end
        self.stuck = walk.reason if walk.reason and not walk.incomplete else None
        if self.stuck is not None:
            self._say(walk.end, f"{self.stuck}; start this replica with an empty store")

    # -- long runs

    def next_piece(self, confirm_offset: int, most_bytes: int = 0) -> Piece | None:
        """The first part, PIECE_BYTES or `most_bytes`, of a long way to `confirm_offset`; None when
        it is short.

        Its messages are not given to the key index, which follows by itself.
        """
        start, target = self.dispatched_offset, min(confirm_offset, self._log.end_offset)
        if self._pending:
            target = min(target, self._pending_start)
        if target - start < PIECE_BYTES_MIN:
            return None
        place = self._log.file_range(start, min(most_bytes or PIECE_BYTES, target - start))
        return None if place is None else Piece(start, target, self._life, place, self._log.starts)

    def fits(self, piece: Piece) -> bool:
        """Whether its entries come next: the log was not cut since it was handed out."""
        return piece.life == self._life and piece.start == self.dispatched_offset

    def take(self, piece: Piece, made: EntryRuns) -> list[QueueGrowth]:
        """Writes the entries of a piece that fits."""
        grown: dict[tuple[str, int], int] = {}
        if not self.fits(piece):
            return []
        try:
            self._take(piece, made, grown)
        except OSError as error:
            self._refused(piece.start, error)
            return []
        return [(topic, queue_id, end) for (topic, queue_id), end in grown.items()]

    def _take(self, piece: Piece, made: EntryRuns, grown: dict[tuple[str, int], int]) -> None:
        self.write_runs(made, grown)
        if made.end > piece.start:
            self.dispatched_offset = made.end
        else:
            self._walk(piece.limit, grown, few=True)

    def write_runs(self, made: EntryRuns, grown: dict[tuple[str, int], int]) -> None:
        """As `build`, of messages of one log file; adds to `grown`."""
        for run in made.runs:
            self._write_run((run.topic, run.queue_id), run, grown)
        self.last_store_ms = made.store_ms or self.last_store_ms

    @staticmethod
    def _indexed(
        records: Iterator[Record], walk: RecordWalk, index: MessageIndex
    ) -> Iterator[Record]:
        """The walk's records, each given to the index once its queue has it."""
        start, seen = walk.end, []
        for record in records:
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
        """Writes the entries of `records` (in log order) and returns the new end slot of every
        queue that grew.

        Entries of one log file are written before those of the next, so that after a kill only the
        file that holds the highest dispatched message can lack some.
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

    def _write_runs(
        self, runs: dict[tuple[str, int], _Run], grown: dict[tuple[str, int], int]
    ) -> None:
        for key, run in runs.items():
            self._write_run(key, run, grown)
        runs.clear()

    def _write_run(
        self, key: tuple[str, int], run: _Run | QueueRun, grown: dict[tuple[str, int], int]
    ) -> None:
        if self.misplaced is not None and self._is_misplaced(key, run, self.misplaced):
            return
        queue = self._queues.get_or_create(*key)
        if queue is None or run.first_slot < 0:
            return
        try:
            if queue.append(run.first_slot, run.entries, run.last_physical):
                grown[key] = queue.max_offset
            if queue.taken is not None:
                self._tell_taken(key, *queue.taken)
                queue.taken = None
        except LogError as error:  # the other queues go on
            self._say(run.last_physical, str(error))

    def _is_misplaced(
        self, key: Key, run: _Run | QueueRun, misplaced: Callable[[Key, int, int, int], bool]
    ) -> bool:
        queue = self._queues.get(*key)
        if queue is not None and run.first_slot < queue.max_offset:
            return False  # its slot is taken, and stays so
        physical, size, _ = ENTRY.unpack_from(run.entries)
        return misplaced(key, run.first_slot, physical, size)

    def _tell_taken(self, key: tuple[str, int], slot: int, physical: int, size: int) -> None:
        place = Place(physical, size, key[0].encode("utf-8", "surrogateescape"), key[1], slot)
        self.hidden.append(
            BadRecord(place, "its place in the queue is taken by another message", proven=False)
        )
        _log.error(
            "message at %d is not shown: slot %d of queue %d of %s is taken by another one",
            physical,
            slot,
            key[1],
            key[0],
        )


def _few(walk: RecordWalk) -> Iterator[Record]:
    limit = walk.end + PIECE_BYTES
    for number, record in enumerate(walk, 1):
        yield record
        if number == SINGLY or walk.end >= limit:
            return
