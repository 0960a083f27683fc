"""The asyncio shell of a replica: performs the core's effects on sockets, store and epoch file.

Responsible for: one step at a time, effects strictly in order, disk before network; the tick;
waiting for the confirm offset. Refuses to know: what a step means (core.py), client requests, how
the controller is reached (hooks).

How a broker is put together from it:

    epoch_file = EpochFile(root / "epochFileCheckpoint"); epochs, seen = epoch_file.load() core =
    ReplicaCore(config, broker_id=..., incarnation=..., clean=... and not epoch_file.from_backup,
                       epochs=epochs, epoch_seen=seen, log_end=store.log_end, log_min=store.log_min,
                       confirm_offset=store.confirm_offset)
    driver = ReplicaDriver(core, store, epoch_file, ReplicaHooks(...)); driver.listen("127.0.0.1",
    10912); driver.start()
    driver.notice(RoleNotice(...))                      # from every answer and 1008 of the
    controller

    # a send, without an await between the first two lines:
    if refusal := driver.write_refusal(): ...       # answer code 1, nothing was written
    result = store.put(message, now); driver.log_grew(result.end_offset)
    outcome = await driver.wait_confirmed(result.end_offset, timeout_ms)   # CONFIRMED -> code 0,
    else 12
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from brokers.ha.epoch_file import EpochFile
from brokers.ha.epochs import EpochHistory
from brokers.ha.transport import HaTransport, LinkOwner, Resolve
from brokers.replica import effects as fx
from brokers.replica.core_port import Core
from brokers.replica.durable_acks import DurableAcks
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus
from brokers.replica.hooks import AlterResult, BrokerTeller, ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.replica.store_port import ReplicaStore, cut, cut_diverged, equal_bytes, has_record
from brokers.replica.waiters import Confirmation, ConfirmWaiters
from brokers.store.files.errors import DiskFull, LogError

__all__ = ["AlterResult", "Confirmation", "ReplicaDriver", "ReplicaHooks"]

logger = logging.getLogger("regent.broker.replica")

TICK_MS = 25


class ReplicaDriver:
    """Invariant: the core knows of every byte in the store before anything else happens to it."""

    def __init__(
        self,
        core: Core,
        store: ReplicaStore,
        epoch_file: EpochFile,
        hooks: ReplicaHooks,
        *,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        flush: Callable[[int, Callable[[bool], None]], None] | None = None,
        transport: Callable[[LinkOwner, Resolve], HaTransport] = HaTransport,
    ) -> None:
        """Needs a running event loop; everything is called on it. `flush`: makes everything below
        an offset durable and reports it; masters then hear of durable bytes only. None: they hear
        of written bytes. `transport`: what carries the links.
        """
        self.core = core
        self._store = store
        self._epoch_file = epoch_file
        self._hooks = hooks
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._transport = transport(self, store.file_range)
        self._acks = None if flush is None else DurableAcks(flush, self._transport.send)
        self._outbound = 0  # the link to the master
        self._waiters: ConfirmWaiters[asyncio.Future[Confirmation]] = ConfirmWaiters(_release)
        self._grown_to: int | None = None
        self._queue: deque[fx.Effect] = deque()
        self._performing = False
        self._stopped = False
        self._tick_handle: asyncio.TimerHandle | None = None
        self._teller = BrokerTeller(hooks, self._on_alter_result)

    # -- life -------------------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> int:
        """Accept HA links; returns the port bound. OSError when it is taken."""
        return self._transport.listen(host, port)

    def start(self) -> None:
        """Begin to tick. The replica is FENCED until a notice comes."""
        self._tick()

    async def stop(self) -> None:
        """Close links, abort waiters, end tasks. The store stays open; it is the caller's."""
        self._stopped = True
        if self._tick_handle is not None:
            self._tick_handle.cancel()
        self._transport.close()
        self._waiters.abort()
        await self._teller.stop()

    def _tick(self) -> None:
        if self._stopped:
            return
        self._tick_handle = self._loop.call_later(TICK_MS / 1000, self._tick)
        self._step(self.core.tick)
        if (reason := self._store.stuck) is not None:
            self._step(self.core.log_stuck, self._store.dispatched_offset, reason)
        self._waiters.expire(self._clock_ms())

    # -- for the broker ----------------------------------------------------------------------------

    def notice(self, notice: RoleNotice, *, disk_hangs: bool = False) -> None:
        """Whatever the controller said about the set. `disk_hangs`: the disk does not answer, and a
        step that writes would stop this process.
        """
        self._step(partial(self.core.on_role_notice, notice, disk_hangs=disk_hangs))

    def ha_address_told(self, master_address: str, ha_address: str, word: HaAddressSource) -> None:
        """Somebody says where that master takes HA links."""
        self._step(self.core.ha_address_told, master_address, ha_address, word)

    def step(self, method: Callable[..., list[fx.Effect]], *args: object) -> None:
        """An input that only one kind of core has; `now_ms` is added."""
        self._step(method, *args)

    def ha_status(self) -> HaStatus:
        """The HA links of this moment."""
        return self.core.ha_status(self._transport.peer, self._clock_ms())

    def write_refusal(self) -> str | None:
        """Why a write must be refused now; None when it may be put into the store at once."""
        return "stopped" if self._stopped else self.core.write_refusal()

    def log_grew(self, end_offset: int) -> None:
        """The master put messages up to `end_offset` into the store. Growth of one turn of the
        event loop goes out together.
        """
        if self._grown_to is None:
            self._loop.call_soon(self._step, _nothing)
        self._grown_to = end_offset

    async def wait_confirmed(self, end_offset: int, timeout_ms: int) -> Confirmation:
        """Until everything below it is confirmed. Only CONFIRMED is success; the others mean
        unknown: the bytes are in this log and may be confirmed later, or be cut.
        """
        return await self.confirmation(end_offset, timeout_ms)

    def confirmation(self, end_offset: int, timeout_ms: int) -> asyncio.Future[Confirmation]:
        """As wait_confirmed, as a future: for many waits without a task each."""
        future: asyncio.Future[Confirmation] = self._loop.create_future()
        if self._stopped or not self.core.is_master:
            future.set_result(Confirmation.ABORTED)
        elif end_offset <= self.core.acknowledged_offset:
            future.set_result(Confirmation.CONFIRMED)
        elif not self._waiters.add(end_offset, self._clock_ms() + timeout_ms, future):
            future.set_result(Confirmation.TOO_MANY)
        return future

    def log_trimmed(self) -> None:
        """Old files of the store were deleted."""
        self._step(self.core.log_trimmed, self._store.log_min)

    def storage_failed(self, reason: str) -> None:
        """The store refused a write or a flush outside of any step: nothing here can be vouched
        for.
        """
        self._step(self.core.storage_failed, reason, self._store.log_end)

    # -- transport ---------------------------------------------------------------------------------

    def on_opened(self, link_id: int, *, outbound: bool) -> None:
        self._outbound = link_id if outbound else self._outbound
        self._step(
            partial(
                self.core.link_opened,
                link_id,
                outbound=outbound,
                peer=self._transport.peer(link_id),
            )
        )

    def on_data(self, link_id: int, data: memoryview) -> None:
        self._step(self.core.link_data, link_id, data)

    def on_closed(self, link_id: int, reason: str) -> None:
        self._step(self.core.link_closed, link_id, reason)

    def on_flow(self, link_id: int, *, blocked: bool) -> None:
        self._step(partial(self.core.link_flow, link_id, blocked=blocked))

    def on_connect_failed(self, reason: str) -> None:
        self._step(self.core.connect_failed)

    # -- effects -----------------------------------------------------------------------------------

    def _step(self, method: Callable[..., list[fx.Effect]], *args: object) -> None:
        """Call the core once and do what it says. An error of our own ends all promises, loudly."""
        if self._stopped:
            return
        try:
            self._tell_growth()
            self._perform(method(*args, now_ms=self._clock_ms()))
        except BaseException as error:
            self._abandon(error)
            raise

    def _tell_growth(self) -> None:
        """Before any other step: the core learns of what was put into the store since the last
        one.
        """
        grown_to, self._grown_to = self._grown_to, None
        if grown_to is not None:
            self._perform(self.core.log_grew(grown_to, self._clock_ms()))

    def _abandon(self, error: BaseException) -> None:
        logger.critical("replica %d stops: an error of its own", self.core.broker_id)
        self._stopped = True
        self._queue.clear()
        self._transport.close()
        self._waiters.abort()
        self._hooks.on_broken(error)

    def _perform(self, effects: list[fx.Effect]) -> None:
        """In order; what the core adds while answering a disk effect comes behind the rest."""
        assert not self._performing, "a step began inside a step"
        self._performing = True
        self._queue.extend(effects)
        try:
            while self._queue:
                self._queue.extend(self._perform_safely(self._queue.popleft()) or ())
        finally:
            self._performing = False

    def _perform_safely(self, effect: fx.Effect) -> list[fx.Effect] | None:
        try:
            return self._perform_one(effect)
        except DiskFull as error:
            logger.warning("%s refused: %s", type(effect).__name__, error)
            # An acknowledgement of bytes that are not there must not go out; labels and promises of
            # others' may.
            kept = [item for item in self._queue if isinstance(item, _HARMLESS)]
            self._queue.clear()
            self._queue.extend(kept)
            return self.core.storage_full(str(error), self._store.log_end, self._clock_ms())
        except (OSError, LogError) as error:
            logger.error("storage failed at %s: %s", type(effect).__name__, error)
            # What stands behind the failed effect was promised on its strength: only partings stay.
            partings = [item for item in self._queue if isinstance(item, _PARTINGS)]
            self._queue.clear()
            self._queue.extend(partings)
            self._hooks.on_storage_failed(str(error))
            return self.core.storage_failed(str(error), self._store.log_end, self._clock_ms())

    def _perform_one(self, effect: fx.Effect) -> list[fx.Effect] | None:
        match effect:
            case fx.SendRange(link_id, header, offset, count):
                self._transport.send(link_id, header, offset, count)
            case fx.SendBytes(link_id, data) if (
                self._acks is not None and link_id == self._outbound
            ):
                self._acks.send(link_id, data, self._store.log_end)
            case fx.SendBytes(link_id, data):
                self._transport.send(link_id, data)
            case fx.AppendRaw(offset, data):
                self._store.append_raw(offset, data)
            case fx.ConfirmMoved(offset):
                self._waiters.confirm(offset)
                self._hooks.on_confirm(offset)
            case fx.Readable(offset):
                self._hooks.on_confirm(offset)
            case fx.Acknowledged(offset):
                self._waiters.confirm(offset)
            case fx.WriteEpochs(entries, epoch_seen, none_of_seen):
                self._epoch_file.save(EpochHistory(entries), epoch_seen, none_of_seen)
            case fx.TruncateLog() | fx.CutIncompleteTail() | fx.CutDiverged():
                return self._cut(effect)
            case fx.CompareLog(offset, compared):
                equal = equal_bytes(self._store, effect)
                return self.core.compared(offset, equal, len(compared), self._clock_ms())
            case fx.FindRecord(broker_id, offset):
                found = has_record(self._store, effect, self.core.file_bytes)
                return self.core.record_found(broker_id, offset, found, self._clock_ms())
            case fx.CloseLink(link_id, reason):
                logger.info("HA link %d closed: %s", link_id, reason)
                self._transport.close_link(link_id)
            case fx.ConnectHa(address):
                self._transport.connect(address)
            case fx.AbortWaiters():
                self._waiters.abort()
            case _:
                self._tell_broker(effect)
        return None

    def _cut(
        self, effect: fx.TruncateLog | fx.CutIncompleteTail | fx.CutDiverged
    ) -> list[fx.Effect]:
        if isinstance(effect, fx.CutDiverged):
            ok, end_offset = cut_diverged(self._store, effect)
        else:
            ok, end_offset = cut(self._store, effect, self.core.file_bytes)
        return self.core.truncated(ok, end_offset, self._clock_ms())

    def _tell_broker(self, effect: fx.Effect) -> None:
        match effect:
            case fx.ReportEvent(kind, fields):
                self._hooks.report(kind, fields)
            case fx.RoleChanged():
                logger.info(
                    "role %s in epoch %d: %s", effect.role, effect.master_epoch, effect.source
                )
                self._teller.role_changed(effect)
            case fx.ProposeSyncSet():
                self._teller.propose(effect, f"{self.core.incarnation}/{self.core.broker_id}")
            case fx.AskController(elect):
                self._hooks.ask_controller(elect)
            case fx.RegisterAgain():
                self._hooks.register_again()
            case fx.FlushLog():
                self._hooks.flush_soon()
            case fx.KeepRefused(ends):
                self._hooks.keep_refused(ends)
            case fx.AskHaAddress(master_address):
                self._hooks.ask_ha_address(master_address)

    def _on_alter_result(self, token: int, result: AlterResult) -> None:
        self._step(
            self.core.on_alter_result,
            token,
            result.code,
            result.members,
            result.set_epoch,
            result.master_epoch,
        )


_PARTINGS = (fx.CloseLink, fx.AbortWaiters, fx.ReportEvent)
_HARMLESS = (*_PARTINGS, fx.WriteEpochs, fx.ConfirmMoved, fx.Acknowledged)


def _release(future: asyncio.Future[Confirmation], how: Confirmation) -> None:
    if not future.done():
        future.set_result(how)


def _nothing(*, now_ms: int) -> list[fx.Effect]:
    return []
