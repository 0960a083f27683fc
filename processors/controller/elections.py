"""Elections as the active controller sees them: the calls, their commands, and the pushes
afterwards.

Responsible for: turning due triggers into commands, telling every living member of a set about a
new master (1008), at once, but for Java slaves, and those where it takes HA links (906).
Refuses to know: who leads among controllers, and who wins (the fold).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from brokers.remoting.command import RemotingCommand
from events.changes import MasterElected, RulesActivated, SettingsChanged, SyncStateSetAltered
from events.commands import ElectMaster
from events.envelope import Envelope
from events.outcomes import Outcome
from processors.controller import effects as fx
from processors.controller.effects import Effect
from processors.fold.rules import (
    SETTING_ELECT_RETRIES,
    SETTING_MASS_SILENCE_HOLD_MS,
    SETTING_NOTIFY_ROLES,
    SETTING_SCAN_MASTERS,
)
from processors.fold.state import BrokerSet, ControllerState, Replica
from processors.liveness.pulses import NOTICE_TOKEN, REASON_REFUSED
from processors.liveness.replicas import Liveness
from processors.liveness.role_taking import REGISTERS_MS, Asked, Question, RoleTakings
from processors.liveness.triggers import CAUSE_REFUSED, ElectionCall, ElectionTriggers, Pace
from processors.settings import recorded
from processors.wire import answers

_NO_BROKER = -1


class Elections:
    """What one active controller keeps about elections."""

    def __init__(
        self, liveness: Liveness, takings: RoleTakings, is_at_risk: Callable[[str], bool]
    ) -> None:
        self._liveness = liveness
        self._takings = takings
        self._is_at_risk = is_at_risk
        self._triggers = ElectionTriggers()

    def begin_leading(self, state: ControllerState, now_ms: int) -> list[tuple[str, str]]:
        """(address, set) of the masters without an open connection here."""
        self._triggers.became_active(now_ms)
        self._takings.clear()
        sets = [state.sets[name] for name in sorted(state.sets) if not state.sets[name].tombstone]
        return self._triggers.unheard_masters(sets, self._liveness, now_ms)

    def tell(self, state: ControllerState, names: Iterable[str], now_ms: int) -> list[Effect]:
        """Push the roles that a former leader may not have pushed."""
        effects: list[Effect] = []
        for name in names:
            effects += self._tell_elected(state, state.sets[name], now_ms)
        return effects

    def calls(
        self, state: ControllerState, names: Iterable[str], now_ms: int, wall_skew_ms: int
    ) -> list[tuple[ElectionCall, dict[str, int]]]:
        """The elections to append now, each with the stamps of how the loss was noticed."""
        sets = [state.sets[name] for name in names if name in state.sets]
        if not sets:
            return []
        return [
            (call, self._stamps(state.sets[call.broker_name], wall_skew_ms))
            for call in self._triggers.calls(
                sets, self._liveness, now_ms, _pace(state), tuple(state.sets.values())
            )
        ]

    def _stamps(self, broker_set: BrokerSet, wall_skew_ms: int) -> dict[str, int]:
        if broker_set.master_broker_id is None:
            return {}
        pulse = self._liveness.pulse(
            (broker_set.cluster_name, broker_set.broker_name, broker_set.master_broker_id)
        )
        if pulse is None or pulse.gone is None:
            return {}
        noticed_ms = pulse.gone_ms if pulse.closed_ms is None else pulse.closed_ms
        stamps = {"detected": noticed_ms + wall_skew_ms}
        if pulse.gone == REASON_REFUSED:
            stamps["probed"] = pulse.gone_ms + wall_skew_ms
        return stamps

    @staticmethod
    def command(call: ElectionCall, envelope: Envelope) -> ElectMaster:
        return ElectMaster(
            envelope=envelope,
            cluster_name=call.cluster_name,
            broker_name=call.broker_name,
            broker_id=_NO_BROKER,
            designate=False,
            expected_master_epoch=call.expected_master_epoch,
            expected_set_epoch=call.expected_set_epoch,
            evidence=call.evidence,
            waited_ms=call.waited_ms,
        )

    def after_apply(self, outcome: Outcome, state: ControllerState, now_ms: int) -> list[Effect]:
        """The pushes that this outcome asks for, and what it means for calls under way."""
        name = outcome.broker_name
        if outcome.kind == ElectMaster.__name__ and name is not None:
            self._triggers.settled(name, elected=outcome.accepted)
        effects: list[Effect] = []
        for change in outcome.changes:
            match change:
                case MasterElected():
                    elected = state.sets[change.broker_name]
                    # Nobody listens any more where the old master did, so no slave links there.
                    waits_ms = 0 if outcome.cause == CAUSE_REFUSED else REGISTERS_MS
                    effects = self._tell_elected(state, elected, now_ms, waits_ms, is_new=True)
                case SyncStateSetAltered() if outcome.kind != "AlterSyncStateSet":
                    # Nobody asked for this one, so the master does not learn it from an answer.
                    told = self._tell_all(state, state.sets[change.broker_name], now_ms)
                    effects = effects or [*told]
                case SettingsChanged() | RulesActivated():
                    self._triggers.rules_changed()
        return effects

    def tell_one(
        self, state: ControllerState, name: str, broker_id: int, now_ms: int
    ) -> list[Effect]:
        """Push the current roles to one replica that has come back."""
        broker_set = state.sets.get(name)
        replica = None if broker_set is None else broker_set.replica(broker_id)
        if broker_set is None or not _has_mastership(broker_set):
            return []
        if replica is None or not replica.is_registered or not _pushes(state):
            return []
        if not self._may_be_told(broker_set, replica, now_ms):
            return []
        return [self._push(broker_set, replica, self._notice(state, broker_set))]

    def _tell_all(
        self, state: ControllerState, broker_set: BrokerSet, now_ms: int, is_new: bool = False
    ) -> list[fx.NotifyRole]:
        if not _has_mastership(broker_set) or not _pushes(state):
            return []
        notice = self._notice(state, broker_set)
        return [
            self._push(broker_set, replica, notice)
            for replica in broker_set.replicas
            if replica.is_registered and self._may_be_told(broker_set, replica, now_ms, is_new)
        ]

    def _push(
        self, broker_set: BrokerSet, replica: Replica, notice: RemotingCommand
    ) -> fx.NotifyRole:
        """With what proves to that start of a replica of ours that a controller of its own sends
        it.
        """
        pulse = self._liveness.pulse(
            (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
        )
        if pulse is not None and pulse.notice_token is not None:
            notice = structs.replace(notice, ext=notice.ext | {NOTICE_TOKEN: pulse.notice_token})
        return fx.NotifyRole(replica.address, notice)

    def _may_be_told(
        self, broker_set: BrokerSet, replica: Replica, now_ms: int, is_new: bool = False
    ) -> bool:
        """Of an election that is not new, a Java master only when it has sent a heartbeat since it
        last registered: a start that the log does not know of yet would take up the mastership of
        the one before (S6). Java asks by itself too, once it is registered.
        """
        if (
            replica.broker_id == broker_set.master_broker_id
            and not replica.is_regent
            and not is_new
        ):
            pulse = self._liveness.pulse(
                (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
            )
            return pulse is not None and pulse.direct_ms is not None and pulse.is_alive(now_ms)
        return not self._liveness.is_gone(broker_set, replica, now_ms)

    def _tell_elected(
        self,
        state: ControllerState,
        broker_set: BrokerSet,
        now_ms: int,
        registers_ms: int = REGISTERS_MS,
        *,
        is_new: bool = False,
    ) -> list[Effect]:
        """Tell all, but Java slaves only when the master has taken its role. Where the election is
        not new, those of them that are members have heard of it.
        """
        told = self._tell_all(state, broker_set, now_ms, is_new)
        members = () if is_new else broker_set.sync_state_set
        slaves = {
            replica.address: replica.broker_id
            for replica in broker_set.replicas
            if not replica.is_regent
            and replica.broker_id not in (broker_set.master_broker_id, *members)
        }
        reached = [slaves[one.address] for one in told if one.address in slaves]
        if not self._takings.begin(
            broker_set.broker_name,
            broker_set.master_epoch,
            broker_set.master_broker_id or _NO_BROKER,
            reached,
            registers_ms,
            now_ms,
        ):
            return [*told]
        asked = self.questions(state, now_ms)
        return [one for one in told if one.address not in slaves] + asked

    def questions(self, state: ControllerState, now_ms: int) -> list[Effect]:
        """What new masters and their Java slaves are to be asked and told now."""

        def present(name: str) -> tuple[int | None, tuple[int, ...]]:
            known = state.sets.get(name)
            if known is None or not _has_mastership(known):
                return None, ()
            return known.master_epoch, known.sync_state_set

        return [
            fx.AskBroker(one.token, replica.address, request, one.timeout_ms)
            for one in self._takings.due(present, now_ms)
            for replica, request in self._asked(state.sets[one.broker_name], one, state)
        ]

    def _asked(
        self, broker_set: BrokerSet, question: Question, state: ControllerState
    ) -> list[tuple[Replica, RemotingCommand]]:
        replica = broker_set.replica(question.broker_id)
        master = broker_set.master()
        if replica is None or master is None:
            return []
        match question.asked:
            case Asked.MASTER:
                return [(replica, answers.ha_question())]
            case Asked.NOTICE:
                notice = structs.replace(self._notice(state, broker_set), flag=0)
                return [(replica, notice)]
            case Asked.LINK | Asked.UNLINK:
                return [(replica, answers.ha_told(question.ha_address, master.address))]

    def answered(self, token: int, answer: RemotingCommand | None, now_ms: int) -> None:
        """What came of a question; None: nothing."""
        told = None if answer is None else answer.ext.get("masterHaAddress", "")
        self._takings.answered(token, told, now_ms)

    def _notice(self, state: ControllerState, broker_set: BrokerSet) -> RemotingCommand:
        return answers.role_notice(state, broker_set, self._is_at_risk(broker_set.broker_name))


def _has_mastership(broker_set: BrokerSet) -> bool:
    """One that is over must not be begun again by the restarted broker that held it (S6)."""
    return broker_set.master() is not None and not broker_set.master_restarted


def _pushes(state: ControllerState) -> bool:
    return recorded.flag(state, SETTING_NOTIFY_ROLES)


def _pace(state: ControllerState) -> Pace:
    return Pace(
        hold_ms=recorded.number(state, SETTING_MASS_SILENCE_HOLD_MS),
        retries=recorded.number(state, SETTING_ELECT_RETRIES),
        rescan_ms=recorded.number(state, SETTING_SCAN_MASTERS),
        at_risk_wait_ms=state.at_risk_wait_ms,
    )
