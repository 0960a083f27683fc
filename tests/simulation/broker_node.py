"""
A broker process of the world: the product's replica core, registration and recovery, a simulated shell.

Responsible for: performing the core's effects on a simulated disk and network, talking to controllers.
Refuses to know: any rule of replication, election or recovery; it only carries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from brokers import controller_messages as messages
from brokers import registration as reg
from brokers.boot import judge
from brokers.ha.epoch_file import format_epochs, parse_epochs
from brokers.ha.epochs import EpochHistory
from brokers.log import segments
from brokers.log.records import MessageFields, encode_blank, encode_message, host_bytes, message_size
from brokers.log.scan import LogWalk, end_of_valid_log, is_record_boundary
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from tests.simulation.disk import SimulatedDisk
from tests.simulation.network import End
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

FILE_BYTES = 4_096
TICK_MS = 50
HEARTBEAT_MS = 1_000
HEARTBEAT_TIMEOUT_MS = 4_000
POLL_MS = 2_000
FLUSH_MS = 700
CALL_MS = 3_000
SEND_DEADLINE_MS = 3_000
RETRY_MS = 300
TOPIC = "simulated"
HOST = host_bytes("127.0.0.1", 1)


class BrokerNode:
    """One replica; `life` counts its starts, the disk outlives them."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.address = f"{name}:1"
        self.ha_address = f"{name}:2"
        self.disk = SimulatedDisk()
        self.life = 0
        self.up = False
        self.paused = False
        self.core: ReplicaCore | None = None
        self.incarnation = ""
        self.clean = True
        self.broker_id: int | None = None
        self.registration: reg.Registration | None = None

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process on the same disk: recover, then register."""
        self.life += 1
        self.up, self.paused = True, False
        self.core, self.broker_id = None, None
        self.incarnation = f"{self.name}-{self.life}"
        marker = self.disk.marker
        self.clean, why = judge(marker, f"boot-{self.disk.boot_id}", bool(self.disk.log))
        self.disk.marker = {"boot_id": f"boot-{self.disk.boot_id}", "flushed_exit": False, "io_error": not self.clean}
        self.world.count(f"start.{why}")
        self._recover()
        self._wires: dict[str, Wire] = {}
        self._served: dict[int, Wire] = {}
        self._links: dict[int, End] = {}
        self._next_link = 0
        self._ha_attempt = 0
        self._waiters: deque[tuple[int, Callable[[bool], None]]] = deque()
        self._turn = self.world.chance.randrange(1_000)
        self._ids = self._command_ids()
        me = self.cluster
        self.me = messages.Introduction(me.cluster_name, me.set_name, self.address, self.ha_address, self.incarnation)
        self.registration = reg.Registration(me.cluster_name, me.set_name, self.address, self._ids)
        self._registering(self.registration.start(self.disk.identity, self.disk.temp_identity))
        life = self.life
        for period_ms, work in ((TICK_MS, self._tick), (HEARTBEAT_MS, self._beat), (POLL_MS, self._poll), (FLUSH_MS, self._flush)):
            self._every(period_ms, life, work)

    def stop(self, *, silent: bool = False) -> None:
        self.up = False
        self.core = None
        self.cluster.network.node_died(self, silent=silent)

    def lose_power(self) -> None:
        self.stop(silent=True)
        lost = self.disk.lose_power(self.world.chance)
        self.world.count("disk.unflushed_bytes_lost", lost)

    def _recover(self) -> None:
        disk = self.disk
        end, _ = end_of_valid_log(self._read_disk, 0, len(disk.log), FILE_BYTES)
        if self.clean:
            # Written bytes survive a kill; a slave may hold the first part of a record.
            walk = LogWalk(self._read_disk, 0, len(disk.log), FILE_BYTES, check_body=True)
            for _ in walk:
                pass
            end = walk.end
        disk.truncate(end)
        self._epochs = parse_epochs(disk.epochs) if disk.epochs else EpochHistory()
        self._epoch_seen = disk.epoch_seen
        self._confirm = min(disk.confirm_offset, end)

    def _read_disk(self, offset: int, count: int) -> bytes:
        file_end = offset - offset % FILE_BYTES + FILE_BYTES
        return bytes(self.disk.log[offset : min(offset + count, file_end)])

    def _every(self, period_ms: int, life: int, work: Callable[[], None]) -> None:
        if not self.up or self.life != life:
            return
        if not self.paused:
            work()
        self.world.after(period_ms, lambda: self._every(period_ms, life, work))

    def _command_ids(self) -> Iterator[str]:
        while True:
            yield f"{self.world.chance.getrandbits(128):032x}"

    # -- controllers -------------------------------------------------------------------------------

    def _call(self, request: RemotingCommand, answered: Callable[[RemotingCommand | None], None]) -> None:
        """Ask one controller; any of them forwards to the leader."""
        names = self.cluster.controller_names
        name = names[self._turn % len(names)]
        life = self.life

        def settle(answer: RemotingCommand | None) -> None:
            if not self.up or self.life != life:
                return
            if answer is None or answer.code in (1, 2, 2007):
                self._turn += 1
                answer = None
            answered(answer)

        self._with_wire(name, lambda wire: wire.call(request, CALL_MS, settle), lambda why: settle(None))

    def _with_wire(self, name: str, use: Callable[[Wire], None], failed: Callable[[str], None]) -> None:
        wire = self._wires.get(name)
        if wire is not None and wire.open:
            use(wire)
            return
        node = self.cluster.node_at(name)

        def opened(end: End) -> None:
            self._wires[name] = Wire(self.world, end, self._request)
            use(self._wires[name])

        self.cluster.network.connect(self, node, node.accept, opened, failed)

    def _position(self) -> messages.LogPosition:
        if self.core is None:
            return messages.LogPosition(self._epochs.newest_epoch, len(self.disk.log), self._confirm)
        return messages.LogPosition(self.core.epochs.newest_epoch, self.core.log_end, self.core.confirm_offset)

    def _registering(self, effects: reg.Effects) -> None:
        assert self.registration is not None
        one = self.registration
        for effect in effects:
            match effect:
                case reg.AskNextBrokerId():
                    self._call(messages.next_broker_id(self.me), lambda answer: self._registering(
                        one.next_id_answered(
                            None if answer is None else answer.code,
                            None if answer is None else messages.read_next_broker_id(answer),
                            self.world.wall_ms,
                        )))  # fmt: skip
                case reg.WriteTemp():
                    self.disk.temp_identity = effect.temp
                    self._registering(one.temp_written(True))
                case reg.DeleteTemp():
                    self.disk.temp_identity = None
                case reg.ApplyBrokerId():
                    request = messages.apply_broker_id(
                        self.me, effect.broker_id, effect.register_check_code, effect.command_id
                    )
                    self._call(request, lambda answer: self._registering(one.apply_answered(answer and answer.code)))
                case reg.WriteIdentity():
                    self.disk.identity = effect.identity
                    self._registering(one.identity_written(True))
                case reg.RegisterBroker():
                    request = messages.register_broker(
                        self.me, effect.broker_id, self._position(), self.clean, effect.command_id, self.world.wall_ms
                    )
                    self._call(request, self._registered)
                case reg.Wait():
                    life = self.life
                    self.world.after(
                        RETRY_MS, lambda: self._registering(one.retry()) if self.up and self.life == life else None
                    )
                case reg.Registered():
                    self.broker_id = effect.broker_id
                    self._make_core()
                case reg.Refused():
                    raise AssertionError(effect.reason)

    def _registered(self, answer: RemotingCommand | None) -> None:
        assert self.registration is not None
        # An answer is None or an int code; 0 must not be mistaken for no answer.
        self._registering(self.registration.register_answered(None if answer is None else answer.code))
        if answer is not None and answer.code == 0 and self.core is not None:
            self._beat()
            self._notice(answer, "1003")
            if self.core is not None and self.core.role.value == "FENCED":
                self._ask(elect=True)

    def _make_core(self) -> None:
        if self.core is None:
            assert self.broker_id is not None
            self.core = ReplicaCore(
                ReplicaConfig(file_bytes=FILE_BYTES, batch_bytes=1_500, unacked_bytes_max=16_384),
                broker_id=self.broker_id,
                incarnation=self.incarnation,
                clean=self.clean,
                epochs=self._epochs,
                log_end=len(self.disk.log),
                confirm_offset=self._confirm,
                epoch_seen=self._epoch_seen,
            )

    def _notice(self, answer: RemotingCommand, source: str) -> None:
        notice = messages.role_notice(answer, source)
        if notice is not None and self.core is not None:
            self._perform(self.core.on_role_notice(notice, self.world.now_ms))

    def _ask(self, *, elect: bool) -> None:
        if self.broker_id is None:
            return
        if elect:
            request = messages.elect_master(self.me, self.broker_id, next(self._ids), self.world.wall_ms)
        else:
            request = messages.replica_info(self.me)
        self._call(request, lambda answer: answer and self._notice(answer, "1002" if elect else "1004"))

    def _poll(self) -> None:
        if self.core is not None:
            self._ask(elect=False)

    def _beat(self) -> None:
        if self.core is None or self.broker_id is None:
            return
        beat = messages.heartbeat(self.me, self.broker_id, self._position(), HEARTBEAT_TIMEOUT_MS, 2147483647)
        for name in self.cluster.controller_names:
            self._with_wire(name, lambda wire: wire.send(beat), lambda why: None)

    # -- inbound -----------------------------------------------------------------------------------

    def accept(self, end: End) -> bool:
        wire = Wire(self.world, end, self._request, lambda wire: self._served.pop(wire.conn_id, None))
        self._served[wire.conn_id] = wire
        return True

    def accept_ha(self, end: End) -> bool:
        if self.core is None:
            return False
        self._open_link(end, outbound=False)
        return True

    def _request(self, wire: Wire, request: RemotingCommand) -> None:
        if request.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            self._notice(request, "1008")
        elif request.code == RequestCode.SEND_MESSAGE:
            self._send(wire, request)

    def _send(self, wire: Wire, request: RemotingCommand) -> None:
        refusal = "starting" if self.core is None else self.core.can_accept_writes()
        if refusal is not None:
            wire.send(request.reply(14, remark=refusal))
            return
        assert self.core is not None
        start = self._append(request.body)
        end = len(self.disk.log)
        epoch = self.core.master_epoch
        settled: list[bool] = []

        def settle(confirmed: bool) -> None:
            if settled:
                return
            settled.append(True)
            if confirmed:
                self.cluster.checkers.acknowledged(self, epoch, start, bytes(self.disk.log[start:end]), request.body)
            wire.send(request.reply(0 if confirmed else 12))

        self._waiters.append((end, settle))
        self.world.after(SEND_DEADLINE_MS, lambda: settle(False))
        self._perform(self.core.log_grew(end, self.world.now_ms))

    def _append(self, body: bytes) -> int:
        """Write one message at the end of the log, behind a blank record when the file is full."""
        fields = MessageFields(TOPIC, 0, body, b"", self.world.wall_ms, HOST, HOST)
        size = message_size(fields)
        at = len(self.disk.log)
        left = FILE_BYTES - at % FILE_BYTES
        if segments.needs_new_file(left, size):
            blank = encode_blank(left)
            self.disk.write(at, blank + bytes(left - len(blank)))
            at += left
        self.disk.write(at, encode_message(fields, size, 0, at, self.world.wall_ms))
        return at

    # -- HA ----------------------------------------------------------------------------------------

    def _open_link(self, end: End, *, outbound: bool) -> None:
        self._next_link += 1
        link_id = self._next_link
        self._links[link_id] = end
        end.on_data = lambda data: self._on_core(lambda core: core.link_data(link_id, data, self.world.now_ms))
        end.on_close = lambda reason: self._link_closed(link_id, reason)
        self._on_core(lambda core: core.link_opened(link_id, outbound=outbound, now_ms=self.world.now_ms))

    def _link_closed(self, link_id: int, reason: str) -> None:
        if self._links.pop(link_id, None) is not None:
            self._on_core(lambda core: core.link_closed(link_id, reason, self.world.now_ms))

    def _on_core(self, call: Callable[[ReplicaCore], list[fx.Effect]]) -> None:
        if self.core is not None and self.up:
            self._perform(call(self.core))

    def _tick(self) -> None:
        self._on_core(lambda core: core.tick(self.world.now_ms))

    def _flush(self) -> None:
        self.disk.flush()
        if self.core is not None:
            self.disk.confirm_offset = self.core.confirm_offset
            if self.core.clean and self.disk.marker is not None:
                self.disk.marker["io_error"] = False

    # -- effects -----------------------------------------------------------------------------------

    def _perform(self, effects: list[fx.Effect]) -> None:
        """Perform in order. What an effect answers with is performed after the list, as the shell does."""
        answers: list[Callable[[ReplicaCore], list[fx.Effect]]] = []
        for effect in effects:
            getattr(self, "_do_" + type(effect).__name__)(effect, answers)
        for answer in answers:
            self._on_core(answer)
        if self.core is not None:
            self.cluster.checkers.replica_moved(self)

    def _do_SendBytes(self, effect: fx.SendBytes, answers: list) -> None:
        end = self._links.get(effect.link_id)
        if end is not None:
            end.send(effect.data, "ha." + self._packet(end, effect.data))

    def _do_SendRange(self, effect: fx.SendRange, answers: list) -> None:
        end = self._links.get(effect.link_id)
        if end is not None:
            body = bytes(self.disk.log[effect.offset : effect.offset + effect.count])
            assert len(body) == effect.count, "the core sends bytes that the log does not have"
            end.send(effect.header + body, "ha.transfer")

    def _packet(self, end: End, data: bytes) -> str:
        """What a whole packet is called in the counts (broker-wire-and-storage.md 2.1)."""
        is_handshake = int.from_bytes(data[:4], "big") == 1
        if end.pipe.right is end:
            return "handshake_reply" if is_handshake else "heartbeat"
        return "handshake" if is_handshake else "ack"

    def _do_CloseLink(self, effect: fx.CloseLink, answers: list) -> None:
        end = self._links.pop(effect.link_id, None)
        if end is not None:
            end.close(effect.reason)

    def _do_ConnectHa(self, effect: fx.ConnectHa, answers: list) -> None:
        self._ha_attempt += 1
        attempt = self._ha_attempt
        node = self.cluster.node_at(effect.address)

        def opened(end: End) -> None:
            if attempt == self._ha_attempt:
                self._open_link(end, outbound=True)
            else:
                end.close("replaced")

        def failed(why: str) -> None:
            if attempt == self._ha_attempt:
                self._on_core(lambda core: core.connect_failed(self.world.now_ms))

        self.cluster.network.connect(self, node, node.accept_ha, opened, failed)

    def _do_AppendRaw(self, effect: fx.AppendRaw, answers: list) -> None:
        self.disk.write(effect.offset, bytes(effect.data))

    def _do_TruncateLog(self, effect: fx.TruncateLog, answers: list) -> None:
        ok = effect.to_offset == 0 or is_record_boundary(
            self._read_disk, effect.to_offset, len(self.disk.log), FILE_BYTES
        )
        if ok:
            self.cluster.checkers.truncating(self, effect.to_offset)
            self.disk.truncate(effect.to_offset)
            self.world.count("replica.truncated")
        end = len(self.disk.log)
        answers.append(lambda core: core.truncated(ok, end, self.world.now_ms))

    def _do_CutIncompleteTail(self, effect: fx.CutIncompleteTail, answers: list) -> None:
        walk = LogWalk(self._read_disk, 0, len(self.disk.log), FILE_BYTES, check_body=True)
        for _ in walk:
            pass
        self.disk.truncate(walk.end)
        answers.append(lambda core: core.truncated(True, walk.end, self.world.now_ms))

    def _do_WriteEpochs(self, effect: fx.WriteEpochs, answers: list) -> None:
        self.disk.epochs = format_epochs(EpochHistory(tuple(effect.entries))) if effect.entries else ""
        self.disk.epoch_seen = effect.epoch_seen

    def _do_ConfirmMoved(self, effect: fx.ConfirmMoved, answers: list) -> None:
        while self._waiters and self._waiters[0][0] <= effect.offset:
            self._waiters.popleft()[1](True)

    def _do_ProposeSyncSet(self, effect: fx.ProposeSyncSet, answers: list) -> None:
        assert self.broker_id is not None
        request = messages.alter_sync_state_set(
            self.me, self.broker_id, effect.members, effect.base_set_epoch, effect.master_epoch,
            self._proposal_id(effect.token), self.world.wall_ms,
        )  # fmt: skip

        def answered(answer: RemotingCommand | None) -> None:
            if answer is None:
                self._on_core(lambda core: core.on_alter_result(effect.token, None, None, None, None, self.world.now_ms))
                return
            told = messages.read_alter_answer(answer)
            self._on_core(lambda core: core.on_alter_result(
                effect.token, told.code, told.members, told.set_epoch, told.master_epoch, self.world.now_ms
            ))  # fmt: skip

        self._call(request, answered)

    def _proposal_id(self, token: int) -> str:
        return f"{self.life & 0xFFFF:04x}{sum(self.name.encode()):08x}{token:020x}"

    def _do_AskController(self, effect: fx.AskController, answers: list) -> None:
        self._ask(elect=effect.elect)

    def _do_RoleChanged(self, effect: fx.RoleChanged, answers: list) -> None:
        self.world.note(f"{self.name}: {effect.role} epoch {effect.master_epoch} set {effect.members} by {effect.source}")
        self.world.count(f"role.{effect.role}")
        if effect.role == "MASTER":
            self.cluster.checkers.master_established(self)

    def _do_ReportEvent(self, effect: fx.ReportEvent, answers: list) -> None:
        self.world.count(f"event.{effect.kind}")

    def _do_AbortWaiters(self, effect: fx.AbortWaiters, answers: list) -> None:
        waiters, self._waiters = self._waiters, deque()
        for _, settle in waiters:
            settle(False)
