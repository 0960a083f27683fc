"""The message store of one replica: log, queues, checkpoint and recovery behind one object.

Responsible for: PROTOCOL 3 as a whole: places and queue offsets of messages,
reading by queue, cutting.
Refuses to know: roles, replication, waiting for acknowledgements, the protocol, clocks (the caller
passes the time).

One thread uses the store; what may run on another says so.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from typing import Protocol

from brokers.store.appender import Appender, PutResult
from brokers.store.files.disk import PAGE_BYTES
from brokers.store.files.disk_space import Spare, full_disk_told
from brokers.store.files.durable import AbortMarker, StoreLock
from brokers.store.files.errors import DiskFull, LogError, is_unreadable
from brokers.store.files.open_files import OPEN_FILES_MAX
from brokers.store.index.index import ENTRIES_MAX_DEFAULT, SLOTS_DEFAULT, open_index
from brokers.store.log import cut_bytes, segments
from brokers.store.log.commit_log import FILE_BYTES_DEFAULT, CommitLog
from brokers.store.log.message_log import FileRange, MessageLog
from brokers.store.log.records import MessageFields, RecordError
from brokers.store.queue_reads import QueueReads
from brokers.store.queues.consume_queues import FILE_BYTES_DEFAULT as QUEUE_FILE_BYTES_DEFAULT
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher, QueueGrowth
from brokers.store.queues.queue_ends import QueueEnd, QueueEnds, Remembered
from brokers.store.queues.repair import Misplaced, cut_queues, enter
from brokers.store.recovery.checkpoint import (
    CHECKPOINT_NAME,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from brokers.store.recovery.plan import RecoveryReport
from brokers.store.recovery.recovery import recover

_log = logging.getLogger("regent.store")


# of the machine's: messages within it count as not cold (accessMessageInMemoryMaxRatio)
MEMORY_PERCENT = 40
# Where members of majority groups have their entries.
ENTRIES_PATTERN = "dledger-*/data"


class Appends(Protocol):
    """How new messages come into the log: see `MessageStore.put_many`, `QueueOffsets`."""

    def put_many(
        self, groups: Sequence[Sequence[MessageFields]], now_ms: int
    ) -> list[PutResult | RecordError]: ...
    def forget_queue_offsets(self) -> None: ...
    def rebuild_queue_offsets(self) -> None: ...
    def waiting_from(self, key: tuple[str, int]) -> int | None: ...


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """File sizes in bytes (all replicas of a set need the same log file size)."""

    log_file_bytes: int = FILE_BYTES_DEFAULT
    queue_file_bytes: int = QUEUE_FILE_BYTES_DEFAULT
    open_queue_files_max: int = OPEN_FILES_MAX
    message_index: bool = True
    index_slots: int = SLOTS_DEFAULT
    index_entries_max: int = ENTRIES_MAX_DEFAULT


class MessageStore(QueueReads):
    """Open with `MessageStore(root, config)`; `recovery` tells what was found.

    `log_end`, `confirm_offset` in bytes. `confirm_offset` is the highest given to `dispatch_to`,
    and what recovery knew. `is_mended`: damaged bytes of its log are replaced by other replicas'.
    """

    is_mended = True

    def __init__(
        self, root: Path | str, config: StoreConfig | None = None, *, same_boot: bool = False
    ) -> None:
        """Opens and recovers. LogError (one line, with the way out) when the folder is in use or
        its files do not fit.

        `same_boot`: the caller knows that the machine has not restarted since the last run, so
        written bytes are there even without a flush; otherwise an unfinished run is read from the
        last checkpoint on.
        """
        self.root = Path(root)
        self.config = config or StoreConfig()
        self.root.mkdir(parents=True, exist_ok=True)
        self._lock = StoreLock(self.root)
        self.spare = Spare(self.root)
        self._records: CommitLog | None = None
        # for those that remember how far the log went
        self.before_cut: Callable[[int], None] = lambda offset: None
        # why no new message is taken although there may be room (retention)
        self.full: str | None = None
        try:
            self._open(same_boot)
        except OSError as error:
            self._lock.release()
            if not is_unreadable(error):
                raise
            raise LogError(
                f"{self.root} cannot be read: {error}; copy what can be read to a sound disk, or "
                "start this replica with an empty data folder"
            ) from error
        except BaseException:
            self._lock.release()
            raise

    def _open(self, same_boot: bool) -> None:
        self._abort = AbortMarker(self.root)
        self._checkpoint_path = self.root / CHECKPOINT_NAME
        self.log = self._open_log()
        sizes = (self.config.queue_file_bytes, self.config.open_queue_files_max)
        self.queues = ConsumeQueues(self.root / "consumequeue", *sizes)
        self.dispatcher = Dispatcher(self.log, self.queues)
        self._checkpoint_lock = threading.Lock()  # a checkpoint job beside a cut
        self._flushing = threading.Lock()  # a checkpoint job beside the next one
        self._jobs, self._job_done = count(), -1.0
        self._cuts = 0
        self._checkpoint = read_checkpoint(self._checkpoint_path)
        self.ends = QueueEnds(self.root)
        self.recovery: RecoveryReport = self._recover(self._abort.is_set(), same_boot)
        self.ends.settle(self.queues, self.log.end_offset)
        self.confirm_offset = self.recovery.confirm_offset
        # no entry points at or beyond it
        self._queued_end = max(self.queues.last_physical() + 1, self.confirm_offset)
        sizes, sound = (
            (self.config.index_slots, self.config.index_entries_max),
            not self.recovery.abnormal,
        )
        self.index = (
            open_index(self.root, self.log, *sizes, sound=sound)
            if self.config.message_index
            else None
        )
        self.dispatcher.index = self.index
        self._memory_bytes = (
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * MEMORY_PERCENT // 100
        )
        self._appender = self._make_appender()
        self.spare.run(self._abort.set)
        self._remember_expired()

    # -- what another kind of log has otherwise

    def _open_log(self) -> MessageLog:
        """The log; `_recover` follows. LogError where a log of the other kind is (D10)."""
        if any(self.root.glob(ENTRIES_PATTERN)):
            raise LogError(
                f"{self.root} holds the log of a member of a majority group: a set replicates in "
                "one way, so start this replica of an in-sync set with an empty folder"
            )
        self._records = CommitLog(self.root / "commitlog", self.config.log_file_bytes)
        return self._records

    def _recover(self, abnormal: bool, same_boot: bool) -> RecoveryReport:
        return recover(
            self.records,
            self.queues,
            self.dispatcher,
            self._checkpoint,
            abnormal=abnormal,
            same_boot=same_boot,
            ends=self.ends.ends,
            ends_offset=self.ends.offset,
        )

    def _make_appender(self) -> Appends:
        return Appender(self.records, self.queues, self.dispatcher, self.ends.floors)

    @property
    def records(self) -> CommitLog:
        """The log of a replica that holds a master's bytes as they come. LogError where it is of
        another kind.
        """
        if self._records is None:
            raise LogError("bytes of a master are not taken: this log is one of entries")
        return self._records

    def _remember_expired(self) -> None:
        """A folder that never had a file of ends, as Java's, has one before anything is served, if
        it has queues of which the log says nothing. Where there is no room, the next checkpoint
        writes it.
        """
        expired = self.ends.without_messages(self.queues, self.log.min_offset).ends
        if self.ends.remembered is not None or not expired:
            return
        try:
            self.checkpoint()
        except DiskFull as error:
            _log.warning("where queues go on is not on the disk yet: %s", error)

    # -- what is there

    @property
    def log_end(self) -> int:
        """End of the log."""
        return self.log.end_offset

    @property
    def log_min(self) -> int:
        """First offset kept."""
        return self.log.min_offset

    @property
    def durable_offset(self) -> int:
        """Everything below was confirmed and on this disk at the last checkpoint, a record border;
        0: nothing is known.
        """
        return self._checkpoint.flushed_offset or 0

    @property
    def dispatched_offset(self) -> int:
        """Every message that ends at or below it can be read through its queue."""
        return self.dispatcher.dispatched_offset

    @property
    def io_error(self) -> str | None:
        """Why the log takes no more bytes, None while it does. Such a replica counts as unclean
        (S5).
        """
        return self.log.io_error

    def writable(self) -> str | None:
        """Why an append was refused last; None while there is room, as far as anybody has tried."""
        return self.log.io_error or self.full or self.log.disk_full

    def queue_ids(self) -> list[tuple[str, int]]:
        """All (topic, queue id) with entries."""
        return [key for key, queue in self.queues if queue.max_offset > 0]

    # -- writing as master

    def put(self, message: MessageFields, now_ms: int) -> PutResult:
        """Appends one message, stored at `now_ms`. RecordError when it cannot be stored, LogError
        when the log cannot.
        """
        return self._only(self.put_many(((message,),), now_ms))

    def put_batch(self, messages: Sequence[MessageFields], now_ms: int) -> PutResult:
        """Appends `messages` one behind the other in one file (3.10); errors as with `put`, then
        none is stored.
        """
        return self._only(self.put_many((messages,), now_ms))

    @staticmethod
    def _only(results: list[PutResult | RecordError]) -> PutResult:
        if isinstance(results[0], RecordError):
            raise results[0]
        return results[0]

    def put_many(
        self, groups: Sequence[Sequence[MessageFields]], now_ms: int
    ) -> list[PutResult | RecordError]:
        """Appends groups of messages with as few writes as possible; each group stays within one
        file.

        A group that cannot be stored gets its RecordError and leaves the others alone. DiskFull:
        none is stored, and the log goes on. Another LogError: the log failed; what was written
        before counts as not acknowledged.
        """
        if self.full is not None:
            raise DiskFull(self.full)
        return self._appender.put_many(groups, now_ms)

    def rebuild_queue_offsets(self) -> None:
        """Queue offsets go on behind everything in the log, not yet dispatched messages included.

        Call on becoming master. Costs what is not dispatched, never what grows with the number of
        queues. LogError when the log does not end with a complete record.
        """
        self.ends.place(self.queues)
        self._appender.rebuild_queue_offsets()

    # -- writing as slave

    @property
    def stuck(self) -> str | None:
        """Why the log cannot be read behind `dispatched_offset`; None as far as that is known."""
        return self.dispatcher.stuck

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """Appends a master's bytes at `offset`, the log's end. LogError on a gap or when the log
        failed; DiskFull: some of the bytes may be there, see `log_end`.
        """
        self._appender.forget_queue_offsets()
        log = self.records
        began = not log.file_starts
        try:
            log.append_raw(offset, data)
        finally:
            if began and log.file_starts:
                self.dispatcher.restart_at(log.min_offset)

    def truncate(self, to_offset: int) -> int:
        """Cuts log, queues and queue offsets at `to_offset`, durably; returns the new end (2.6)."""
        log = self.records
        self._appender.forget_queue_offsets()
        emptied = to_offset < self.log.min_offset or not to_offset
        # a log copied anew may begin in front of where it began
        queued_end = self._forget_confirmed(to_offset, 0 if emptied else to_offset)
        if self.index is not None:
            self.index.cut(to_offset)
        if emptied:
            self.ends.hold(self.queues)
        log.truncate(to_offset)
        if emptied:
            cut_queues(self.log, self.queues, -1)
        elif to_offset < queued_end:
            # a promotion cuts behind them: it must not cost what grows with the number of queues
            cut_queues(self.log, self.queues, to_offset)
            self.ends.settle_cut(self.queues, to_offset)
        self.dispatcher.restart_at(min(self.dispatched_offset, self.log.end_offset))
        return self.log.end_offset

    def _forget_confirmed(self, to_offset: int, known_below: int) -> int:
        """Before a cut: after a crash nothing may call bytes confirmed or durable that a new master
        replaces. Returns where the log's last queue entries pointed.
        """
        with self._checkpoint_lock, full_disk_told("the log cannot be cut"):
            self._cuts += 1
            self.spare.run(lambda: self.before_cut(to_offset))
            queued_end = max(self._queued_end, self.confirm_offset)
            self.confirm_offset = min(self.confirm_offset, known_below)
            self._queued_end = min(queued_end, to_offset)
            known = self._checkpoint
            lowered = replace(
                known,
                flushed_offset=min(known.flushed_offset or 0, known_below),
                confirm_offset=self.confirm_offset,
            )
            self.spare.run(lambda: self._replace_checkpoint(lowered))
        return queued_end

    def is_message_start(self, offset: int) -> bool:
        """Whether the log may be cut at `offset` (2.6, step 4)."""
        return self.records.is_record_boundary(offset)

    def keep_bytes(self, first: int, last: int) -> None:
        """Copies a part of the log that is about to be cut to a file beside it, as far as there is
        room.
        """
        cut_bytes.keep(self.root, self.log.read, first, last)

    def repaired(self, offset: int, size: int) -> int:
        """The `size` bytes there are sound again. What lies there, and what begins on the same
        page, which could not be read either perhaps, gets its entry where its queue was made
        without it; how many did. OSError, LogError.
        """
        limit = min(
            segments.file_start(offset, self.log.file_bytes) + self.log.file_bytes,
            self.dispatched_offset,
        )
        last = offset + size + PAGE_BYTES - 1
        walk = self.log.walk(offset, limit, check_body=True)
        found = takewhile(lambda record: record.physical_offset < last - last % PAGE_BYTES, walk)
        waiting, misplaced = self._appender.waiting_from, Misplaced(self.log, self.queues)
        return sum(
            enter(self.queues, record, waiting((record.topic, record.queue_id)), misplaced)
            for record in found
        )

    # -- reading

    def read_log(self, offset: int, max_bytes: int) -> bytes:
        """Bytes of the log; ends at a file's end."""
        return self.log.read(offset, max_bytes)

    def file_range(self, offset: int, max_bytes: int) -> FileRange | None:
        """Bytes of the log as a range of an open file, never crossing one."""
        return self.log.file_range(offset, max_bytes)

    def dispatch_to(self, confirm_offset: int) -> list[QueueGrowth]:
        """Makes messages up to `confirm_offset` readable: [(topic, queue id, new max offset)] of
        the queues that grew.
        """
        self.note_confirmed(confirm_offset)
        return self.dispatcher.dispatch_to(confirm_offset)

    def note_confirmed(self, confirm_offset: int) -> None:
        """Everything below may be read once it is dispatched."""
        self.confirm_offset = max(self.confirm_offset, min(confirm_offset, self.log.end_offset))

    # -- durability

    def flush(self) -> int:
        """Makes the log durable; returns up to where. May run on any thread."""
        return self.log.flush()

    @property
    def remembered_offset(self) -> int:
        """Messages in front of it may go: where their queues go on is known without them."""
        return min(self.ends.offset, self.dispatched_offset)

    def checkpoint_job(self, *, last: bool = False) -> Callable[[], None]:
        """What makes log and queues durable and records it. Taken on the store's thread, to be
        called on any. `last`: nothing follows, so that all ends of queues are written however many
        there are.

        A job that begins late does nothing once a later one is done or the store is closed: what it
        knows is old, and the folder may be another life's.
        """
        dispatched, stored_ms, cuts = (
            self.dispatched_offset,
            self.dispatcher.last_store_ms,
            self._cuts,
        )
        unsynced = self.queues.take_unsynced()
        ends = self.ends.taken(self.queues, at_once=last)
        number = next(self._jobs)

        def run() -> None:
            with self._flushing:
                if number < self._job_done:
                    return
                try:
                    flushed = self.log.flush()
                    unsynced.sync()
                except DiskFull:
                    raise
                except OSError as error:  # never tried again: the kernel may have dropped the pages
                    raise self.log.fail("flush of the queues", error) from error
                self._write_checkpoint(min(flushed, dispatched), stored_ms, cuts, ends)
                self._job_done = number

        return run

    def checkpoint(self) -> None:
        """`checkpoint_job`, done at once."""
        self.checkpoint_job(last=True)()

    def _write_checkpoint(
        self, flushed: int, stored_ms: int, cuts: int, ends: dict[tuple[str, int], QueueEnd] | None
    ) -> None:
        """Unless the log was cut since the numbers were taken: they may name bytes that are
        gone.
        """
        with self._checkpoint_lock:
            if cuts == self._cuts:
                with full_disk_told("the checkpoint cannot be written"):
                    if ends is not None:
                        self.ends.write(Remembered(flushed, ends))
                    # At the end of a record: acknowledgements end within, and a start cuts a record
                    # that came in part.
                    confirmed = min(self.confirm_offset, self.dispatched_offset)
                    self._replace_checkpoint(
                        Checkpoint(stored_ms, stored_ms, 0, flushed, confirmed)
                    )

    def _replace_checkpoint(self, checkpoint: Checkpoint) -> None:
        """OSError: the old one stays, which is never wrong but before a cut."""
        if checkpoint != self._checkpoint:
            write_checkpoint(self._checkpoint_path, checkpoint)
            self._checkpoint = checkpoint

    def close(self, *, clean: bool = True) -> None:
        """Ends use of the folder. `clean`: flush, record and remove the abort marker; without it,
        as after a kill.
        """
        if not self._lock.is_held:
            return  # closed before: the folder may be another's by now
        try:
            if clean and self.log.io_error is None:
                self.checkpoint()
                self._abort.clear()
        finally:
            with self._flushing:
                self._job_done = math.inf
            if self.index is not None:
                self.index.close(flush=clean)
            self.log.close()
            self.queues.close()
            self._lock.release()
