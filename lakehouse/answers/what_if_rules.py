"""One incident again, under other timers or another policy, through the rules that controllers run.

Responsible for putting the liveness, the triggers and the decision of `processors` into the moment
at which other settings would have called for an election. Refuses to know history: it gets the set
as it was, what was recorded of its replicas, and the silences that ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from events.changes import MasterElected
from events.commands import ElectMaster
from events.envelope import ELECTION_PRIORITY_DEFAULT, NO_OFFSET, Envelope, ReplicaEvidence
from events.outcomes import LABEL_AT_RISK, LABEL_UNCLEAN
from processors.fold import decide
from processors.fold.rules import SETTING_UNCLEAN
from processors.fold.state import NO_BROKER_ID, BrokerSet, ControllerState
from processors.liveness.pulses import (
    DEFAULT_TIMEOUT_MS,
    REASON_CLOSED,
    REASON_EXPIRED,
    REASON_REFUSED,
    Heartbeat,
)
from processors.liveness.replicas import Liveness
from processors.liveness.triggers import ElectionTriggers

LABELS_OF_RISK = frozenset({LABEL_AT_RISK, LABEL_UNCLEAN})
NOBODY_ALIVE = "nobody was alive"
NEVER_HEARD = frozenset({"never_seen", "not_heard_yet", "awaited"})


@dataclass(frozen=True, slots=True)
class Timers:
    """What decides when a master counts as gone. None: what each broker stated when it happened."""

    heartbeat_timeout_ms: int | None = None
    probes: bool = True
    """Whether a closed connection leads to a probe, and a refused one to an election; without,
    silence alone counts.
    """


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may win. Fields that are None leave what was in force."""

    meaning: str
    unclean: bool | None = None
    priorities: bool = True


POLICIES: Mapping[str, Policy] = {
    "recorded": Policy("the rules and settings that were in force"),
    "longest": Policy(
        "within the SyncStateSet the longest log wins, whatever the priorities", priorities=False
    ),
    "unclean": Policy(
        "a replica outside the SyncStateSet may win when nobody in it can", unclean=True
    ),
    "clean": Policy("nobody outside the SyncStateSet ever wins", unclean=False),
}


