"""A broker process of the world: the product's replica core, registration and recovery in
simulated shells.

Responsible for: starts and stops on one disk, the periodic work.
Refuses to know: any rule of replication, election or recovery; it only carries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokers.ha.epoch_file import parse_epochs
from brokers.ha.epochs import EpochHistory
from brokers.membership import controller_messages as messages
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from brokers.replica.effects import Effect
from brokers.replica.roles import RoleNotice
from brokers.store.log import retention
from brokers.store.recovery import boot
from tests.simulation.blocks import PowerCut
from tests.simulation.broker_service import BrokerService
from tests.simulation.disk import SimulatedDisk
from tests.simulation.membership_shell import MembershipShell
from tests.simulation.network import End, wake
from tests.simulation.replica_shell import ReplicaShell
from tests.simulation.sim_log import FILE_BYTES
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

TICK_MS = 25
HEARTBEAT_MS = 1_000
POLL_MS = 2_000
FLUSH_MS = 700
WATCH_MS = 500
RETAIN_MS = 400
TOLD_LATE_MS = (0, 60)
POLICY = retention.Policy(
    reserved_ms=4_000, hours=frozenset({0}), max_percent=75, forcibly_percent=85, full_percent=95
)
DYING_MS, RESTARTED_MS = 5, 100
DOWN_MS = (30, 3_000)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the brokers of a set may differ in."""

    min_in_sync: int
    priority: int
    is_learner: bool


