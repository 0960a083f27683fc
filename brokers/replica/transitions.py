"""How a replica takes and leaves its roles, step by step.

Responsible for: the one role object that exists at a time, and the order in which the outside sees
a change: persist the epoch, close every link, then act (design S5, S6, S8). Refuses to know: which
input caused the change; what a role does (master_role.py, slave_role.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from brokers.replica.admission import Admission
from brokers.replica.config import ReplicaConfig
from brokers.replica.effects import (
    AbortWaiters,
    AskController,
    CutIncompleteTail,
    Effect,
    FlushLog,
    RegisterAgain,
    ReportEvent,
    RoleChanged,
)
from brokers.replica.ha_address import HaAddress, HaAddressSource
from brokers.replica.master_role import MasterRole
from brokers.replica.replica_log import ReplicaLog
from brokers.replica.roles import Role, RoleNotice, Standing, Verdict, judge
from brokers.replica.slave_role import SlaveRole


class RoleTransitions:
    """Invariants:
    - at most one of `master`, `slave` and a promotion under way exists;
    - a master exists only after its epoch entry is durable;
    - every open HA link belongs to the present role: a change closes all of them first;
    - `master_epoch` never falls.
    """

    def __init__(
        self, config: ReplicaConfig, log: ReplicaLog, *, broker_id: int, clean: bool
    ) -> None:
        self.broker_id = broker_id
        self._clean = clean
        self.master: MasterRole | None = None
        self.slave: SlaveRole | None = None
        self.master_epoch = 0
        self.master_id: int | None = None
        self.master_address: str | None = None
        self.replicas: dict[int, str] = {}
        self._config = config
        self._log = log
        self._admission = Admission()
        self._members: tuple[int, ...] = ()
        self._set_epoch = 0
        self._promotion: RoleNotice | None = None  # waiting for the cut of an incomplete record
        self._tokens = count(1)
        self._ask_at_ms = 0
        self._ask_elect: bool | None = None  # what is asked while fenced; None: nothing yet
        # Epoch and master of a notice that cannot be followed before the disk answers.
        self._waits_for: tuple[int, str | None] | None = None

    def joins_with_tables(self, has_tables: Callable[[int], bool]) -> None:
        """The check before a replica is proposed for the set (S19); without this call there is
        none.
        """
        self._admission.has_tables = has_tables

    @property
    def clean(self) -> bool:
        """What it holds can be vouched for: a clean start, or caught up with a master since
        (S5).
        """
        return self._clean or (self.slave is not None and self.slave.caught_up)

    @property
    def role(self) -> Role:
        if self.master is not None:
            return Role.MASTER
        return Role.SLAVE if self.slave is not None else Role.FENCED

    @property
    def sync_state_set(self) -> tuple[int, ...]:
        return tuple(sorted(self.master.sync.confirmed)) if self.master else self._members

    @property
    def acknowledging_members(self) -> tuple[int, ...]:
        return tuple(sorted(self.master.sync.union)) if self.master else self._members

    @property
    def set_epoch(self) -> int:
        return self.master.sync.set_epoch if self.master else self._set_epoch

    def on_notice(
        self, notice: RoleNotice, now_ms: int, *, disk_hangs: bool = False
    ) -> list[Effect]:
        """Judge a notice and do what it demands. `disk_hangs`: nothing can be made durable now."""
        seen = self._log.epoch_seen
        standing = Standing(
            self.broker_id, self.role, self.master_id, self.master_epoch, seen, self.clean
        )
        match judge(standing, notice):
            case Verdict.IGNORE:
                return []
            case Verdict.FOLLOW if disk_hangs:
                return self._wait_for_disk(notice, now_ms)
            case Verdict.REFRESH:
                return self._refresh(notice, now_ms)
            case Verdict.LEAD:
                return self._become_master(notice, now_ms)
            case Verdict.FOLLOW:
                return self._become_slave(notice, now_ms)
            case Verdict.FENCE:
                return self._become_fenced(notice, now_ms) + self._ask(elect=True, now_ms=now_ms)
            case Verdict.VETO:
                return self._become_fenced(notice, now_ms) + self._refuse_to_lead(now_ms)
            case Verdict.ASK_ELECTION:
                return self._ask(elect=True, now_ms=now_ms)
            case Verdict.ASK_STATE:
                return self._ask(elect=False, now_ms=now_ms)

    def _refresh(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        self._note_members(notice)
        self.master_address = notice.master_address or self.master_address
        if self.master is not None and notice.members is not None and notice.set_epoch is not None:
            return self.master.learn_set(
                notice.members, notice.set_epoch, now_ms
            ) + self.master.part_with_unregistered(now_ms)
        if self.slave is None:
            return []
        if not notice.regent_master:
            return self.slave.master_heard(
                self.master_address or "", notice.master_ha_address, now_ms
            )
        return (
            self.slave.move_to(notice.master_ha_address, now_ms) if notice.master_ha_address else []
        )

    def ha_address_told(
        self, master_address: str, ha_address: str, word: HaAddressSource, now_ms: int
    ) -> list[Effect]:
        """Somebody knows where a master takes links; it may be one of former times."""
        if self.slave is None or master_address != self.master_address:
            return []
        return self.slave.hear_address(ha_address, word, now_ms)

    def _note_members(self, notice: RoleNotice) -> None:
        if notice.replicas:
            self.replicas = dict(notice.replicas)
            self._admission.learn(self.replicas)
        if notice.members is not None and (notice.set_epoch or 0) >= self._set_epoch:
            self._members = tuple(sorted(notice.members))
            self._set_epoch = notice.set_epoch or 0

    def _take_epoch(self, notice: RoleNotice) -> None:
        self.master_epoch = notice.master_epoch
        self.master_id = notice.master_id
        self.master_address = notice.master_address
        self._ask_elect = self._waits_for = None
        self._note_members(notice)

    def _leave(self, reason: str, now_ms: int) -> list[Effect]:
        """Close every link, so that no acknowledgement of this epoch is given or taken any more."""
        effects: list[Effect] = []
        if self.master is not None:
            for link_id in list(self.master.links):
                effects += self.master.drop(link_id, reason)
            effects.append(AbortWaiters(reason))
            self._members, self._set_epoch = self.sync_state_set, self.set_epoch
        if self.slave is not None:
            effects += self.slave.close(reason, now_ms)
        self._clean = self.clean
        self.master = self.slave = self._promotion = None
        return effects

    def _become_master(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        """First step; the second comes with `truncated`, the entry is written then. Until it is
        durable the replica is fenced: it answers no handshake and accepts no write.
        """
        effects = self._leave(f"becoming master in epoch {notice.master_epoch}", now_ms)
        self._take_epoch(notice)
        self._promotion = notice
        return [*effects, CutIncompleteTail()]

    def _promoted(self, notice: RoleNotice, end_offset: int, now_ms: int) -> list[Effect]:
        assert notice.members is not None and notice.set_epoch is not None
        effects = self._log.was_cut(end_offset, "incomplete record at the end")
        effects += self._log.begin_epoch(notice.master_epoch)
        self._clean = True  # or the controller chose it knowingly (AT_RISK): its log is the log now
        self.master = MasterRole(
            self._config,
            self._log,
            broker_id=self.broker_id,
            epoch=notice.master_epoch,
            members=notice.members,
            set_epoch=notice.set_epoch,
            tokens=self._tokens,
            now_ms=now_ms,
            admission=self._admission,
        )
        effects += self._role_effects(notice.source) + self.master.begin(now_ms)
        # Behind the epoch's own write: a disk does one after the other, and clients wait for that
        # one.
        return [*effects, FlushLog()]

    def _become_slave(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        """Persist the epoch, close every link, then follow (S8)."""
        assert notice.master_id is not None
        # The same master again may have sent bytes of its new epoch before this replica heard of
        # it, if they were linked.
        another = notice.master_id != self.master_id or self._log.none_of_seen
        effects = self._log.see_epoch(notice.master_epoch, none_here=another)
        log_is_older = self._log.none_of_seen and notice.master_epoch == self._log.epoch_seen
        reason = f"following broker {notice.master_id} in epoch {notice.master_epoch}"
        effects += self._leave(reason, now_ms)
        self._take_epoch(notice)
        self.slave = SlaveRole(
            self._config,
            self._log,
            broker_id=self.broker_id,
            master_id=notice.master_id,
            epoch=notice.master_epoch,
            strict_epoch=notice.regent_master,
            ha_address=self._ha_address_of(notice, now_ms),
            now_ms=now_ms,
            in_set=lambda: self.broker_id in self._members,
            master_address=notice.master_address or "",
            log_is_older=log_is_older,
        )
        return effects + self._role_effects(notice.source) + self.slave.connect(now_ms)

    def _wait_for_disk(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        """The epoch must be durable before anything is done in it, and writing it would stop this
        process. So it leaves its role, follows nobody, and sends requests to the new master; the
        first notice that comes when the disk answers is followed.
        """
        waits_for = notice.master_epoch, notice.master_address
        if self.role is Role.FENCED and self._waits_for == waits_for:
            return []
        reason = f"the disk does not answer, broker {notice.master_id} leads"
        effects = self._leave(reason, now_ms)
        self._waits_for = waits_for
        return effects + _told(
            RoleChanged(
                Role.SLAVE.value,
                notice.master_epoch,
                notice.master_id,
                notice.master_address,
                self._members,
                self._set_epoch,
                dict(self.replicas),
                "disk_hangs",
            )
        )

    def _ha_address_of(self, notice: RoleNotice, now_ms: int) -> HaAddress:
        if notice.regent_master:
            return HaAddress(notice.master_ha_address)
        return HaAddress(
            None, notice.master_ha_address, now_ms + self._config.ha_address_guess_after_ms
        )

    def _become_fenced(self, notice: RoleNotice, now_ms: int) -> list[Effect]:
        effects = self._log.see_epoch(notice.master_epoch)
        effects += self._leave(f"fenced in epoch {notice.master_epoch}", now_ms)
        self._take_epoch(notice)
        return effects + self._role_effects(notice.source)

    def _refuse_to_lead(self, now_ms: int) -> list[Effect]:
        """The controllers believe in this log, as when an election at risk was never heard here:
        unless this is reported, they keep a master that lives and does not lead.
        """
        return [RegisterAgain(), *self._ask(elect=True, now_ms=now_ms)]

    def _role_effects(self, source: str) -> list[Effect]:
        return _told(
            RoleChanged(
                self.role.value,
                self.master_epoch,
                self.master_id,
                self.master_address,
                self.sync_state_set,
                self.set_epoch,
                dict(self.replicas),
                source,
            )
        )

    def _ask(self, *, elect: bool, now_ms: int) -> list[Effect]:
        """Ask the controller now, and again from `tick` while fenced; never more often than
        that.
        """
        self._ask_elect = elect
        if now_ms < self._ask_at_ms:
            return []
        self._ask_at_ms = now_ms + self._config.ask_controller_ms
        return [AskController(elect)]

    # -- other causes -----------------------------------------------------------------------------

    def cut_done(self, ok: bool, end_offset: int, now_ms: int) -> list[Effect]:
        """The log now ends at `end_offset`: a promotion or a handshake goes on."""
        if self._promotion is not None:
            notice, self._promotion = self._promotion, None
            return self._promoted(notice, end_offset, now_ms)
        if self.slave is not None:
            return self.slave.truncated(ok, end_offset, now_ms)
        return self._log.was_cut(end_offset, "role changed meanwhile")

    def step_down(self, reason: str, source: str, now_ms: int) -> list[Effect]:
        """Out of any role, within the same epoch."""
        return self._leave(reason, now_ms) + self._role_effects(source)

    def disk_full(self, reason: str, now_ms: int) -> list[Effect]:
        """A slave parts from its master until there is room; a replica about to lead must be able
        to write now.
        """
        if self._promotion is not None:
            return self.step_down(reason, "disk_full", now_ms) + self._ask(
                elect=True, now_ms=now_ms
            )
        return [] if self.slave is None else self.slave.disk_full(reason, now_ms)

    def distrust(self, reason: str, source: str, now_ms: int) -> list[Effect]:
        """Step down, and veto every promotion until it has caught up."""
        effects = self.step_down(reason, source, now_ms)
        self._clean = False
        return effects

    def outruled(self, epoch: int, now_ms: int) -> list[Effect]:
        """A mastership above ours exists, perhaps of this broker itself: the next answer names its
        master.
        """
        effects = self.step_down(f"epoch {epoch} exists", "alter_refused", now_ms)
        return effects + self._ask(elect=False, now_ms=now_ms)

    def tick_fenced(self, now_ms: int) -> list[Effect]:
        """Ask again what was asked when the replica was fenced."""
        return [] if self._ask_elect is None else self._ask(elect=self._ask_elect, now_ms=now_ms)


def _told(change: RoleChanged) -> list[Effect]:
    """To this broker, and as a fact for the history."""
    fields = {
        "role": change.role,
        "master_epoch": change.master_epoch,
        "master_broker_id": -1 if change.master_id is None else change.master_id,
        "source": change.source,
    }
    return [change, ReportEvent("RoleChanged", fields)]
