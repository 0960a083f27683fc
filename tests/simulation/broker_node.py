"""
A broker process of the world: the product's replica core, registration and recovery in simulated shells.

Responsible for: starts and stops on one disk, the periodic work, sends of clients.
Refuses to know: any rule of replication, election or recovery; it only carries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers import controller_messages as messages
from brokers.boot import judge
from brokers.ha.epoch_file import parse_epochs
from brokers.ha.epochs import EpochHistory
from brokers.log import segments
from brokers.log.records import MessageFields, encode_blank, encode_message, host_bytes, message_size
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from brokers.replica.effects import Effect
from brokers.replica.roles import RoleNotice
from brokers.replica.waiters import Confirmation
from tests.simulation.disk import FILE_BYTES, SimulatedDisk
from tests.simulation.membership_shell import MembershipShell
from tests.simulation.network import End, wake
from tests.simulation.replica_shell import ReplicaShell
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

TICK_MS = 25
HEARTBEAT_MS = 1_000
POLL_MS = 2_000
FLUSH_MS = 700
WATCH_MS = 500
DYING_MS, RESTARTED_MS = 5, 100
SEND_DEADLINE_MS = 3_000
CODE_NO_PERMISSION, CODE_SLAVE_NOT_AVAILABLE = 16, 12
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
        self.incarnation = ""
        self.clean = True
        self.shell: ReplicaShell | None = None

    @property
    def core(self) -> ReplicaCore | None:
        """The replica, once this life has an identity."""
        return None if self.shell is None else self.shell.core

    @property
    def broker_id(self) -> int | None:
        return self.membership.broker_id if self.up else None

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process on the same disk: recover, then register."""
        self.life += 1
        self.up, self.paused = True, False
        self.shell = None
        self.incarnation = f"{self.name}-{self.life}"
        boot_id = f"boot-{self.disk.boot_id}"
        self.clean, why = judge(self.disk.marker, boot_id, bool(self.disk.log))
        self.disk.marker = {"boot_id": boot_id, "flushed_exit": False, "io_error": not self.clean}
        self.world.count(f"start.{why}")
        self.disk.recover()
        self._epochs = parse_epochs(self.disk.epochs) if self.disk.epochs else EpochHistory()
        self._served: dict[int, Wire] = {}
        self.membership = MembershipShell(self)
        self.membership.start()
        for period_ms, work in (
            (TICK_MS, self._tick), (HEARTBEAT_MS, self.membership.beat), (FLUSH_MS, self._flush), (WATCH_MS, self._watch),
            (POLL_MS, lambda: self.membership.ask(elect=False)),
        ):  # fmt: skip
            self._every(period_ms, work)

    def stop(self, *, silent: bool = False) -> None:
        self.up = False
        self.shell = None
        self.cluster.network.node_died(self, silent=silent)

    def lose_power(self) -> None:
        self.stop(silent=True)
        lost = self.disk.lose_power(self.world.chance)
        self.world.count("disk.unflushed_bytes_lost", lost)

    def disk_failed(self) -> None:
        """The process ends soon after, and its supervisor starts it anew (local_replica.failed)."""
        assert self.disk.marker is not None
        self.disk.marker["io_error"] = self.disk.distrusted = True
        life = self.life

        def end() -> None:
            if self.up and self.life == life:
                self.stop()
                self.world.after(RESTARTED_MS, lambda: self.up or self.start())

        self.world.after(DYING_MS, end)

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        """A timer of this life."""
        wake(self.world, self, delay_ms, call)

    def _every(self, period_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            work()
            self.later(period_ms, run)

        self.later(0, run)

    def identity_known(self, broker_id: int) -> None:
        """The replica is made once its id is known: FENCED."""
        core = ReplicaCore(
            ReplicaConfig(file_bytes=FILE_BYTES, batch_bytes=1_500, unacked_bytes_max=16_384),
            broker_id=broker_id,
            incarnation=self.incarnation,
            clean=self.clean,
            epochs=self._epochs,
            log_end=self.disk.log_end,
            confirm_offset=self.disk.confirm_offset,
            epoch_seen=self.disk.epoch_seen,
            trusted_end=None if self.clean else self.disk.trusted_end,
        )
        self.shell = ReplicaShell(self, core)

    # -- replica -----------------------------------------------------------------------------------

    def step(self, call: Callable[[ReplicaCore], list[Effect]]) -> None:
        if self.shell is not None:
            self.shell.step(call)

    def notice(self, notice: RoleNotice) -> None:
        self.step(lambda core: core.on_role_notice(notice, self.world.now_ms))

    def position(self) -> messages.LogPosition:
        core = self.core
        if core is None:
            return messages.LogPosition(-1, 0, 0)
        return messages.LogPosition(core.epochs.newest_epoch, core.log_end, core.confirm_offset)

    def _tick(self) -> None:
        if self.shell is not None:
            self.shell.tick()

    def _flush(self) -> None:
        if self.core is not None:
            self.disk.flush(self.core.confirm_offset)

    def _watch(self) -> None:
        """A regained clean state is written down, as `role_switch.watch` does."""
        if self.core is not None and self.core.clean and self.disk.marker is not None:
            self.disk.marker["io_error"] = False
            self.disk.distrusted = False

    # -- inbound -----------------------------------------------------------------------------------

    def accept(self, end: End) -> bool:
        wire = Wire(self.world, end, self.request, lambda wire: self._served.pop(wire.conn_id, None))
        self._served[wire.conn_id] = wire
        return True

    def accept_ha(self, end: End) -> bool:
        return self.shell is not None and self.shell.accept(end)

    def request(self, wire: Wire, request: RemotingCommand) -> None:
        """Whatever comes over a remoting connection of this broker."""
        if request.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            notice = messages.role_notice(request, "notify")
            if notice is not None:
                self.notice(notice)
        elif request.code == RequestCode.SEND_MESSAGE:
            self._send(wire, request)

    def _send(self, wire: Wire, request: RemotingCommand) -> None:
        shell = self.shell
        refusal = "starting" if shell is None else shell.core.can_accept_writes()
        if shell is None or refusal is not None:
            wire.send(request.reply(CODE_NO_PERMISSION, remark=refusal))
            return
        start = self._append(request.body)
        end = self.disk.log_end
        epoch = shell.core.master_epoch

        def settle(how: Confirmation) -> None:
            confirmed = how is Confirmation.CONFIRMED
            if confirmed:
                self.cluster.checkers.acknowledged(self, epoch, start, bytes(self.disk.log[start:end]))
            wire.send(request.reply(0 if confirmed else CODE_SLAVE_NOT_AVAILABLE))

        shell.log_grew(end)
        shell.confirmation(end, SEND_DEADLINE_MS, settle)

    def _append(self, body: bytes) -> int:
        """Write one message at the end of the log, behind a blank record when the file is full; its offset."""
        fields = MessageFields(TOPIC, 0, body, b"", self.world.wall_ms, HOST, HOST)
        size = message_size(fields)
        at = self.disk.log_end
        left = FILE_BYTES - at % FILE_BYTES
        if segments.needs_new_file(left, size):
            blank = encode_blank(left)
            self.disk.log += blank + bytes(left - len(blank))
            at += left
        self.disk.log += encode_message(fields, size, 0, at, self.world.wall_ms)
        return at