@dataclass(frozen=True, slots=True)
class Silence:
    """A replica was not heard from `from_ms` to `until_ms`, then again. Times in ms since
    1970-01-01 UTC.
    """

    broker_id: int
    from_ms: int
    until_ms: int
    timeout_ms: int
    was_gone: bool
    restarted: bool

    def covers(self, at_ms: int) -> bool:
        """Whether it lasts at that moment."""
        return self.from_ms <= at_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules say. `winner` None: no master was elected, `reason` says why."""

    at_ms: int
    winner: int | None
    reason: str
    labels: tuple[str, ...] = ()
    behind_bytes: int = 0
    """How far the winner's log, as last reported, lies behind the longest one; 0 unless the
    election may lose messages.
    """


@dataclass(frozen=True, slots=True)
class Scene:
    """A set at the moment of an incident: the state before it, and what the controller knew
    then.
    """

    state: ControllerState
    broker_name: str
    at_ms: int
    evidence: tuple[ReplicaEvidence, ...]
    silences: Sequence[Silence] = ()
    """Those of this set."""

    @property
    def broker_set(self) -> BrokerSet:
        """The set as it was."""
        return self.state.sets[self.broker_name]

    def of(self, broker_id: int | None) -> ReplicaEvidence | None:
        """What was known of a replica."""
        return next((one for one in self.evidence if one.broker_id == broker_id), None)

    def silence_of(self, broker_id: int, at_ms: int) -> Silence | None:
        """The silence of a replica that lasts at that moment, if it ended at all."""
        return next(
            (one for one in self.silences if one.broker_id == broker_id and one.covers(at_ms)), None
        )


def due_ms(scene: Scene, timers: Timers) -> int:
    """When these timers would have called for the election that took place at the scene.

    What was noticed later than the timeout says (scans, a busy controller) is late here too.
    """
    master = scene.of(scene.broker_set.master_broker_id)
    if master is None or master.silent_ms < 0 or timers == Timers():
        return scene.at_ms
    heard_ms = scene.at_ms - master.silent_ms
    told_ms = _told_timeout(scene, master)
    wanted_ms = timers.heartbeat_timeout_ms or told_ms
    if master.reason == REASON_EXPIRED:
        return heard_ms + wanted_ms + max(1, master.silent_ms - told_ms)
    if master.reason == REASON_REFUSED and not timers.probes:
        return heard_ms + wanted_ms + 1
    return scene.at_ms


def judge(scene: Scene, at_ms: int, timers: Timers, policy: Policy) -> Judged:
    """What the rules decide at `at_ms`, when the master of the scene is gone for them."""
    broker_set = scene.broker_set
    if timers == Timers():
        return decided(scene, broker_set, scene.evidence, at_ms, policy)
    master_id = broker_set.master_broker_id
    silence = None if master_id is None else scene.silence_of(master_id, scene.at_ms)
    if silence is not None and silence.until_ms <= at_ms:
        if not silence.restarted:
            return Judged(silence.until_ms, master_id, "the master was heard again before")
        broker_set, at_ms = replace(broker_set, master_restarted=True), silence.until_ms
    liveness = _heard(scene, broker_set, at_ms, timers)
    calls = ElectionTriggers().calls((broker_set,), liveness, at_ms)
    if not calls:
        alive = any(row.alive for row in liveness.evidence(broker_set, at_ms))
        return Judged(
            at_ms, master_id if alive else None, ("the master was alive") if alive else NOBODY_ALIVE
        )
    return decided(scene, broker_set, calls[0].evidence, at_ms, policy)


def decided(
    scene: Scene,
    broker_set: BrokerSet,
    evidence: tuple[ReplicaEvidence, ...],
    at_ms: int,
    policy: Policy,
) -> Judged:
    """The decision on this evidence, as if its command stood in the log."""
    state = scene.state.with_set(broker_set)
    if policy.unclean is not None:
        state = replace(
            state, settings=state.settings.set(SETTING_UNCLEAN, str(policy.unclean).lower())
        )
    if not policy.priorities:
        evidence = tuple(
            replace(row, election_priority=ELECTION_PRIORITY_DEFAULT) for row in evidence
        )
    envelope = Envelope(
        bytes(16), state.cluster_id, state.term, "what-if", at_ms, "what-if", None, NO_OFFSET, b""
    )
    command = ElectMaster(
        envelope,
        broker_set.cluster_name,
        broker_set.broker_name,
        NO_BROKER_ID,
        False,
        None,
        None,
        evidence,
    )
    decision = decide.rule(state, command)
    elected = next((one for one in decision.changes if isinstance(one, MasterElected)), None)
    if elected is None:
        return Judged(
            at_ms,
            None,
            ("nobody could be chosen") if decision.refusal is None else decision.refusal.name,
        )
    winner = elected.master_broker_id
    labels = tuple(decision.labels)
    return Judged(
        at_ms,
        winner,
        "elected",
        labels,
        behind_bytes(evidence, winner) if LABELS_OF_RISK & {*labels} else 0,
    )


def behind_bytes(evidence: Sequence[ReplicaEvidence], winner: int) -> int:
    """How far the winner's log lies behind the longest, as both were last reported; 0 when that is
    not known.
    """
    known = {row.broker_id: row.max_offset for row in evidence if row.max_offset >= 0}
    return max(known.values()) - known[winner] if winner in known else 0


def _told_timeout(scene: Scene, row: ReplicaEvidence) -> int:
    """The timeout of a replica: its silence shows it, else it is the default or what fits."""
    silence = scene.silence_of(row.broker_id, scene.at_ms)
    if silence is not None:
        return silence.timeout_ms
    if row.reason == REASON_EXPIRED:
        return min(DEFAULT_TIMEOUT_MS, row.silent_ms - 1)
    return max(DEFAULT_TIMEOUT_MS, row.silent_ms)


def _heard(scene: Scene, broker_set: BrokerSet, at_ms: int, timers: Timers) -> Liveness:
    """What a controller with these timers would have known at `at_ms`: replicas once heard went on,
    but for known silences.
    """
    liveness = Liveness()
    for row in scene.evidence:
        replica = broker_set.replica(row.broker_id)
        if replica is None or row.reason in NEVER_HEARD or row.silent_ms < 0:
            continue
        key = (broker_set.cluster_name, broker_set.broker_name, row.broker_id)
        timeout_ms = timers.heartbeat_timeout_ms or _told_timeout(scene, row)
        is_back = broker_set.master_restarted and row.broker_id == broker_set.master_broker_id
        heartbeat = Heartbeat(
            key,
            replica.address,
            row.epoch,
            row.max_offset,
            row.confirm_offset,
            timeout_ms,
            row.election_priority,
            replica.incarnation if is_back else row.incarnation,
        )
        liveness.heard(
            heartbeat, row.broker_id, at_ms if is_back else _last_heard(scene, row, at_ms)
        )
        if row.reason in (REASON_CLOSED, REASON_REFUSED) and not is_back:
            liveness.connection_closed(row.broker_id, at_ms)
            if row.reason == REASON_REFUSED and timers.probes:
                liveness.probe_result(replica.address, "refused", at_ms)
    return liveness


def _last_heard(scene: Scene, row: ReplicaEvidence, at_ms: int) -> int:
    silence = scene.silence_of(row.broker_id, at_ms)
    if silence is not None:
        return silence.from_ms
    if not row.alive:
        return scene.at_ms - row.silent_ms
    return at_ms - row.silent_ms
