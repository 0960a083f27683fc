"""One replica of a broker set, without sockets, files or clocks.

Responsible for: the inputs of a replica, each handed to the role that stands. How roles change is
in transitions.py, what a notice means in roles.py, what a role does in master_role.py and
slave_role.py.
Refuses to know: how effects are performed, who asks the controller, client requests.

The shell calls one method at a time, performs the returned effects in order, and only then calls
the next one. Times are ms of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.ha.epochs import EpochHistory
from brokers.replica.admission import has_to_go
from brokers.replica.config import ReplicaConfig
from brokers.replica.effects import CloseLink, Effect
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus, master_seen, slaves_seen
from brokers.replica.replica_log import ReplicaLog
from brokers.replica.roles import Role, RoleNotice
from brokers.replica.transitions import RoleTransitions


class ReplicaCore:
    """Starts FENCED: whatever it was before, it waits for the controller (S6)."""

    def __init__(
        self,
        config: ReplicaConfig,
        *,
        broker_id: int,
        incarnation: str,
        clean: bool,
        epochs: EpochHistory,
        log_end: int,
        confirm_offset: int,
        log_min: int = 0,
        epoch_seen: int = 0,
        trusted_end: int | None = None,
        none_of_seen: bool = False,
    ) -> None:
        """`clean` False: power was lost or the disk failed, acknowledged bytes may be missing (S5).
        `epoch_seen`, `none_of_seen`: as last persisted (WriteEpochs). `trusted_end`: record border
        above which bytes may be torn, to be copied from a master again; None: none are.
        """
        self.config = config
        self.broker_id = broker_id
        self.incarnation = incarnation
        self.log = ReplicaLog(
            epochs=epochs,
            end_offset=log_end,
            min_offset=log_min,
            confirm_offset=confirm_offset,
            epoch_seen=epoch_seen,
            trusted_end=trusted_end,
            none_of_seen=none_of_seen,
        )
        # Bytes without a history cannot be vouched for either (S12).
        trusted = clean and (bool(epochs) or log_end == log_min)
        self._roles = RoleTransitions(config, self.log, broker_id=broker_id, clean=trusted)
        self._now_ms = 0
        self._ticked_ms: int | None = None

    # -- what others may know ---------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self._roles.role

    @property
    def file_bytes(self) -> int:
        """Size of a log file."""
        return self.config.file_bytes

    @property
    def is_master(self) -> bool:
        return self._roles.master is not None

    @property
    def clean(self) -> bool:
        """Whether it may be promoted: started clean, or has caught up with a master since."""
        return self._roles.clean

    @property
    def master_epoch(self) -> int:
        """Epoch of the last notice taken since the start, 0 before."""
        return self._roles.master_epoch

    @property
    def master_id(self) -> int | None:
        return self._roles.master_id

    @property
    def master_address(self) -> str | None:
        return self._roles.master_address

    @property
    def replicas(self) -> dict[int, str]:
        """Broker id to address, as far as the controller told."""
        return self._roles.replicas

    @property
    def sync_state_set(self) -> tuple[int, ...]:
        return self._roles.sync_state_set

    @property
    def acknowledging_members(self) -> tuple[int, ...]:
        """Everybody whose acknowledgement a promise needs: the set, and who may be about to join it
        (S1, S3).
        """
        return self._roles.acknowledging_members

    @property
    def set_epoch(self) -> int:
        return self._roles.set_epoch

    @property
    def confirm_offset(self) -> int:
        return self.log.confirm_offset

    @property
    def acknowledged_offset(self) -> int:
        """Sends below it are answered: here what is confirmed."""
        return self.log.confirm_offset

    @property
    def epoch_seen(self) -> int:
        """The highest epoch ever heard of."""
        return self.log.epoch_seen

    @property
    def log_end(self) -> int:
        return self.log.end_offset

    @property
    def epochs(self) -> EpochHistory:
        return self.log.epochs

    def write_refusal(self) -> str | None:
        """Why a write must be refused now, before anything is written; None when it may be
        tried.
        """
        master = self._roles.master
        if master is None:
            return f"not the master, role {self.role.value}"
        return master.write_refusal(self._now_ms)

    def ha_status(self, peer_of: Callable[[int], str], now_ms: int) -> HaStatus:
        """The links now; `peer_of(link id)`: the address at the other end."""
        master, slave = self._roles.master, self._roles.slave
        if master is not None:
            return HaStatus(slaves=slaves_seen(master, peer_of, now_ms))
        return HaStatus(master=None if slave is None else master_seen(slave, now_ms))

    def joins_with_tables(self, has_tables: Callable[[int], bool]) -> None:
        """`has_tables(broker id)`: whether a replica that has the log holds a copy of the tables,
        too (S19).
        """
        self._roles.joins_with_tables(has_tables)

    # -- controller -------------------------------------------------------------------------------

    def on_role_notice(
        self, notice: RoleNotice, now_ms: int, *, disk_hangs: bool = False
    ) -> list[Effect]:
        """Whatever the controller said about the set, from any message. `disk_hangs`: a write to
        the disk would not return.
        """
        self._now_ms = now_ms
        return self._roles.on_notice(notice, now_ms, disk_hangs=disk_hangs)

    def on_alter_result(
        self,
        token: int,
        code: int | None,
        members: tuple[int, ...] | None,
        set_epoch: int | None,
        master_epoch: int | None,
        now_ms: int,
    ) -> list[Effect]:
        """Answer to a proposal; `code` None: unknown (timeout, connection lost, no leader). The
        shell reports one result for every ProposeSyncSet.
        """
        self._now_ms = now_ms
        master = self._roles.master
        if master is None:
            return []
        if (master_epoch or 0) > self.master_epoch:
            assert master_epoch is not None
            return self._roles.outruled(master_epoch, now_ms)
        return master.alter_result(token, code, members, set_epoch, now_ms)

    # -- links ------------------------------------------------------------------------------------

    def link_opened(
        self, link_id: int, *, outbound: bool, now_ms: int, peer: str = ""
    ) -> list[Effect]:
        """`peer`: the address at the other end, "host:port"; empty: not known."""
        self._now_ms = now_ms
        if outbound and self._roles.slave is not None:
            return self._roles.slave.link_opened(link_id, now_ms)
        if outbound:
            return [CloseLink(link_id, f"not a slave, role {self.role.value}")]
        if self._roles.master is None:
            return [CloseLink(link_id, f"not the master, role {self.role.value}")]
        master, last = (
            self._roles.master,
            has_to_go(self._roles.master.links, self.config.links_max),
        )
        effects = (
            []
            if last is None
            else master.drop(last, f"more than {self.config.links_max} links without a handshake")
        )
        return effects + master.link_opened(link_id, now_ms, peer)

    def link_data(self, link_id: int, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        """Bytes of a peer. Bytes of a link closed meanwhile are ignored."""
        self._now_ms = now_ms
        if self._roles.master is not None and link_id in self._roles.master.links:
            return self._roles.master.link_data(link_id, data, now_ms)
        if self._roles.slave is not None and link_id == self._roles.slave.link_id:
            return self._roles.slave.link_data(data, now_ms)
        return []

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> list[Effect]:
        self._now_ms = now_ms
        if self._roles.master is not None and link_id in self._roles.master.links:
            return self._roles.master.link_closed(link_id, reason, now_ms)
        if self._roles.slave is not None and link_id == self._roles.slave.link_id:
            return self._roles.slave.link_closed(reason, now_ms)
        return []

    def link_flow(self, link_id: int, *, blocked: bool, now_ms: int) -> list[Effect]:
        """The shell's queue of this link is full (`blocked`), or has room again."""
        self._now_ms = now_ms
        if self._roles.master is not None and link_id in self._roles.master.links:
            return self._roles.master.link_flow(link_id, blocked=blocked, now_ms=now_ms)
        return []

    def ha_address_told(
        self, master_address: str, ha_address: str, word: HaAddressSource, now_ms: int
    ) -> list[Effect]:
        """Answer to AskHaAddress, or news that nobody asked for: where that master takes links."""
        self._now_ms = now_ms
        return self._roles.ha_address_told(master_address, ha_address, word, now_ms)

    def connect_failed(self, now_ms: int) -> list[Effect]:
        self._now_ms = now_ms
        if self._roles.slave is not None:
            self._roles.slave.connect_failed(now_ms)
        return []

    # -- log --------------------------------------------------------------------------------------

    def log_grew(self, end_offset: int, now_ms: int) -> list[Effect]:
        """The master's own log now ends at `end_offset`. Only a master's log grows this way."""
        self._now_ms = now_ms
        assert self._roles.master is not None, "only a master appends"
        return self._roles.master.log_grew(end_offset, now_ms)

    def log_trimmed(self, min_offset: int, now_ms: int) -> list[Effect]:
        """Old files were deleted: the log begins at `min_offset`."""
        self._now_ms = now_ms
        return self.log.trimmed(min_offset)

    def truncated(self, ok: bool, end_offset: int, now_ms: int) -> list[Effect]:
        """Answer to TruncateLog and CutIncompleteTail: the log now ends at `end_offset`."""
        self._now_ms = now_ms
        return self._roles.cut_done(ok, end_offset, now_ms)

    def record_found(self, broker_id: int, offset: int, found: bool, now_ms: int) -> list[Effect]:
        """Answer to FindRecord."""
        self._now_ms = now_ms
        master = self._roles.master
        return [] if master is None else master.record_found(broker_id, offset, found, now_ms)

    def compared(self, offset: int, equal_bytes: int, all_bytes: int, now_ms: int) -> list[Effect]:
        """Nothing is compared: epochs say which bytes are the master's."""
        return []

    def log_stuck(self, offset: int, reason: str, now_ms: int) -> list[Effect]:
        """Its queues do not grow: it is noticed when it is to lead."""
        return []

    def storage_failed(self, reason: str, end_offset: int, now_ms: int) -> list[Effect]:
        """The disk refused an effect; the log really ends at `end_offset`. Nothing here can be
        vouched for until it has caught up (S5).
        """
        self._now_ms = now_ms
        effects = self._roles.distrust(f"storage failed: {reason}", "storage_failed", now_ms)
        return effects + self.log.was_cut(end_offset, "storage failed")

    def storage_full(self, reason: str, end_offset: int, now_ms: int) -> list[Effect]:
        """There was no room for what an effect would write; the log really ends at `end_offset`.
        Nothing is lost.
        """
        self._now_ms = now_ms
        return self.log.ends_at(end_offset) + self._roles.disk_full(reason, now_ms)

    # -- time --------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        """Time passes; call about every 25 ms. A gap above `stall_ms` was a pause of this
        process.
        """
        self._now_ms = now_ms
        gap_ms = 0 if self._ticked_ms is None else now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        acting = self._roles.master or self._roles.slave
        if acting is None:
            return self._roles.tick_fenced(now_ms)
        if gap_ms > self.config.stall_ms:
            acting.forgive(gap_ms)
        return acting.tick(now_ms)