class BrokerNode:
    """One replica; `life` counts its starts, the disk outlives them."""

    def __init__(self, cluster: Cluster, name: str, settings: Settings) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name, self.settings = name, settings
        self.wall_shift_ms = 0
        self.address = f"{name}:1"
        self.ha_address = f"{name}:2"
        self.disk = SimulatedDisk()
        self.life = 0
        self.up = False
        self.paused = False
        self.incarnation = ""
        self.clean = True
        self.shell: ReplicaShell | None = None
        self.service = BrokerService(self)

    @property
    def core(self) -> ReplicaCore | None:
        """The replica, once this life has an identity."""
        return None if self.shell is None else self.shell.core

    @property
    def broker_id(self) -> int | None:
        return self.membership.broker_id if self.up else None

    @property
    def wall_ms(self) -> int:
        """What its own clock says."""
        return self.world.wall_ms + self.wall_shift_ms

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process on the same disk: recover, then register."""
        self.life += 1
        self.up, self.paused = True, False
        self.shell = None
        self.service = BrokerService(self)
        self.incarnation = f"{self.name}-{self.life}"
        self._open_store()
        self._epochs = parse_epochs(self.disk.epochs) if self.disk.epochs else EpochHistory()
        self._served: dict[int, Wire] = {}
        self._held_until_ms = self.world.now_ms
        self.membership = MembershipShell(self)
        self.membership.start()
        for period_ms, work in (
            (TICK_MS, self._tick),
            (HEARTBEAT_MS, self.membership.beat),
            (FLUSH_MS, self._flush),
            (WATCH_MS, self._watch),
            (RETAIN_MS, self._retain),
            (POLL_MS, lambda: self.membership.ask(elect=False)),
        ):
            self._every(period_ms, work)

    def _open_store(self) -> None:
        """As `process.replica` does: judge the last run, recover, judge by what is there."""
        disk, boot_id = self.disk, f"boot-{self.disk.boot_id}"
        marker = disk.marker or {}
        self.clean, why = boot.judge(
            disk.marker, boot_id, bool(disk.log), boot.Traces(earlier_life=disk.has_lived)
        )
        known = disk.trusted_end if marker.get("io_error") else None
        report = disk.open(same_boot=why == "same_boot" or marker.get("boot_id") == boot_id)
        if self.clean and report.missing_bytes:
            self.clean, why = False, "log_is_short"
            disk.distrusted = True
        if self.clean and disk.epochs_from_backup:
            self.clean, why = False, "epochs_from_backup"
        disk.trusted_end = None
        if not self.clean:
            disk.trusted_end = disk.whole_below(
                report.durable_end if known is None else min(known, report.durable_end)
            )
        disk.marker = {"boot_id": boot_id, "flushed_exit": False, "io_error": not self.clean}
        self.world.count(f"start.{why}")
        if disk.damage is not None:
            mended = disk.mend()
            self.world.count("flip.unread_by_the_start" if mended else "flip.cut")
            disk.distrusted = not self.clean
        self.cluster.checkers.opened(self)
        if report.cut_bytes:
            self.world.count("store.tail_cut")

    def stop(self, *, silent: bool = False) -> None:
        self.up = False
        self.shell = None
        self.cluster.network.node_died(self, silent=silent)

    def stop_in_order(self) -> None:
        """Everything is on the disk; nothing can be lost from here on."""
        self.stop()
        self.disk.close()
        assert self.disk.marker is not None
        self.disk.marker["flushed_exit"] = True

    def lose_power(self) -> None:
        self.stop(silent=True)
        lost = self.disk.lose_power(self.world)
        self.cluster.checkers.lost_by_accident(self)
        self.world.count("disk.unflushed_bytes_lost", lost)

    def power_cut(self) -> None:
        """In the middle of a write."""
        self.world.note(f"   power of {self.name}, within a write")
        self.world.count("fault.power_within_write")
        self.lose_power()
        self.world.after(self.world.between(*DOWN_MS), lambda: self.up or self.start())

    def stand_still_for_append(self) -> int:
        """The append that is due to hang does so, and with it the whole process; for how many
        ms.
        """
        hung_ms, self.disk.hang_ms, life = self.disk.hang_ms, 0, self.life

        def go_on() -> None:
            if self.life == life:
                self.paused = False

        if hung_ms:
            self.world.count("fault.append_hangs")
            self.paused = True
            self.world.after(hung_ms, go_on)
        return hung_ms

    def writing(self, write: Callable[[], None]) -> None:
        """Work on the disk; the power may go within it."""
        try:
            write()
        except PowerCut:
            self.power_cut()

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
            ReplicaConfig(
                file_bytes=FILE_BYTES,
                batch_bytes=1_500,
                unacked_bytes_max=16_384,
                all_ack=not self.cluster.shape.count_mode,
                min_in_sync_replicas=self.settings.min_in_sync,
                async_learner=self.settings.is_learner,
            ),
            broker_id=broker_id,
            incarnation=self.incarnation,
            clean=self.clean,
            epochs=self._epochs,
            log_end=self.disk.log_end,
            log_min=self.disk.log_min,
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
        hangs = self.disk.slow_ms > 0
        self.step(lambda core: core.on_role_notice(notice, self.world.now_ms, disk_hangs=hangs))

    def position(self) -> messages.LogPosition:
        core = self.core
        if core is None:
            return messages.LogPosition(
                self._epochs.newest_epoch,
                self.disk.log_end,
                self.disk.confirm_offset,
                self.disk.epoch_seen,
            )
        set_epoch = core.set_epoch if core.is_master else -1
        confirmed = min(core.confirm_offset, self.disk.dispatched_offset)
        return messages.LogPosition(
            core.epochs.newest_epoch, core.log_end, confirmed, core.log.epoch_seen, set_epoch
        )

    def _tick(self) -> None:
        if self.shell is not None:
            self.shell.tick()

    def _flush(self) -> None:
        if self.core is not None:
            end = self.disk.begin_checkpoint()
            self.later(self.disk.slow_ms, lambda: self.writing(end))

    def _watch(self) -> None:
        """A regained clean state is written down, as `role_switch.watch` does."""
        if self.core is not None and self.core.clean and self.disk.marker is not None:
            self.disk.marker["io_error"] = False
            self.disk.distrusted = False

    def _retain(self) -> None:
        """As `process.retention`: look whether the disk is full, then one round of deleting."""
        disk, core = self.disk, self.core
        disk.full = disk.used_percent > POLICY.full_percent
        files = disk.oldest_files(self.world.now_ms - self._held_until_ms)
        self._held_until_ms = self.world.now_ms
        if core is None or len(files) < 2 or not self.cluster.retains:
            return
        slaves = core.ha_status(str, self.world.now_ms).slaves
        wanted = min(
            (slave.acked if slave.acked > 0 else disk.log_min for slave in slaves),
            default=disk.confirm_offset,
        )
        limits = retention.Limits(min(disk.confirm_offset, disk.remembered_offset), wanted)
        made = retention.decide(POLICY, files, limits, disk.used_percent, disk.held.ran_ms, hour=0)
        if made.reason:
            forced = disk.used_percent > POLICY.forcibly_percent
            self.cluster.checkers.ledger.trimming(
                self, made.delete_below, POLICY.reserved_ms, forced=forced
            )
            self.world.count("retention.forced" if forced else "retention.expired")
            self.writing(lambda: disk.trim(made.delete_below))
            self.later(self.world.between(*TOLD_LATE_MS), self._trimmed)

    def _trimmed(self) -> None:
        self.step(lambda core: core.log_trimmed(self.disk.log_min, self.world.now_ms))

    # -- inbound -----------------------------------------------------------------------------------

    def accept(self, end: End) -> bool:
        wire = Wire(
            self.world, end, self.request, lambda wire: self._served.pop(wire.conn_id, None)
        )
        self._served[wire.conn_id] = wire
        return True

    def accept_ha(self, end: End) -> bool:
        return self.shell is not None and self.shell.accept(end)

    def request(self, wire: Wire, request: RemotingCommand) -> None:
        """Whatever comes over a remoting connection of this broker."""
        if request.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            self.membership.notified(request)
        elif request.code in (
            RequestCode.SEND_MESSAGE,
            RequestCode.PULL_MESSAGE,
            RequestCode.REGENT_HAND_OVER,
        ):
            self.service.request(wire, request)
