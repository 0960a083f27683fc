"""When the controller itself calls for an election (RULES 9, design D8, DESIGN 5).

Responsible for: which sets have lost their master, for what cause, and whether calling (again)
makes sense: a call that found nobody is repeated only when the evidence has changed.
Refuses to know: who wins (the fold), how the call reaches the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from events.envelope import ReplicaEvidence
from processors.fold.candidates import REASON_STALE
from processors.fold.rules import (
    SETTING_AT_RISK_WAIT_MS,
    SETTING_ELECT_RETRIES,
    SETTING_SCAN_MASTERS,
)
from processors.fold.state import SETTING_DEFAULTS, BrokerSet, Replica
from processors.liveness.at_risk_wait import AtRiskWaits
from processors.liveness.mass_silence import MASS_SILENCE_HOLD_MS, MassSilence
from processors.liveness.pulses import (
    DEFAULT_TIMEOUT_MS,
    REASON_CLOSED,
    REASON_EXPIRED,
    REASON_NEVER_SEEN,
    REASON_REFUSED,
)
from processors.liveness.rate_limit import RateLimit
from processors.liveness.replicas import Liveness

CAUSE_REFUSED = "master_probe_refused"
CAUSE_EXPIRED = "master_heartbeat_expired"
CAUSE_NEVER_SEEN = "master_never_seen"
CAUSE_RESTARTED = "master_restarted"
CAUSE_NO_MASTER = "no_master"
CAUSE_CLEANED = "master_cleaned"

GRACE_MAX_MS = 120_000
"""Whatever a broker calls its timeout, a master never heard of is not waited for any longer."""
CALL_TIMEOUT_MS = 2_500
"""A call whose outcome has not been seen for this long may be made again."""
FRUITLESS_EVERY_MS = 10_000
FRUITLESS_AT_ONCE = 10
"""A set may have this many elections that find nobody at once, and one more in each period; ten
while a member lives.
"""


@dataclass(frozen=True, slots=True)
class ElectionCall:
    """An election the controller wants: the command's fields, and what would make a repeat
    useful.
    """

    cluster_name: str
    broker_name: str
    cause: str
    expected_master_epoch: int
    expected_set_epoch: int
    evidence: tuple[ReplicaEvidence, ...]
    fingerprint: tuple[object, ...]
    waited_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How calls are repeated. `hold_ms`: how long mass silence holds elections by silence back.

    `retries`: how often a call whose outcome is not seen is made, before it waits `rescan_ms`
    (electMasterMaxRetryCount, scanInactiveMasterInterval; a call that found nobody is no failure to
    be repeated: defect 5 of RULES 15). `at_risk_wait_ms`: how long an election at risk
    waits for former members, 0 for ever (atRiskWaitMs).
    """

    hold_ms: int = MASS_SILENCE_HOLD_MS
    retries: int = int(SETTING_DEFAULTS[SETTING_ELECT_RETRIES])
    rescan_ms: int = int(SETTING_DEFAULTS[SETTING_SCAN_MASTERS])
    at_risk_wait_ms: int = int(SETTING_DEFAULTS[SETTING_AT_RISK_WAIT_MS])


@dataclass(slots=True)
class _Attempt:
    fingerprint: tuple[object, ...]
    called_ms: int
    open: bool
    unseen: int = 0
    """Calls before this one whose outcome was not seen."""


