"""
The store of one replica on a simulated disk: log, queue, checkpoint and epochs, across kills and power losses.

Responsible for: bytes, when they are on the medium, a disk that is full, slow or in trouble.
Refuses to know: what opening a store decides (brokers.log.recovery_plan), what a record is, who may be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from brokers.log import integrity, recovery_plan, segments
from brokers.log.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from brokers.log.commit_log import store_ms_of
from brokers.log.errors import DiskFull
from brokers.log.integrity import Place
from brokers.log.records import MAGIC_V1, MAGIC_V2, MESSAGE_BYTES_MIN, size_and_magic
from brokers.log.recovery_plan import Confirmed, FileFacts, Known, RecoveryReport
from brokers.log.scan import LogWalk, end_of_valid_log, is_record_boundary
from brokers.registration import Identity, TempIdentity
from tests.simulation.blocks import Blocks, PowerCut, SmallFiles
from tests.simulation.world import World

FILE_BYTES = 4_096
CHECKPOINT, EPOCHS, EPOCH_SEEN = "checkpoint", "epochFileCheckpoint", "epochFileCheckpointSeen"


class SimulatedDisk:
    """
    It is the store of a replica as `brokers.replica.store_port.ReplicaStore` wants it.

    `room`: bytes that still fit, None without a limit. `slow_ms`: what a sync takes; `hang_ms`: what the next append does. `power_in`: writes until it is dark.
    """

    log_min = 0

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._files = SmallFiles(self._written)
        self.queue: list[Place | None] = []  # None: an entry that a power loss took
        self._queue_synced = self._cuts = 0
        self._sync_ends: list[Callable[[], None]] = []
        self.flushed_bytes = self.dispatched_offset = self.confirm_offset = self.last_store_ms = 0
        self.identity: Identity | None = None
        self.temp_identity: TempIdentity | None = None
        self.marker: dict[str, object] | None = None
        self.boot_id = self.errors_due = self.slow_ms = self.hang_ms = 0
        self.room: int | None = None
        self.power_in: int | None = None
        self.damage: tuple[int, int] | None = None
        self.abnormal = False
        self.distrusted = False  # bytes were lost and not caught up since
        self.trusted_end: int | None = None  # kept with the marker, as brokers.boot does

    @property
    def log(self) -> bytearray:
        return self._blocks.cached

    @property
    def epochs(self) -> str:
        return (self._files.read(EPOCHS) or b"").decode()

    @property
    def epoch_seen(self) -> int:
        return int(self._files.read(EPOCH_SEEN) or b"0")

    # -- the store of a replica --------------------------------------------------------------------

    @property
    def log_end(self) -> int:
        return len(self.log)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """Write at the end; a hole would be a bug of the caller. What was written before the disk was full stays."""
        assert offset == len(self.log), f"hole in the log: {offset}, it ends at {len(self.log)}"
        view = memoryview(data)
        for at, count in segments.split_by_file(offset, len(view), FILE_BYTES):
            self.append(view[at - offset : at - offset + count])

    def append(self, data: bytes | memoryview) -> None:
        """One write: all of it, or DiskFull, or OSError while the disk is in trouble."""
        self._trouble()
        if self.room is not None:
            if len(data) > self.room:
                raise DiskFull("no room for the commit log")
            self.room -= len(data)
        self._written()
        self._blocks.append(data)

    def truncate(self, to_offset: int) -> int:
        """Cut, durably; the new end. Written first: nothing may be called durable that a new master replaces."""
        for end in list(self._sync_ends):
            end()
        known = self._checkpoint()
        self.confirm_offset = min(self.confirm_offset, to_offset)
        lowered = replace(known, flushed_offset=min(known.flushed_offset or 0, to_offset), confirm_offset=self.confirm_offset)
        self._cuts += 1
        self._replace_checkpoint(lowered)
        self._cut_to(to_offset)
        self.flushed_bytes = min(self.flushed_bytes, to_offset)
        return len(self.log)

    def _cut_to(self, to_offset: int) -> None:
        self._blocks.cut(to_offset, segments.file_start(to_offset, FILE_BYTES))
        self.dispatched_offset = min(self.dispatched_offset, to_offset)
        while self.queue and (self.queue[-1] is None or self.queue[-1].offset >= to_offset):
            self.queue.pop()
        self._queue_synced = min(self._queue_synced, len(self.queue))

    def is_message_start(self, offset: int) -> bool:
        return is_record_boundary(self.read_log, offset, len(self.log), FILE_BYTES)

    def read_log(self, offset: int, max_bytes: int) -> bytes:
        """Bytes from `offset`, never across the end of a file."""
        file_end = offset - offset % FILE_BYTES + FILE_BYTES
        return bytes(self.log[offset : min(offset + max_bytes, file_end)])

    def write_epochs(self, text: str, epoch_seen: int) -> None:
        self._trouble()
        if epoch_seen != self.epoch_seen:
            self._files.replace(EPOCH_SEEN, str(epoch_seen).encode())
        if text != self.epochs:
            self._files.replace(EPOCHS, text.encode())

    def _trouble(self) -> None:
        if self.errors_due:
            self.errors_due -= 1
            raise OSError("simulated disk error")

    def _written(self) -> None:
        """Before each write: the power may go just here."""
        if self.power_in is not None:
            self.power_in -= 1
            if self.power_in < 0:
                raise PowerCut

    # -- queue -------------------------------------------------------------------------------------

    def dispatch_to(self, confirm_offset: int) -> None:
        """Queues are built for complete records only."""
        target = min(confirm_offset, len(self.log))  # after a write for which there was no room
        self.confirm_offset = max(self.confirm_offset, target)
        walk = LogWalk(self.read_log, self.dispatched_offset, target, FILE_BYTES, check_body=False)
        self._enter(walk)
        self.dispatched_offset = walk.end

    def _enter(self, records: LogWalk | Confirmed) -> None:
        last = self._last_dispatched()
        for record in records:
            if record.physical_offset > last:
                self.queue.append(Place(record.physical_offset, record.size, b"", None, len(self.queue)))
            self.last_store_ms = record.store_ms

    def _last_dispatched(self) -> int:
        return next((entry.offset for entry in reversed(self.queue) if entry is not None), -1)

    def served(self, slot: int) -> tuple[bytes, str]:
        """(the message of a slot, what is wrong with it)."""
        place = self.queue[slot]
        assert place is not None, "an entry that a power loss took is still in the queue"
        data = bytes(self.log[place.offset : place.offset + place.size])
        return data, integrity.problem(data, place)

    # -- syncs -------------------------------------------------------------------------------------

    def begin_sync(self, done: Callable[[int], None]) -> Callable[[], None]:
        """A sync of the log; call what it returns when it is over (`slow_ms` later): `done` hears what is durable."""
        target, blocks = len(self.log), self._blocks.dirty()

        def end() -> None:
            if end in self._sync_ends:
                self._sync_ends.remove(end)
                self._blocks.sync(blocks)
                self.flushed_bytes = max(self.flushed_bytes, min(target, len(self.log)))
                done(self.flushed_bytes)

        self._sync_ends.append(end)
        return end

    def begin_checkpoint(self) -> Callable[[], None]:
        """A sync of log and queue; then the checkpoint tells of it, unless the log was cut meanwhile."""
        dispatched, stored_ms, cuts, entries = self.dispatched_offset, self.last_store_ms, self._cuts, len(self.queue)

        def durable(flushed: int) -> None:
            self._queue_synced = max(self._queue_synced, min(entries, len(self.queue)))
            if cuts == self._cuts:
                self._replace_checkpoint(Checkpoint(stored_ms, stored_ms, 0, min(flushed, dispatched), self.confirm_offset))

        return self.begin_sync(durable)

    def _checkpoint(self) -> Checkpoint:
        data = self._files.read(CHECKPOINT)
        return Checkpoint() if data is None else decode_checkpoint(data)

    def _replace_checkpoint(self, checkpoint: Checkpoint) -> None:
        if checkpoint != self._checkpoint():
            self._files.replace(CHECKPOINT, encode_checkpoint(checkpoint))

    def is_stable(self, start: int, end: int) -> bool:
        return self._blocks.is_stable(start, end)

    # -- life --------------------------------------------------------------------------------------

    def close(self) -> None:
        """The orderly end of a run: all is synced and written down."""
        self.begin_checkpoint()()
        self.abnormal = False

    def open(self, *, same_boot: bool) -> RecoveryReport:
        """What opening the store does: facts to `recovery_plan`, and what it says to the bytes."""
        self.errors_due, self.power_in = 0, None
        self._sync_ends.clear()
        known = self._checkpoint()
        facts = Known(known.recovery_ms, known.flushed_offset, known.confirm_offset, self.abnormal, same_boot)
        self.abnormal = True
        self._blocks.cached.extend(bytes(-len(self.log) % FILE_BYTES))  # files are made in their full size
        files = [FileFacts(start, self._first_ms(start)) for start in range(0, len(self.log), FILE_BYTES)]
        if not files:
            self.queue.clear()
            report = recovery_plan.settle_empty(facts)
        else:
            report = self._carry_out(facts, files)
        self.confirm_offset = report.confirm_offset
        self.flushed_bytes = report.durable_end
        return report

    def _carry_out(self, known: Known, files: list[FileFacts]) -> RecoveryReport:
        made = recovery_plan.plan(files, FILE_BYTES, known)
        if made.queues_valid_below is not None:
            self._keep_queue_below(made.queues_valid_below)
        last = self._last_dispatched()
        start = recovery_plan.scan_from(made, files, last)
        walk = LogWalk(self.read_log, start, len(self.log), FILE_BYTES, check_body=True, written_end=made.written_end)
        read = Confirmed(walk, made, last)
        self.dispatched_offset = start
        self._enter(read)
        end = read.walk.end
        cut_bytes = len(bytes(self.log[end:]).rstrip(b"\0"))
        self._cut_to(end)
        self.dispatched_offset = max(read.end, start) if end > start else end
        return recovery_plan.settle(known, made, read, start=start, log_min=0, file_bytes=FILE_BYTES, cut_bytes=cut_bytes)

    def _keep_queue_below(self, offset: int) -> None:
        keep = next((at for at, entry in enumerate(self.queue) if entry is None or entry.offset >= offset), len(self.queue))
        del self.queue[keep:]

    def _first_ms(self, start: int) -> int | None:
        head = self.read_log(start, MESSAGE_BYTES_MIN)
        return store_ms_of(head) if size_and_magic(head, 0)[1] in (MAGIC_V1, MAGIC_V2) else None

    def whole_below(self, limit: int) -> int:
        """Record border at or below `limit`, as `local_replica` finds it for an unclean start."""
        start = segments.file_start(limit, FILE_BYTES)
        return end_of_valid_log(self.read_log, start, limit, FILE_BYTES)[0] if start < limit else limit

    def vouches_for(self, place: Place) -> bool:
        """Whether the checkpoint calls this message durable."""
        return place.offset + place.size <= (self._checkpoint().flushed_offset or 0)

    def flip(self, at: int, bit: int) -> None:
        """A bit of the medium turns over, until `mend`."""
        self._blocks.flip(at, bit)
        self.damage, self.distrusted = (at, bit), True

    def mend(self) -> bool:
        """Puts a damaged byte back that the start did not read, as a scrub would; whether it was still there."""
        damage, self.damage = self.damage, None
        if damage is None or damage[0] >= len(self.log):
            return False
        self._blocks.flip(*damage)
        return True

    def lose_power(self, world: World) -> int:
        """What was not synced is at the mercy of chance, block by block; the bytes lost."""
        lost = self._blocks.lose_power(world)
        self._files.lose_power(world)
        for slot in range(self._queue_synced, len(self.queue)):
            if world.one_in(3):
                self.queue[slot] = None
        self.boot_id += 1
        self.power_in = None
        self.distrusted = True
        return lost

    def wipe(self) -> None:
        """A new, empty disk."""
        self.__init__()  # type: ignore[misc]
