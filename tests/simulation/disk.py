"""The store of one replica on a simulated disk: log, queues, checkpoint and epochs, across kills
and power losses.

Responsible for: when bytes are on the medium, a disk that is full, slow or in trouble; what
`brokers.store.store` does with the product's own appender, dispatcher and recovery.
Refuses to know: what opening a store decides, which entry a message gets, what a record is, who may
be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace

from brokers.membership.registration import Identity, TempIdentity
from brokers.store import trimming
from brokers.store.appender import Appender
from brokers.store.files.errors import DiskFull
from brokers.store.log import integrity, retention, segments
from brokers.store.log.held_time import HeldTime
from brokers.store.log.integrity import Place
from brokers.store.log.records import MessageFields
from brokers.store.log.scan import end_of_valid_log
from brokers.store.queues.dispatch import Dispatcher
from brokers.store.queues.entries import Entry
from brokers.store.queues.repair import cut_queues
from brokers.store.recovery import recovery as opening
from brokers.store.recovery.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from brokers.store.recovery.plan import RecoveryReport
from tests.simulation.blocks import Blocks, PowerCut, SmallFiles
from tests.simulation.sim_log import FILE_BYTES, SimulatedLog
from tests.simulation.sim_queues import SimulatedQueue, SimulatedQueues
from tests.simulation.world import World

CHECKPOINT, EPOCHS, EPOCH_SEEN = "checkpoint", "epochFileCheckpoint", "epochFileCheckpointSeen"
EPOCHS_BACKUP = "epochFileCheckpoint.bak"
IDENTITY, MARKER = "brokerIdentity", "runMarker"
TOPIC, QUEUE_ID = "simulated", 0


class SimulatedDisk:
    """It is the store of a replica as `brokers.replica.store_port.ReplicaStore` wants it.

    `room`: bytes that still fit, None without a limit. `slow_ms`: what a sync takes; `hang_ms`:
    what the next append does. `power_in`: writes until it is dark.
    """

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._files = SmallFiles(self._written)
        self.store_log = SimulatedLog(self._blocks, self._written)
        self.queues = SimulatedQueues()
        self._begin_life()
        self._cuts = 0
        self._sync_ends: list[Callable[[], None]] = []
        self.flushed_bytes = self.confirm_offset = 0
        self.full = False  # as full as it may be: no new message is taken
        self.used_percent = 0.0
        self.held = HeldTime()  # with the store, as `process.retention` keeps it
        self.identity: Identity | None = None
        self.temp_identity: TempIdentity | None = None
        self.marker: dict[str, object] | None = None
        self.boot_id = self.errors_due = self.slow_ms = self.hang_ms = 0
        self.power_in: int | None = None
        self.damage: tuple[int, int] | None = None
        self.abnormal = False
        self.distrusted = False  # bytes were lost and not caught up since
        # Kept with the marker, as brokers.store.recovery.boot does.
        self.trusted_end: int | None = None

    def _begin_life(self) -> None:
        """What a process keeps in memory."""
        self.dispatcher = Dispatcher(self.store_log, self.queues)  # type: ignore[arg-type]
        self._appender = Appender(self.store_log, self.queues, self.dispatcher)  # type: ignore[arg-type]

    @property
    def log(self) -> bytearray:
        """By offset; zeros where files are gone."""
        return self._blocks.cached

    @property
    def room(self) -> int | None:
        return self.store_log.room

    @room.setter
    def room(self, count: int | None) -> None:
        self.store_log.room = count

    @property
    def epochs(self) -> str:
        return (self._files.read(EPOCHS) or self._files.read(EPOCHS_BACKUP) or b"").decode()

    @property
    def epochs_from_backup(self) -> bool:
        """Only the second copy is there."""
        return self._files.read(EPOCHS) is None and self._files.read(EPOCHS_BACKUP) is not None

    @property
    def has_lived(self) -> bool:
        """One of `brokers.store.recovery.boot.EARLIER_LIFE_NAMES` is there."""
        return self.identity is not None or any(
            self._files.read(name) is not None for name in (EPOCHS, EPOCHS_BACKUP, EPOCH_SEEN)
        )

    @property
    def is_intact(self) -> bool:
        """Nothing was lost that was not copied again, and nothing is about to be."""
        return not self.distrusted and self.power_in is None and not self.errors_due

    @property
    def epoch_seen(self) -> int:
        return int(self._files.read(EPOCH_SEEN) or b"0")

    # -- the store of a replica --------------------------------------------------------------------

    @property
    def log_end(self) -> int:
        return self.store_log.end_offset

    @property
    def log_min(self) -> int:
        return self.store_log.min_offset

    @property
    def dispatched_offset(self) -> int:
        return self.dispatcher.dispatched_offset

    def put(self, messages: Sequence[MessageFields], now_ms: int) -> int:
        """A master's new messages, one behind the other; where they begin. Errors as with
        `MessageStore.put_many`.
        """
        self._trouble()
        if self.full:
            raise DiskFull("the disk is as full as it may be")
        (result,) = self._appender.put_many((messages,), now_ms)
        if isinstance(result, Exception):
            raise result
        return result.physical_offset

    def mastership_begins(self) -> None:
        """Slots go on behind all of the log."""
        self._appender.rebuild_queue_offsets()

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """As `MessageStore.append_raw`."""
        self._trouble()
        self._appender.forget_queue_offsets()
        began = not self.store_log.file_starts
        try:
            self.store_log.append_raw(offset, data)
        finally:
            if began and self.store_log.file_starts:
                self.dispatcher.restart_at(self.log_min)

    def truncate(self, to_offset: int) -> int:
        """Cut, durably; the new end. Written first: nothing may be called durable that a new master
        replaces.
        """
        for end in list(self._sync_ends):
            end()
        self._appender.forget_queue_offsets()
        emptied = to_offset < self.log_min or not to_offset
        known, below = self._checkpoint(), 0 if emptied else to_offset
        self.confirm_offset = min(self.confirm_offset, below)
        lowered = replace(
            known,
            flushed_offset=min(known.flushed_offset or 0, below),
            confirm_offset=self.confirm_offset,
        )
        self._cuts += 1
        self._replace_checkpoint(lowered)
        self.store_log.truncate(to_offset)
        cut_queues(self.store_log, self.queues, -1 if emptied else to_offset)  # type: ignore[arg-type]
        self.dispatcher.restart_at(min(self.dispatched_offset, self.log_end))
        self.flushed_bytes = min(self.flushed_bytes, to_offset)
        return self.log_end

    # -- retention

    def oldest_files(self, ran_ms: int) -> list[retention.LogFile]:
        """`ran_ms`: how long the broker ran since it asked last, or started."""
        starts = self.store_log.file_starts
        self.held = self.held.after(ran_ms, starts, self.store_log.store_ms_at)
        return self.held.oldest(starts)

    @property
    def remembered_offset(self) -> int:
        """As `MessageStore.remembered_offset`: what is durable, with its queues."""
        return min(self._checkpoint().flushed_offset or 0, self.dispatched_offset)

    def trim(self, below: int) -> None:
        """As the product: out of use at once, then the oldest file first."""
        before = self.log_min
        trimming.trim(self.store_log, self.queues, below, self.remembered_offset)  # type: ignore[arg-type]
        for start in range(before, self.log_min, FILE_BYTES):
            self.store_log.remove_file(start)

    def is_message_start(self, offset: int) -> bool:
        return self.store_log.is_record_boundary(offset)

    def read_log(self, offset: int, max_bytes: int) -> bytes:
        return self.store_log.read(offset, max_bytes)

    def keep_bytes(self, first: int, last: int) -> None:
        """Only sets without controllers keep copies, and these worlds have none."""

    def write_epochs(self, text: str, epoch_seen: int) -> None:
        self._trouble()
        if epoch_seen != self.epoch_seen:
            self._files.replace(EPOCH_SEEN, str(epoch_seen).encode())
        if text != self.epochs:
            self._files.replace(EPOCHS, text.encode())
            self._files.write(EPOCHS_BACKUP, text.encode())

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
        """As `MessageStore.dispatch_to`."""
        self.confirm_offset = max(self.confirm_offset, min(confirm_offset, self.log_end))
        self.dispatcher.dispatch_to(confirm_offset)

    @property
    def queue(self) -> SimulatedQueue:
        return self.queues.get_or_create(TOPIC, QUEUE_ID)

    def slots(self) -> range:
        """Those whose messages the log still has."""
        return range(self.queue.min_offset(self.log_min), self.queue.max_offset)

    def place(self, slot: int) -> Place:
        """Where the entry of a slot leads."""
        entry: Entry = self.queue.read(slot, 1)[0]
        return Place(entry.physical_offset, entry.size, TOPIC.encode(), QUEUE_ID, slot)

    def served(self, slot: int) -> tuple[bytes, str]:
        """(the message of a slot, what is wrong with it)."""
        place = self.place(slot)
        data = bytes(self.log[place.offset : place.offset + place.size])
        return data, integrity.problem(data, place)

    # -- syncs -------------------------------------------------------------------------------------

    def begin_sync(self, done: Callable[[int], None]) -> Callable[[], None]:
        """A sync of the log; call what it returns when it is over (`slow_ms` later): `done` hears
        what is durable.
        """
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
        """A sync of log and queue; then the checkpoint tells of it, unless the log was cut
        meanwhile.
        """
        dispatched, stored_ms, cuts, entries = (
            self.dispatched_offset,
            self.dispatcher.last_store_ms,
            self._cuts,
            self.queues.ends(),
        )

        def durable(flushed: int) -> None:
            self.queues.synced(entries)
            if cuts == self._cuts:
                confirmed = min(self.confirm_offset, self.dispatched_offset)
                self._replace_checkpoint(
                    Checkpoint(stored_ms, stored_ms, 0, min(flushed, dispatched), confirmed)
                )

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
        """What opening the store does, by `brokers.store.recovery.recovery`."""
        self.errors_due, self.power_in, self.full = 0, None, False
        self._sync_ends.clear()
        self._begin_life()
        abnormal, self.abnormal = self.abnormal, True
        self.store_log.open_files()
        report = opening.recover(
            self.store_log,
            self.queues,
            self.dispatcher,
            self._checkpoint(),
            abnormal=abnormal,
            same_boot=same_boot,  # type: ignore[arg-type]
        )
        self.confirm_offset = report.confirm_offset
        self.flushed_bytes = report.durable_end
        return report

    def whole_below(self, limit: int) -> int:
        """Record border at or below `limit`, as `process.replica` finds it for an unclean start."""
        start = max(segments.file_start(limit, FILE_BYTES), self.log_min)
        return (
            end_of_valid_log(self.read_log, start, limit, FILE_BYTES)[0] if start < limit else limit
        )

    def vouches_for(self, place: Place) -> bool:
        """Whether the checkpoint calls this message durable."""
        return place.offset + place.size <= (self._checkpoint().flushed_offset or 0)

    def flip(self, at: int, bit: int) -> None:
        """A bit of the medium turns over, until `mend`."""
        self._blocks.flip(at, bit)
        self.damage, self.distrusted = (at, bit), True

    def mend(self) -> bool:
        """Puts a damaged byte back that the start did not read, as a scrub would; whether it was
        still there.
        """
        damage, self.damage = self.damage, None
        if damage is None or not self.log_min <= damage[0] < len(self.log):
            return False
        self._blocks.flip(*damage)
        return True

    def lose_power(self, world: World) -> int:
        """What was not synced is at the mercy of chance, block by block; the bytes lost."""
        lost = self._blocks.lose_power(world)
        self._files.lose_power(world)
        self.queues.lose_power(world)
        self.boot_id += 1
        self.power_in = None
        self.distrusted = True
        return lost

    def wipe(self, *, keep_identity: bool = False) -> None:
        """A new, empty disk; its owner may have put the identity back."""
        identity, boot_id = self.identity, self.boot_id
        self.__init__()  # type: ignore[misc]
        self.boot_id = boot_id
        self.identity = identity if keep_identity else None
        self.distrusted = True

    def copy(self) -> SimulatedDisk:
        """A backup, as `rsync` of a running broker makes it."""
        self._sync_ends, ends = [], self._sync_ends
        made = deepcopy(self)
        self._sync_ends = ends
        made._blocks.sync(made._blocks.dirty())
        return made

    def remove(self, name: str) -> None:
        """Somebody deletes one file of the store folder."""
        if name == IDENTITY:
            self.identity = None
        elif name == MARKER:
            self.marker = None
        else:
            self._files.remove(name)