class ElectionTriggers:
    """The active controller's memory of calls made. `became_active` starts it anew."""

    def __init__(self) -> None:
        self._attempts: dict[str, _Attempt] = {}
        self._fruitless = RateLimit()
        self._pace = Pace()
        self._leading_since_ms = -GRACE_MAX_MS
        self._silence = MassSilence()
        self._waits = AtRiskWaits()

    def became_active(self, now_ms: int) -> None:
        """Masters this controller never heard of get a full timeout from now on (defect 12)."""
        self._attempts.clear()
        self._silence.forget()
        self._waits = AtRiskWaits()
        self._leading_since_ms = now_ms

    def unheard_masters(
        self, sets: Iterable[BrokerSet], liveness: Liveness, now_ms: int
    ) -> list[tuple[str, str]]:
        """(address, set) of recorded masters without an open connection here, to be probed at
        once.
        """
        found: list[tuple[str, str]] = []
        for broker_set in sets:
            master = broker_set.master()
            if master is not None and not liveness.is_alive(broker_set, master, now_ms):
                found.append((master.address, broker_set.broker_name))
        return found

    def calls(
        self,
        sets: Iterable[BrokerSet],
        liveness: Liveness,
        now_ms: int,
        pace: Pace | None = None,
        world: Collection[BrokerSet] | None = None,
    ) -> list[ElectionCall]:
        """The elections to call now; each counts as called. `world`: all sets, when `sets` are only
        some.
        """
        calls: list[ElectionCall] = []
        self._pace = pace or self._pace
        sets = tuple(sets)
        everybody = sets if world is None else world

        def held_back() -> bool:
            return self._silence.holds(everybody, liveness, now_ms, self._pace.hold_ms)

        for broker_set in sets:
            cause = self._cause(broker_set, liveness, now_ms, held_back)
            if cause is None:
                continue
            call = self._call(broker_set, cause, liveness, now_ms)
            if call is not None and self._may_call(broker_set, call, now_ms):
                self._called(call, now_ms)
                calls.append(call)
        return calls

    def _may_call(self, broker_set: BrokerSet, call: ElectionCall, now_ms: int) -> bool:
        """Evidence that keeps changing must not fill the log with elections that find nobody.

        A repeat for want of an outcome has its own pace; and a set does not wait for others'
        comings and goings once a member is back.
        """
        attempt = self._attempts.get(call.broker_name)
        if attempt is not None and attempt.open:
            return True
        dear = FRUITLESS_EVERY_MS // 1000
        members = (*broker_set.sync_state_set, *broker_set.remembered, *broker_set.uncertain)
        cost = 1 if any(row.alive and row.broker_id in members for row in call.evidence) else dear
        return self._fruitless.take(
            call.broker_name, now_ms, rate_per_s=1, burst=FRUITLESS_AT_ONCE * dear, cost=cost
        )

    def _called(self, call: ElectionCall, now_ms: int) -> None:
        before = self._attempts.get(call.broker_name)
        unseen = before.unseen + 1 if before is not None and before.open else 0
        if unseen >= self._pace.retries:
            unseen = 0
        self._attempts[call.broker_name] = _Attempt(call.fingerprint, now_ms, True, unseen)

    def _cause(
        self, broker_set: BrokerSet, liveness: Liveness, now_ms: int, held_back: Callable[[], bool]
    ) -> str | None:
        if broker_set.tombstone or not broker_set.has_had_master:
            return None  # The first election is asked for by a broker (RULES 10.1 step 5).
        if broker_set.master_broker_id is None:
            return CAUSE_NO_MASTER
        master = broker_set.master()
        if master is None:
            return CAUSE_CLEANED
        reason = liveness.reason_of(broker_set, master, now_ms)
        if reason == REASON_REFUSED:
            return CAUSE_REFUSED
        if broker_set.master_restarted or reason == REASON_STALE:
            return CAUSE_RESTARTED
        if reason == REASON_EXPIRED:
            return None if held_back() else CAUSE_EXPIRED
        if reason == REASON_NEVER_SEEN and not may_live(
            broker_set, master, liveness, self._leading_since_ms, now_ms
        ):
            return None if held_back() else CAUSE_NEVER_SEEN
        return None

    def _call(
        self, broker_set: BrokerSet, cause: str, liveness: Liveness, now_ms: int
    ) -> ElectionCall | None:
        evidence = liveness.evidence(broker_set, now_ms)
        if not any(row.alive for row in evidence):
            return None
        waited_ms = (
            self._waits.waited_ms(broker_set, evidence, now_ms)
            if self._pace.at_risk_wait_ms
            else None
        )
        is_over = waited_ms is not None and waited_ms >= self._pace.at_risk_wait_ms
        fingerprint = (*_fingerprint(broker_set, evidence), is_over)
        attempt = self._attempts.get(broker_set.broker_name)
        if attempt is not None:
            if attempt.open and now_ms - attempt.called_ms < self._again_after_ms(attempt):
                return None
            if not attempt.open and attempt.fingerprint == fingerprint:
                return None
        return ElectionCall(
            cluster_name=broker_set.cluster_name,
            broker_name=broker_set.broker_name,
            cause=cause,
            expected_master_epoch=broker_set.master_epoch,
            expected_set_epoch=broker_set.sync_state_set_epoch,
            evidence=evidence,
            fingerprint=fingerprint,
            waited_ms=waited_ms,
        )

    def _again_after_ms(self, attempt: _Attempt) -> int:
        if attempt.unseen + 1 < self._pace.retries:
            return CALL_TIMEOUT_MS
        return max(CALL_TIMEOUT_MS, self._pace.rescan_ms)

    def settled(self, broker_name: str, elected: bool) -> None:
        """The outcome of a call has been applied."""
        if elected:
            self._fruitless.forget(broker_name)
            self._waits.forget(broker_name)
        attempt = self._attempts.get(broker_name)
        if attempt is None:
            return
        if elected:
            del self._attempts[broker_name]
        else:
            attempt.open = False

    def rules_changed(self) -> None:
        """Settings or rules moved: calls that found nobody may find somebody now."""
        self._attempts = {name: one for name, one in self._attempts.items() if one.open}


def may_live(
    broker_set: BrokerSet, master: Replica, liveness: Liveness, leading_since_ms: int, now_ms: int
) -> bool:
    """Whether a master that is not heard now is to be waited for: its connection closed and its
    port has not refused, or its leader has not led for long enough to hear it (RULES 8).
    """
    reason = liveness.reason_of(broker_set, master, now_ms)
    if reason == REASON_NEVER_SEEN:
        return now_ms <= leading_since_ms + _grace_ms(broker_set, liveness)
    return reason == REASON_CLOSED


def _grace_ms(broker_set: BrokerSet, liveness: Liveness) -> int:
    """A full timeout: the longest known in its set, since a replica that was never heard stated
    none.
    """
    keys = (
        (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
        for replica in broker_set.replicas
    )
    told = (pulse.timeout_ms for key in keys if (pulse := liveness.pulse(key)) is not None)
    return min(max([DEFAULT_TIMEOUT_MS, *told]), GRACE_MAX_MS)


def _fingerprint(
    broker_set: BrokerSet, evidence: tuple[ReplicaEvidence, ...]
) -> tuple[object, ...]:
    """What decides whether any replica can be elected; offsets only decide which one."""
    return (
        broker_set.master_epoch,
        broker_set.sync_state_set_epoch,
        tuple(replica.clean for replica in broker_set.replicas),
        tuple((row.broker_id, row.alive, row.incarnation) for row in evidence),
    )
