"""One replica of a set without controllers, without sockets, files or clocks.

Responsible for: the inputs of a replica, each handed to the role that its configuration gives it:
id 0 leads from the first tick on, any other id follows. Refuses to know: how effects are performed,
name servers, client requests.

Nobody fences a master of this mode: a second process with id 0 leads as well, and what only the
dead master had is lost with its disk (PROTOCOL 2.12). Whoever wants more has controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokers.ha.epochs import EpochHistory
from brokers.replica.effects import (
    AbortWaiters,
    CloseLink,
    Effect,
    ReportEvent,
    RoleChanged,
    TruncateLog,
)
from brokers.replica.fixed.config import FixedConfig
from brokers.replica.fixed.master_role import FixedMaster
from brokers.replica.fixed.slave_role import MASTER_ID, FixedSlave
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus
from brokers.replica.replica_log import ReplicaLog
from brokers.replica.roles import Role, RoleNotice

EPOCH = 0
"""Of every role: there are none, and none is written down."""


class FixedCore:
    """FENCED until the first tick, and after a failure of the disk."""

    def __init__(
        self,
        config: FixedConfig,
        *,
        broker_id: int,
        incarnation: str,
        clean: bool,
        log_end: int,
        log_min: int = 0,
        trusted_end: int | None = None,
        refused: Iterable[tuple[str, int]] = (),
    ) -> None:
        """`clean` False: power was lost or the disk failed; bytes above `trusted_end` may be torn.
        A slave copies those again; a master has nobody to copy them from, and leads with what it
        has. `refused`: ends of slaves' logs, by host, that this master refused before.
        """
        self.config = config
        self.broker_id = broker_id
        self.incarnation = incarnation
        self.master_epoch = EPOCH
        self.set_epoch = self.epoch_seen = 0
        self.log = ReplicaLog(
            epochs=EpochHistory(),
            end_offset=log_end,
            min_offset=log_min,
            confirm_offset=log_end,
            epoch_seen=0,
            trusted_end=None if clean else trusted_end,
        )
        self.master: FixedMaster | None = None
        self.slave: FixedSlave | None = None
        self._refused = tuple(refused)
        self._clean, self._failed = clean, False
        self._ticked_ms: int | None = None

    # -- what others may know ----------------------------------------------------------------------

    @property
    def file_bytes(self) -> int:
        return self.config.file_bytes

    @property
    def role(self) -> Role:
        if self.master is not None:
            return Role.MASTER
        return Role.SLAVE if self.slave is not None else Role.FENCED

    @property
    def is_master(self) -> bool:
        return self.master is not None

    @property
    def clean(self) -> bool:
        return self._clean or (self.slave is not None and self.slave.caught_up)

    @property
    def master_id(self) -> int | None:
        return MASTER_ID

    @property
    def master_address(self) -> str | None:
        return None if self.slave is None else self.slave.master_address

    @property
    def sync_state_set(self) -> tuple[int, ...]:
        """There is none."""
        return ()

    @property
    def acknowledging_members(self) -> tuple[int, ...]:
        """Nobody else has to hold a change of a table: slaves copy it when they ask, as in
        RocketMQ.
        """
        return (self.broker_id,) if self.is_master else ()

    @property
    def epochs(self) -> EpochHistory:
        return self.log.epochs

    @property
    def log_end(self) -> int:
        return self.log.end_offset

    @property
    def confirm_offset(self) -> int:
        return self.log.confirm_offset

    @property
    def acknowledged_offset(self) -> int:
        return 0 if self.master is None else self.master.acknowledged

    def write_refusal(self) -> str | None:
        """Why a write must be refused now; None when it may be tried."""
        if self.master is None:
            return f"not the master, role {self.role.value}"
        return self.master.write_refusal()

    def ha_status(self, peer_of: Callable[[int], str], now_ms: int) -> HaStatus:
        """The links now."""
        if self.master is not None:
            return HaStatus(slaves=self.master.slaves_seen(now_ms))
        return HaStatus(master=None if self.slave is None else self.slave.master_seen(now_ms))

    def joins_with_tables(self, has_tables: Callable[[int], bool]) -> None:
        """Nobody joins: there is no set to join."""

    # -- who is who --------------------------------------------------------------------------------

    def on_role_notice(
        self, notice: RoleNotice, now_ms: int, *, disk_hangs: bool = False
    ) -> list[Effect]:
        """No controller has a say here."""
        return []

    def on_alter_result(
        self,
        token: int,
        code: int | None,
        members: tuple[int, ...] | None,
        set_epoch: int | None,
        master_epoch: int | None,
        now_ms: int,
    ) -> list[Effect]:
        """Nothing was proposed."""
        return []

    def ha_address_told(
        self, master_address: str, ha_address: str, word: HaAddressSource, now_ms: int
    ) -> list[Effect]:
        """Somebody says where the master is, and where it takes links."""
        if self.slave is None:
            return []
        before = self.slave.master_address
        effects = self.slave.told(master_address, ha_address, now_ms)
        moved = self.slave.master_address != before
        return [*self._told(word.name), *effects] if moved else effects

    def follow(self, master_address: str, ha_address: str | None, now_ms: int) -> list[Effect]:
        """A slave goes with this master from now on. `ha_address` None: the configured one."""
        if self.slave is None:
            return []
        before = self.slave.master_address
        effects = self.slave.follow(master_address, ha_address, now_ms)
        moved = self.slave.master_address != before
        return [*self._told("a master is back"), *effects] if moved else effects

    def part(self, master_address: str, now_ms: int) -> list[Effect]:
        """A slave's master is gone: its link is closed, and none is tried before `follow`."""
        if self.slave is None:
            return []
        effects = self.slave.part(f"the master {master_address} is gone", now_ms)
        return [*effects, *self._told("the master is gone")]

    def alive_members(self, count: int | None) -> None:
        """Members of the set that name servers know, this one included; None: nobody says."""
        if self.master is not None:
            self.master.alive = count

    # -- links -------------------------------------------------------------------------------------

    def link_opened(
        self, link_id: int, *, outbound: bool, now_ms: int, peer: str = ""
    ) -> list[Effect]:
        """`peer`: the address at the other end, "host:port"; empty: not known."""
        if outbound and self.slave is not None:
            return self.slave.link_opened(link_id, now_ms)
        if not outbound and self.master is not None:
            return self.master.link_opened(link_id, now_ms, peer)
        return [CloseLink(link_id, f"no such link in role {self.role.value}")]

    def link_data(self, link_id: int, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        """Bytes of a peer. Bytes of a link closed meanwhile are ignored."""
        if self.master is not None and link_id in self.master.links:
            return self.master.link_data(link_id, data, now_ms)
        if self.slave is not None and link_id == self.slave.link_id:
            return self.slave.link_data(data, now_ms)
        return []

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> list[Effect]:
        if self.master is not None and link_id in self.master.links:
            return self.master.link_closed(link_id)
        if self.slave is not None and link_id == self.slave.link_id:
            return self.slave.link_closed(reason, now_ms)
        return []

    def link_flow(self, link_id: int, *, blocked: bool, now_ms: int) -> list[Effect]:
        """The shell's queue of this link is full (`blocked`), or has room again."""
        if self.master is not None and link_id in self.master.links:
            return self.master.link_flow(link_id, blocked=blocked, now_ms=now_ms)
        return []

    def connect_failed(self, now_ms: int) -> list[Effect]:
        if self.slave is not None:
            self.slave.connect_failed(now_ms)
        return []

    # -- log ---------------------------------------------------------------------------------------

    def log_grew(self, end_offset: int, now_ms: int) -> list[Effect]:
        """The master's own log now ends at `end_offset`."""
        assert self.master is not None, "only a master appends"
        return self.master.log_grew(end_offset, now_ms)

    def log_trimmed(self, min_offset: int, now_ms: int) -> list[Effect]:
        """Old files were deleted: the log begins at `min_offset`."""
        return self.log.trimmed(min_offset)

    def log_stuck(self, offset: int, reason: str, now_ms: int) -> list[Effect]:
        """The log cannot be read from `offset` on, where a record should begin; told again as long
        as that holds.
        """
        return [] if self.slave is None else self.slave.stuck(offset, reason, now_ms)

    def compared(self, offset: int, equal_bytes: int, all_bytes: int, now_ms: int) -> list[Effect]:
        """Answer to CompareLog."""
        if self.slave is None:
            return []
        return self.slave.compared(offset, equal_bytes, all_bytes, now_ms)

    def truncated(self, ok: bool, end_offset: int, now_ms: int) -> list[Effect]:
        """Answer to CutDiverged, and to the cut of what a loss of power may have torn."""
        if self.slave is not None:
            return self.slave.truncated(ok, end_offset, now_ms)
        return self.log.was_cut(end_offset, "what a loss of power may have torn")

    def record_found(self, broker_id: int, offset: int, found: bool, now_ms: int) -> list[Effect]:
        """Nothing was asked."""
        return []

    def storage_failed(self, reason: str, end_offset: int, now_ms: int) -> list[Effect]:
        """The disk refused an effect; the log really ends at `end_offset`. This replica stays
        fenced: the process around it ends.
        """
        effects: list[Effect] = []
        if self.master is not None:
            for link_id in list(self.master.links):
                effects += self.master.drop(link_id, reason)
            effects.append(AbortWaiters(reason))
        if self.slave is not None:
            effects += self.slave.close(reason, now_ms)
        self.master = self.slave = None
        self._clean, self._failed = False, True
        effects += self._told("storage_failed")
        return effects + self.log.was_cut(end_offset, "storage failed")

    def storage_full(self, reason: str, end_offset: int, now_ms: int) -> list[Effect]:
        """There was no room for what an effect would write; the log really ends at `end_offset`."""
        effects = self.log.ends_at(end_offset)
        return effects if self.slave is None else effects + self.slave.disk_full(reason, now_ms)

    # -- time --------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        """Time passes; call about every 25 ms. The first one takes the role up."""
        gap_ms = 0 if self._ticked_ms is None else now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        if self._failed:
            return []
        acting = self.master or self.slave
        if acting is None:
            return self._begin(now_ms)
        if gap_ms > self.config.stall_ms:
            acting.forgive(gap_ms)
        return acting.tick(now_ms)

    def _begin(self, now_ms: int) -> list[Effect]:
        if self.broker_id == MASTER_ID:
            self._clean = True  # there is no other log to copy from: this one is the set's
            self.master = FixedMaster(self.config, self.log, self._refused)
            return [*self._told("configuration"), *self.master.begin()]
        trusted = self.log.trusted_end
        if trusted is not None and trusted > self.log.min_offset:
            self.log.trusted_end = None
            return [TruncateLog(trusted, 0, "what a loss of power may have torn")]
        self.slave = FixedSlave(self.config, self.log, now_ms)
        return [*self._told("configuration"), *self.slave.connect(now_ms)]

    def _told(self, source: str) -> list[Effect]:
        """To this broker, and as a fact for the history."""
        change = RoleChanged(
            self.role.value, EPOCH, MASTER_ID, self.master_address, (), 0, source=source
        )
        fields = {
            "role": change.role,
            "master_epoch": EPOCH,
            "master_broker_id": MASTER_ID,
            "source": source,
        }
        return [change, ReportEvent("RoleChanged", fields)]
