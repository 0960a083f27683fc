"""Decides elections: whether there is one, and what it changes.

Responsible for RULES 5.5 with design S6 and S7, and for the new epoch.
Refuses to know who is best: `elect` chooses.
"""

from functools import reduce

from msgspec.structs import replace

from events.changes import Change, MasterAtRisk, MasterCleared, MasterElected
from events.commands import ElectMaster
from events.envelope import ReplicaEvidence
from events.outcomes import LABEL_AT_RISK, CandidateVerdict
from processors.fold.candidates import Candidate, assess, highest_epoch, not_considered, reach
from processors.fold.decide_positions import after_an_election, change_of, gone_back, shown_in
from processors.fold.decide_replicas import REASON_WENT_BACK, left_the_set
from processors.fold.elect import Election, elect
from processors.fold.evolve import evolve_set
from processors.fold.refusals import Decision, Refusal
from processors.fold.rules import Rules, rules_of
from processors.fold.state import EPOCH_MAX, NO_BROKER_ID, BrokerSet, ControllerState

REASON_NOBODY = "NOBODY_ELECTABLE"
NO_LIMIT = 2**64
NO_CHANGES: tuple[Change, ...] = ()


def elect_master(state: ControllerState, command: ElectMaster) -> Decision:
    """Elect from the set as it is now; nothing happens if the issuer acted on another one."""
    broker_set = state.live_set(command.broker_name)
    if broker_set is None:
        return Decision(Refusal.NEED_TO_BE_REGISTERED)
    asking_id = NO_BROKER_ID if command.designate else command.broker_id
    candidates = assess(broker_set, command.evidence, asking_id)
    refusal = _not_to_be_held(broker_set, command)
    if refusal is not None:
        return Decision(refusal, candidates=not_considered(candidates))
    rules = rules_of(state.rules_version)
    positions, left = broker_set.positions, NO_CHANGES
    if rules.notices_going_back:
        positions = shown_in(broker_set, candidates)
        if lost := gone_back(broker_set, candidates):
            left = left_the_set(broker_set, lost, REASON_WENT_BACK, broker_set.highest_epoch_seen)
            broker_set = reduce(evolve_set, left, broker_set)
            candidates = assess(broker_set, command.evidence, asking_id)
    election = elect(
        broker_set,
        candidates,
        broker_id=command.broker_id,
        designate=command.designate,
        unclean_allowed=state.unclean_allowed,
        rules=rules,
        wait_is_over=_wait_is_over(state, command),
    )
    if election.master_kept:
        return Decision(Refusal.MASTER_STILL_EXIST, candidates=election.verdicts)
    counts = command.evidence if rules.epoch_above_all_evidence else ()
    if election.winner is None:
        seen = candidates if rules.epoch_above_all_evidence else ()
        limit = reach(broker_set, rules, EPOCH_MAX)
        failed = _failed(broker_set, command, election.verdicts, seen, counts, limit)
        changes = (*left, *failed.changes)
        kept = change_of(broker_set, positions) if changes else NO_CHANGES
        return failed if changes == kept else replace(failed, changes=(*changes, *kept))
    limit = reach(broker_set, rules, NO_LIMIT)
    highest = highest_epoch(broker_set.highest_epoch_seen, candidates, counts, limit)
    elected = _elected(broker_set, candidates, election, highest, rules)
    if elected.refusal is not None or not rules.notices_going_back:
        return elected
    winner = next(c for c in candidates if c.broker_id == election.winner)
    at_risk = LABEL_AT_RISK in election.labels
    positions = after_an_election(positions, election.members, winner, at_risk=at_risk)
    kept = change_of(broker_set, positions)
    if not left and not kept:
        return elected
    return Decision(None, (*left, *elected.changes, *kept), elected.candidates, elected.labels)


def _wait_is_over(state: ControllerState, command: ElectMaster) -> bool:
    """Return whether the leader waited as long as the setting says; it alone has the clock."""
    if command.waited_ms is None:
        return False
    limit_ms = state.at_risk_wait_ms
    return 0 < limit_ms <= command.waited_ms


def _not_to_be_held(broker_set: BrokerSet, command: ElectMaster) -> Refusal | None:
    if command.expected_master_epoch not in (None, broker_set.master_epoch):
        return Refusal.STATE_MOVED
    if command.expected_set_epoch not in (None, broker_set.sync_state_set_epoch):
        return Refusal.STATE_MOVED
    if command.designate or command.broker_id == NO_BROKER_ID:
        return None
    asking = broker_set.replica(command.broker_id)
    if asking is None or not asking.is_registered:
        return Refusal.NEED_TO_BE_REGISTERED
    return None


def _failed(
    broker_set: BrokerSet,
    command: ElectMaster,
    verdicts: tuple[CandidateVerdict, ...],
    candidates: tuple[Candidate, ...],
    evidence: tuple[ReplicaEvidence, ...],
    limit: int,
) -> Decision:
    """Refuse; a dead master is cleared once, when a controller asked.

    Shipped code moves the epoch at every such failure, and removes a live master when an
    operator names -1 (RULES 5.5 and 15 row 5).
    """
    if command.broker_id != NO_BROKER_ID:
        return Decision(Refusal.ELECT_MASTER_FAILED, candidates=verdicts)
    master = broker_set.master_broker_id
    if command.designate or master is None or broker_set.master_epoch >= EPOCH_MAX:
        return Decision(Refusal.MASTER_NOT_AVAILABLE, candidates=verdicts)
    epoch = broker_set.master_epoch + 1
    highest = highest_epoch(max(broker_set.highest_epoch_seen, epoch), candidates, evidence, limit)
    cleared = MasterCleared(broker_set.broker_name, master, epoch, REASON_NOBODY, highest)
    return Decision(Refusal.MASTER_NOT_AVAILABLE, (cleared,), verdicts)


def _elected(
    broker_set: BrokerSet,
    candidates: tuple[Candidate, ...],
    election: Election,
    highest: int,
    rules: Rules,
) -> Decision:
    """Give the winner an epoch above everything that any broker of the set ever reported (S7)."""
    winner = next(c.replica for c in candidates if c.broker_id == election.winner)
    epoch = 1 + max(broker_set.master_epoch, highest)
    if epoch > EPOCH_MAX:
        verdicts = not_considered(candidates)
        return Decision(Refusal.EPOCH_EXHAUSTED, candidates=verdicts)
    elected = MasterElected(
        broker_set.broker_name,
        winner.broker_id,
        winner.address,
        epoch,
        election.members,
        broker_set.sync_state_set_epoch + 1,
        epoch,
    )
    labels = tuple(sorted(election.labels))
    changes: tuple[MasterElected | MasterAtRisk, ...] = (elected,)
    if rules.records_risk and LABEL_AT_RISK in labels:
        changes = (elected, MasterAtRisk(broker_set.broker_name, epoch))
    return Decision(None, changes, election.verdicts, labels)
