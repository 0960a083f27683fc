"""Decides whether a master gets the SyncStateSet it asks for.

Responsible for RULES 5.6, row by row, with design S3 to S6.
Refuses to know why the master wants it: what has caught up is the master's to judge.
"""

from events.changes import SyncStateSetAltered
from events.commands import AlterSyncStateSet
from processors.fold.candidates import Candidate, assess, highest_epoch, reach
from processors.fold.decide_positions import change_of, shown_in
from processors.fold.refusals import Decision, Refusal
from processors.fold.rules import rules_of
from processors.fold.state import EPOCH_MAX, BrokerSet, ControllerState

REASON_PROPOSED = "PROPOSED"
REASON_LOSS_PROVEN = "LOSS_PROVEN"


def alter_sync_state_set(state: ControllerState, command: AlterSyncStateSet) -> Decision:
    """Try the rows of RULES 5.6 from the top; the first that matches decides."""
    broker_set = state.live_set(command.broker_name)
    if broker_set is None:
        return Decision(Refusal.NO_SUCH_SET)
    wanted = command.new_sync_state_set
    if wanted != broker_set.sync_state_set:
        wanted = tuple(sorted(set(wanted)))
    rules = rules_of(state.rules_version)
    lost: tuple[int, ...] = ()
    if command.lost_members and rules.notices_going_back:
        lost, wanted = _lost(broker_set, command), _without(wanted, command.lost_members)
    # Equality goes before ownership and epochs, as shipped: a repeat gets 2013.
    if wanted == broker_set.sync_state_set and not lost:
        return Decision(Refusal.SET_UNCHANGED)
    refusal = _fenced(broker_set, command)
    if refusal is not None:
        return Decision(refusal)
    candidates = assess(broker_set, command.evidence, command.master_broker_id)
    refusal = _unfit_member(wanted, candidates, members_too=not rules.asks_joiners_only)
    if refusal is not None:
        return Decision(refusal)
    if command.master_broker_id not in wanted:
        return Decision(Refusal.SET_WITHOUT_MASTER)
    counts = command.evidence if rules.epoch_above_all_evidence else ()
    highest = highest_epoch(
        max(broker_set.highest_epoch_seen, 0),
        candidates,
        counts,
        reach(broker_set, rules, EPOCH_MAX),
    )
    altered = _altered(broker_set, wanted, lost, highest)
    if not rules.notices_going_back:
        return Decision(None, (altered,))
    return Decision(
        None, (altered, *change_of(broker_set, shown_in(broker_set, candidates, altered.joined)))
    )


def _lost(broker_set: BrokerSet, command: AlterSyncStateSet) -> tuple[int, ...]:
    """Return the replicas that count as unclean from here on, ascending: its master proved that it
    lost data (S15).

    Also a former member: it may be remembered. Replicas that never were members, are forgotten, or
    are unclean already are left out: a repeat changes nothing.
    """
    trusted = (*broker_set.sync_state_set, *broker_set.former)
    lost = []
    for replica in broker_set.replicas:
        broker_id = replica.broker_id
        if replica.clean and broker_id in command.lost_members and broker_id in trusted:
            lost.append(broker_id)
    return tuple(lost)


def _fenced(broker_set: BrokerSet, command: AlterSyncStateSet) -> Refusal | None:
    if broker_set.master_broker_id != command.master_broker_id:
        return Refusal.NOT_THE_MASTER
    if broker_set.master_restarted:
        return Refusal.MASTER_RESTARTED
    if broker_set.master_epoch != command.expected_master_epoch:
        return Refusal.MASTER_EPOCH_FENCED
    if broker_set.sync_state_set_epoch != command.expected_set_epoch:
        return Refusal.SET_EPOCH_FENCED
    return None


def _unfit_member(
    wanted: tuple[int, ...], candidates: tuple[Candidate, ...], *, members_too: bool
) -> Refusal | None:
    """Return what is wrong with the first bad member: per member existence, then liveness.

    `members_too`: of members that stay liveness is asked, too (rules 1 and 2, as shipped). One that
    acknowledges to its master but is not heard here blocked every change, that of a dead one too.
    """
    for broker_id in wanted:
        for member in candidates:
            if member.broker_id == broker_id:
                break
        else:
            return Refusal.REPLICA_UNKNOWN
        if not member.replica.is_registered:
            return Refusal.REPLICA_UNKNOWN
        if not member.is_alive and (members_too or not member.in_set):
            return Refusal.REPLICA_NOT_ALIVE
    return None


def _altered(
    broker_set: BrokerSet, wanted: tuple[int, ...], lost: tuple[int, ...], highest: int
) -> SyncStateSetAltered:
    """Return the change; a live master goes on with this set, so nobody waits for old members but
    the lost.
    """
    before = broker_set.sync_state_set
    return SyncStateSetAltered(
        broker_set.broker_name,
        wanted,
        broker_set.sync_state_set_epoch + 1,
        _without(wanted, before),
        _without(before, wanted),
        REASON_LOSS_PROVEN if lost else REASON_PROPOSED,
        lost,
        highest,
    )


def _without(ids: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    left = []
    for broker_id in ids:
        if broker_id not in others:
            left.append(broker_id)
    return tuple(left)
