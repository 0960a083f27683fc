"""One replica of a broker set, without sockets, files or clocks.

Responsible for: the role (FENCED, MASTER, SLAVE), when it changes, and in what order the outside sees
that (design S5, S6, S8). What a role does lives in master_role.py and slave_role.py; what a notice means
in roles.py. Refuses to know: how effects are performed, who asks the controller, client requests.

The shell calls one method at a time, performs the returned effects in order, and only then calls the
next one. Times are ms of one monotonic clock.
"""

from __future__ import annotations

from itertools import count

from brokers.ha.epochs import EpochHistory
from brokers.replica.config import ReplicaConfig
from brokers.replica.effects import (
    AbortWaiters,
    AskController,
    CloseLink,
    CutIncompleteTail,
    Effect,
    ReportEvent,
    RoleChanged,
)
from brokers.replica.master_role import MasterRole
from brokers.replica.replica_log import ReplicaLog
from brokers.replica.roles import Role, RoleNotice, Standing, Verdict, judge
from brokers.replica.slave_role import SlaveRole


class ReplicaCore:
    """Invariants:
    - master exactly while `_master` exists, and then its epoch entry is durable;
    - slave exactly while `_slave` exists; never both;
    - every open HA link belongs to the present role: a role change closes all of them first;
    - `master_epoch` never falls, and `log.epoch_seen` never falls, also not over restarts.
    """

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
    ) -> None:
        """`clean` False: power was lost or the disk failed, acknowledged bytes may be missing (S5).
        `epoch_seen`: highest master epoch ever persisted (WriteEpochs)."""
        self.config = config
        self.broker_id = broker_id
        self.incarnation = incarnation
        # Bytes without a history cannot be vouched for either (S12).
        self.clean = clean and (bool(epochs) or log_end == log_min)
        self.log = ReplicaLog(
            epochs=epochs,
            end_offset=log_end,
            min_offset=log_min,
            confirm_offset=confirm_offset,
            epoch_seen=epoch_seen,
        )
        self.master_epoch = 0
        self.master_id: int | None = None
        self.master_address: str | None = None
        self.replicas: dict[int, str] = {}
        self._members: tuple[int, ...] = ()
        self._set_epoch = 0
        self._master: MasterRole | None = None
        self._slave: SlaveRole | None = None
        self._promotion: RoleNotice | None = None  # waiting for the cut of an incomplete record
        self._tokens = count(1)
        self._now_ms = 0
        self._ticked_ms: int | None = None
        self._ask_at_ms = 0
        self._ask_elect: bool | None = None  # what is asked while fenced; None: nothing yet

    # -- what others may know ---------------------------------------------------------------------

    @property
    def role(self) -> Role:
        if self._master is not None:
            return Role.MASTER
        return Role.SLAVE if self._slave is not None else Role.FENCED

    @property
    def sync_state_set(self) -> tuple[int, ...]:
        return tuple(sorted(self._master.sync.confirmed)) if self._master else self._members

    @property
    def set_epoch(self) -> int:
        return self._master.sync.set_epoch if self._master else self._set_epoch

    @property
    def confirm_offset(self) -> int:
        return self.log.confirm_offset

    @property
    def log_end(self) -> int:
        return self.log.end_offset

    @property
    def epochs(self) -> EpochHistory:
        return self.log.epochs

    @property
    def is_master(self) -> bool:
        return self._master is not None

    def can_accept_writes(self) -> str | None:
        """Why a write must be refused now, before anything is written; None when it may be tried."""
        if self._master is None:
            return f"not the master, role {self.role.value}"
        return self._master.write_refusal(self._now_ms)

    # -- roles ------------------------------------------------------------------------------------

    def on_role_notice(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        """Whatever the controller said about the set, from any message."""
        self._now_ms = now_ms
        standing = Standing(
            self.broker_id,
            self.role,
            self.master_id,
            self.master_epoch,
            self.log.epoch_seen,
            self.clean,
        )
        match judge(standing, notice):
            case Verdict.IGNORE:
                return []
            case Verdict.REFRESH:
                return self._refresh(notice, now_ms)
            case Verdict.LEAD:
                return self._become_master(notice)
            case Verdict.FOLLOW:
                return self._become_slave(notice, now_ms)
            case Verdict.FENCE | Verdict.VETO:
                return self._become_fenced(notice) + self._ask(elect=True, now_ms=now_ms)
            case Verdict.ASK_ELECTION:
                return self._ask(elect=True, now_ms=now_ms)
            case Verdict.ASK_STATE:
                return self._ask(elect=False, now_ms=now_ms)

    def _refresh(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        self._note_members(notice)
        self.master_address = notice.master_address or self.master_address
        if self._master is not None and notice.members is not None and notice.set_epoch is not None:
            return self._master.learn_set(notice.members, notice.set_epoch, now_ms)
        if self._slave is not None and notice.master_ha_address is not None:
            return self._slave.move_to(notice.master_ha_address, now_ms)
        return []

    def _note_members(self, notice: RoleNotice) -> None:
        if notice.replicas:
            self.replicas = dict(notice.replicas)
        if notice.members is not None and (notice.set_epoch or 0) >= self._set_epoch:
            self._members = tuple(sorted(notice.members))
            self._set_epoch = notice.set_epoch or 0

    def _take_epoch(self, notice: RoleNotice) -> None:
        self.master_epoch = notice.master_epoch
        self.master_id = notice.master_id
        self.master_address = notice.master_address
        self._note_members(notice)

    def _leave_role(self, reason: str) -> list[Effect]:
        """Close every link, so that no acknowledgement of this epoch is given or taken any more."""
        effects: list[Effect] = []
        if self._master is not None:
            for link_id in list(self._master.links):
                effects += self._master.drop(link_id, reason)
            effects.append(AbortWaiters(reason))
            self._members, self._set_epoch = self.sync_state_set, self.set_epoch
        if self._slave is not None:
            effects += self._slave.close(reason, self._now_ms)
        self._master = self._slave = self._promotion = None
        return effects

    def _become_master(self, notice: RoleNotice) -> list[Effect]:
        """First step; the second comes with `truncated`, the entry is written then. Until it is
        durable the replica is fenced: it answers no handshake and accepts no write."""
        effects = self._leave_role(f"becoming master in epoch {notice.master_epoch}")
        self._take_epoch(notice)
        self._promotion = notice
        return [*effects, CutIncompleteTail()]

    def _promoted(self, notice: RoleNotice, end_offset: int, now_ms: int) -> list[Effect]:
        assert notice.members is not None and notice.set_epoch is not None
        effects = self.log.was_cut(end_offset, "incomplete record at the end")
        effects += self.log.begin_epoch(notice.master_epoch)
        self.clean = True  # or the controller chose it knowingly (AT_RISK): its log is the log now
        self._master = MasterRole(
            self.config,
            self.log,
            broker_id=self.broker_id,
            epoch=notice.master_epoch,
            members=notice.members,
            set_epoch=notice.set_epoch,
            tokens=self._tokens,
            now_ms=now_ms,
        )
        return effects + self._role_effects(notice.source) + self._master.begin(now_ms)

    def _become_slave(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        """Persist the epoch, close every link, then follow (S8)."""
        assert notice.master_id is not None
        effects = self.log.see_epoch(notice.master_epoch)
        effects += self._leave_role(f"following broker {notice.master_id} in epoch {notice.master_epoch}")
        self._take_epoch(notice)
        self._slave = SlaveRole(
            self.config,
            self.log,
            broker_id=self.broker_id,
            master_id=notice.master_id,
            epoch=notice.master_epoch,
            strict_epoch=notice.regent_master,
            ha_address=notice.master_ha_address,
            now_ms=now_ms,
        )
        return effects + self._role_effects(notice.source) + self._slave.connect(now_ms)

    def _become_fenced(self, notice: RoleNotice) -> list[Effect]:
        effects = self.log.see_epoch(notice.master_epoch)
        effects += self._leave_role(f"fenced in epoch {notice.master_epoch}")
        self._take_epoch(notice)
        return effects + self._role_effects(notice.source)

    def _role_effects(self, source: str) -> list[Effect]:
        role = self.role.value
        changed = RoleChanged(
            role,
            self.master_epoch,
            self.master_id,
            self.master_address,
            self.sync_state_set,
            self.set_epoch,
            dict(self.replicas),
            source,
        )
        fields = {
            "role": role,
            "master_epoch": self.master_epoch,
            "master_broker_id": -1 if self.master_id is None else self.master_id,
            "source": source,
        }
        return [changed, ReportEvent("RoleChanged", fields)]

    def _ask(self, *, elect: bool, now_ms: int) -> list[Effect]:
        """Ask the controller now, and again from `tick` while fenced; never more often than that."""
        self._ask_elect = elect
        if now_ms < self._ask_at_ms:
            return []
        self._ask_at_ms = now_ms + self.config.ask_controller_ms
        return [AskController(elect)]

    # -- links ------------------------------------------------------------------------------------

    def link_opened(self, link_id: int, *, outbound: bool, now_ms: int) -> list[Effect]:
        self._now_ms = now_ms
        if outbound and self._slave is not None:
            return self._slave.link_opened(link_id, now_ms)
        if outbound:
            return [CloseLink(link_id, f"not a slave, role {self.role.value}")]
        if self._master is None:
            return [CloseLink(link_id, f"not the master, role {self.role.value}")]
        if len(self._master.links) >= self.config.links_max:
            return [CloseLink(link_id, f"more than {self.config.links_max} links")]
        return self._master.link_opened(link_id, now_ms)

    def link_data(self, link_id: int, data: bytes | memoryview, now_ms: int) -> list[Effect]:
        """Bytes of a peer. Bytes of a link closed meanwhile are ignored."""
        self._now_ms = now_ms
        if self._master is not None and link_id in self._master.links:
            return self._master.link_data(link_id, data, now_ms)
        if self._slave is not None and link_id == self._slave.link_id:
            effects = self._slave.link_data(data, now_ms)
            self._trust_when_caught_up()
            return effects
        return []

    def link_closed(self, link_id: int, reason: str, now_ms: int) -> list[Effect]:
        self._now_ms = now_ms
        if self._master is not None and link_id in self._master.links:
            return self._master.link_closed(link_id, reason, now_ms)
        if self._slave is not None and link_id == self._slave.link_id:
            return self._slave.link_closed(reason, now_ms)
        return []

    def link_flow(self, link_id: int, *, blocked: bool, now_ms: int) -> list[Effect]:
        """The shell's queue of this link is full (`blocked`), or has room again."""
        self._now_ms = now_ms
        if self._master is not None and link_id in self._master.links:
            return self._master.link_flow(link_id, blocked=blocked, now_ms=now_ms)
        return []

    def connect_failed(self, now_ms: int) -> list[Effect]:
        self._now_ms = now_ms
        if self._slave is not None:
            self._slave.connect_failed(now_ms)
        return []

    # -- log --------------------------------------------------------------------------------------

    def log_grew(self, end_offset: int, now_ms: int) -> list[Effect]:
        """The master's own log now ends at `end_offset`. Only a master's log grows this way."""
        self._now_ms = now_ms
        assert self._master is not None, "only a master appends"
        return self._master.log_grew(end_offset, now_ms)

    def log_trimmed(self, min_offset: int, now_ms: int) -> list[Effect]:
        """Old files were deleted: the log begins at `min_offset`."""
        self._now_ms = now_ms
        return self.log.trimmed(min_offset)

    def truncated(self, ok: bool, end_offset: int, now_ms: int) -> list[Effect]:
        """Answer to TruncateLog and CutIncompleteTail: the log now ends at `end_offset`."""
        self._now_ms = now_ms
        if self._promotion is not None:
            notice, self._promotion = self._promotion, None
            return self._promoted(notice, end_offset, now_ms)
        if self._slave is not None:
            effects = self._slave.truncated(ok, end_offset, now_ms)
            self._trust_when_caught_up()
            return effects
        return self.log.was_cut(end_offset, "role changed meanwhile")

    def storage_failed(self, reason: str, end_offset: int, now_ms: int) -> list[Effect]:
        """The disk refused an effect; the log really ends at `end_offset`. Nothing here can be
        vouched for until it has caught up (S5)."""
        self._now_ms = now_ms
        self.clean = False
        effects = self._leave_role(f"storage failed: {reason}")
        effects += self.log.was_cut(end_offset, "storage failed")
        return effects + self._role_effects("storage_failed")

    def _trust_when_caught_up(self) -> None:
        if self._slave is not None and self._slave.caught_up:
            self.clean = True

    # -- controller and time ----------------------------------------------------------------------

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
        shell reports one result for every ProposeSyncSet."""
        self._now_ms = now_ms
        if self._master is not None and (master_epoch or 0) > self.master_epoch:
            # A new mastership, perhaps even of this broker: the controller's next answer tells.
            effects = self._leave_role(f"epoch {master_epoch} exists")
            effects += self._role_effects("alter_refused")
            return effects + self._ask(elect=False, now_ms=now_ms)
        if self._master is None:
            return []
        return self._master.alter_result(token, code, members, set_epoch, now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Time passes; call about every 25 ms. A gap above `stall_ms` was a pause of this process."""
        self._now_ms = now_ms
        stalled_ms = 0 if self._ticked_ms is None else now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        if self._master is not None:
            if stalled_ms > self.config.stall_ms:
                self._master.forgive(stalled_ms)
            return self._master.tick(now_ms)
        if self._slave is not None:
            if stalled_ms > self.config.stall_ms:
                self._slave.forgive(stalled_ms)
            return self._slave.tick(now_ms)
        return [] if self._ask_elect is None else self._ask(elect=self._ask_elect, now_ms=now_ms)
