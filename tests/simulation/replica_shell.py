"""What `brokers/replica/driver.py` is to a real replica, over the simulated network and disk.

Responsible for: performing the core's effects in the driver's order, HA links, waiters; crashes
between two effects.
Refuses to know: what a step means; it only carries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.ha.epoch_file import format_epochs
from brokers.ha.epochs import EpochHistory
from brokers.replica import effects as fx
from brokers.replica.core import ReplicaCore
from brokers.replica.durable_acks import DurableAcks
from brokers.replica.hooks import command_id
from brokers.replica.store_port import cut, has_record
from brokers.replica.waiters import Confirmation, ConfirmWaiters
from brokers.store.files.errors import DiskFull, LogError
from tests.simulation.blocks import PowerCut
from tests.simulation.network import End

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

Waiter = Callable[[Confirmation], None]
DOWN_MS = (30, 3_000)
SYNC_USUAL_MS = (1, 8)
PARTINGS = (fx.CloseLink, fx.AbortWaiters, fx.ReportEvent)
HARMLESS = (*PARTINGS, fx.WriteEpochs, fx.ConfirmMoved)
"""What the driver still does of a list whose disk effect failed, and of one for which there was no
room.
"""


class ReplicaShell:
    """One replica of one life of a broker."""

    def __init__(self, node: BrokerNode, core: ReplicaCore) -> None:
        self.node, self.core = node, core
        self.world, self.disk, self.cluster = node.world, node.disk, node.cluster
        self.crash_after: int | None = None
        self._links: dict[int, End] = {}
        self._next_link = 0
        self._attempt = 0
        self._waiters: ConfirmWaiters[Waiter] = ConfirmWaiters(lambda waiter, how: waiter(how))
        self._grown_to: int | None = None
        self._queue: deque[fx.Effect] = deque()
        self._acks = DurableAcks(self._flush, self._send) if self.cluster.shape.sync_flush else None
        self._outbound = 0  # the link to the master

    # -- steps -------------------------------------------------------------------------------------

    def step(self, call: Callable[[ReplicaCore], list[fx.Effect]]) -> None:
        """Call the core once and do what it says; before that it hears of what was put into the
        store.
        """
        if not self._alive():
            return
        grown_to, self._grown_to = self._grown_to, None
        if grown_to is not None:
            self._perform(self.core.log_grew(grown_to, self.world.now_ms))
        if self._alive():
            self._perform(call(self.core))
        if self._alive():
            self.cluster.checkers.replica_moved(self.node)

    def _alive(self) -> bool:
        return self.node.up and self.node.shell is self

    def tick(self) -> None:
        self.step(lambda core: core.tick(self.world.now_ms))
        self._waiters.expire(self.world.now_ms)
        if self._alive():
            self.cluster.checkers.ticked(self.node)

    def storage_failed(self, reason: str) -> None:
        """The store refused a write outside of any step."""
        self.step(lambda core: core.storage_failed(reason, self.disk.log_end, self.world.now_ms))
        self.node.disk_failed()

    def log_grew(self, end_offset: int) -> None:
        """The growth of one turn of the event loop goes out together."""
        if self._grown_to is None:
            self.node.later(0, lambda: self.step(lambda core: []))
        self._grown_to = end_offset

    def confirmation(self, end_offset: int, timeout_ms: int, waiter: Waiter) -> None:
        if not self.core.is_master:
            waiter(Confirmation.ABORTED)
        elif end_offset <= self.core.confirm_offset:
            waiter(Confirmation.CONFIRMED)
        elif not self._waiters.add(end_offset, self.world.now_ms + timeout_ms, waiter):
            waiter(Confirmation.TOO_MANY)

    def _perform(self, effects: list[fx.Effect]) -> None:
        """In order; what the core adds while answering a disk effect comes behind the rest."""
        self._queue.extend(effects)
        while self._queue and self._alive():
            self._crash_if_due()
            if not self._alive():
                return
            effect = self._queue.popleft()
            try:
                self._queue.extend(self._perform_one(effect) or ())
            except PowerCut:
                self._queue.clear()
                self.node.power_cut()
            except DiskFull as error:
                self.world.count("disk.full")
                self._keep_only(HARMLESS)
                self._queue.extend(
                    self.core.storage_full(str(error), self.disk.log_end, self.world.now_ms)
                )
            except (OSError, LogError) as error:
                self.world.count("disk.error")
                self._keep_only(PARTINGS)
                self._queue.extend(
                    self.core.storage_failed(str(error), self.disk.log_end, self.world.now_ms)
                )
                self.node.disk_failed()

    def _keep_only(self, kinds: tuple[type[fx.Effect], ...]) -> None:
        kept = [item for item in self._queue if isinstance(item, kinds)]
        self._queue.clear()
        self._queue.extend(kept)

    def _crash_if_due(self) -> None:
        """A kill may hit between any two effects of one step."""
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                self.world.note(
                    f"   {self.node.name} dies within a step, before "
                    f"{type(self._queue[0]).__name__}"
                )
                self.world.count("fault.kill_inside")
                self._queue.clear()
                self.node.stop()
                self.world.after(
                    self.world.between(*DOWN_MS), lambda: self.node.up or self.node.start()
                )

    def _perform_one(self, effect: fx.Effect) -> list[fx.Effect] | None:
        handler: Callable[[fx.Effect], list[fx.Effect] | None] = getattr(
            self, "_do_" + type(effect).__name__
        )
        return handler(effect)

    # -- links -------------------------------------------------------------------------------------

    def accept(self, end: End) -> bool:
        """The kernel accepts for a paused process too; the process hears of it when it goes on."""
        self.node.later(0, lambda: self._open_link(end, outbound=False))
        return True

    def _open_link(self, end: End, *, outbound: bool) -> None:
        self._next_link += 1
        link_id = self._next_link
        self._links[link_id] = end
        self._outbound = link_id if outbound else self._outbound
        end.listen(
            lambda data: self.step(lambda core: core.link_data(link_id, data, self.world.now_ms)),
            lambda reason: self._link_closed(link_id, reason),
        )
        self.step(
            lambda core: core.link_opened(link_id, outbound=outbound, now_ms=self.world.now_ms)
        )

    def _link_closed(self, link_id: int, reason: str) -> None:
        if self._links.pop(link_id, None) is not None:
            self.step(lambda core: core.link_closed(link_id, reason, self.world.now_ms))

    def hold_links(self, hold_ms: int) -> None:
        """The queues of the links are full for a while."""
        for link_id in list(self._links):
            self.step(
                lambda core, one=link_id: core.link_flow(
                    one, blocked=True, now_ms=self.world.now_ms
                )
            )
            self.node.later(
                hold_ms,
                lambda one=link_id: self.step(
                    lambda core: core.link_flow(one, blocked=False, now_ms=self.world.now_ms)
                ),
            )

    # -- effects -----------------------------------------------------------------------------------

    def _do_SendBytes(self, effect: fx.SendBytes) -> None:
        if self._acks is not None and effect.link_id == self._outbound:
            self._acks.send(effect.link_id, effect.data, self.disk.log_end)
        else:
            self._send(effect.link_id, effect.data)

    def _send(self, link_id: int, data: bytes) -> None:
        end = self._links.get(link_id) if self._alive() else None
        if end is not None:
            end.send(data, "ha." + self._packet(end, data))

    def _flush(self, end_offset: int, told: Callable[[bool], None]) -> None:
        end = self.disk.begin_sync(lambda flushed: told(flushed >= end_offset))
        self.node.later(self.disk.slow_ms + self.world.between(*SYNC_USUAL_MS), end)

    def _do_SendRange(self, effect: fx.SendRange) -> None:
        end = self._links.get(effect.link_id)
        # deleted since: as the transport, which finds no file
        if end is not None and effect.offset < self.disk.log_min:
            self.world.count("retention.under_a_link")
            end.close("the log has no such bytes any more")
            self.node.later(
                0, lambda: self._link_closed(effect.link_id, "the log has no such bytes any more")
            )
        elif end is not None:
            body = bytes(self.disk.log[effect.offset : effect.offset + effect.count])
            assert len(body) == effect.count, "the core sends bytes that the log does not have"
            end.send(effect.header + body, "ha.transfer")

    def _packet(self, end: End, data: bytes) -> str:
        """What a whole packet is called in the counts (PROTOCOL 2.1)."""
        is_handshake = int.from_bytes(data[:4], "big") == 1
        if end.pipe.right is end:
            return "handshake_reply" if is_handshake else "heartbeat"
        return "handshake" if is_handshake else "ack"

    def _do_CloseLink(self, effect: fx.CloseLink) -> None:
        end = self._links.pop(effect.link_id, None)
        if end is not None:
            end.close(effect.reason)

    def _do_ConnectHa(self, effect: fx.ConnectHa) -> None:
        self._attempt += 1
        attempt = self._attempt
        node = self.cluster.node_at(effect.address)

        def opened(end: End) -> None:
            if attempt == self._attempt and self._alive():
                self._open_link(end, outbound=True)
            else:
                end.close("replaced")

        def failed(why: str) -> None:
            if attempt == self._attempt:
                self.step(lambda core: core.connect_failed(self.world.now_ms))

        self.cluster.network.connect(self.node, node, node.accept_ha, opened, failed)

    def _do_AppendRaw(self, effect: fx.AppendRaw) -> None:
        if not self.disk.log_end and effect.offset:
            self.world.count("log.begins_late")
        self.disk.append_raw(effect.offset, effect.data)

    def _do_TruncateLog(self, effect: fx.TruncateLog) -> list[fx.Effect]:
        self.cluster.checkers.truncating(self.node, effect)
        self.world.count("replica.truncated")
        return self._do_CutIncompleteTail(effect)

    def _do_CutIncompleteTail(
        self, effect: fx.CutIncompleteTail | fx.TruncateLog
    ) -> list[fx.Effect]:
        ok, end_offset = cut(self.disk, effect, self.core.config.file_bytes)
        return self.core.truncated(ok, end_offset, self.world.now_ms)

    def _do_FindRecord(self, effect: fx.FindRecord) -> list[fx.Effect]:
        found = has_record(self.disk, effect, self.core.config.file_bytes)
        return self.core.record_found(effect.broker_id, effect.offset, found, self.world.now_ms)

    def _do_FlushLog(self, effect: fx.FlushLog) -> None:
        end = self.disk.begin_sync(lambda flushed: None)
        self.node.later(self.disk.slow_ms, lambda: self.node.writing(end))

    def _do_WriteEpochs(self, effect: fx.WriteEpochs) -> None:
        text = format_epochs(EpochHistory(tuple(effect.entries))) if effect.entries else ""
        self.disk.write_epochs(text, effect.epoch_seen)

    def _do_ConfirmMoved(self, effect: fx.ConfirmMoved) -> None:
        self._waiters.confirm(effect.offset)
        self.disk.dispatch_to(effect.offset)

    def _do_AbortWaiters(self, effect: fx.AbortWaiters) -> None:
        self._waiters.abort()

    def _do_ProposeSyncSet(self, effect: fx.ProposeSyncSet) -> None:
        name = command_id(f"{self.core.incarnation}/{self.core.broker_id}", effect.token)
        self.node.membership.propose(effect, name)

    def _do_RegisterAgain(self, effect: fx.RegisterAgain) -> None:
        self.world.count("set.chosen_unclean_told")
        self.node.membership.register_again()

    def _do_AskController(self, effect: fx.AskController) -> None:
        self.node.membership.ask(elect=effect.elect)

    def _do_RoleChanged(self, effect: fx.RoleChanged) -> None:
        self.world.note(
            f"{self.node.name}: {effect.role} epoch {effect.master_epoch} set {effect.members} by "
            f"{effect.source}"
        )
        self.world.count(f"role.{effect.role}")
        if effect.source == "disk_hangs":
            self.world.count("role.waits_for_disk")
        self.node.service.role_changed(effect)
        if effect.role == "MASTER":
            self.cluster.checkers.master_established(self.node)

    def _do_ReportEvent(self, effect: fx.ReportEvent) -> None:
        self.world.count(f"event.{effect.kind}")
        if effect.kind == "HaLinkDown":
            self.cluster.checkers.link_down(self.node, str(effect.fields["reason"]))
