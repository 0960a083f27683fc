"""What a change does to the state.

Responsible for applying decided changes; total: what is decided has happened, so nothing here
refuses, and a change to a set nobody knows is a no-op. Refuses to know why it was decided.
"""

from collections.abc import Callable, Sequence
from typing import Any, assert_never, get_args

from immutables import Map
from msgspec.structs import replace
from typing_extensions import TypeIs

from events.changes import (
    BrokerIdApplied,
    BrokerRegistered,
    BrokersCleaned,
    BrokerSetImported,
    Change,
    ClusterStarted,
    LeadershipClaimed,
    MasterAtRisk,
    MasterCleared,
    MasterElected,
    MembersRemembered,
    MinimumTold,
    PositionsShown,
    RulesActivated,
    SetDoubted,
    SettingsChanged,
    SyncStateSetAltered,
)
from processors.fold.state import BrokerSet, ControllerState, Replica

# Asked from the left, of each change of each record: the most frequent stand first.
SetChange = (
    SyncStateSetAltered
    | BrokerRegistered
    | MasterElected
    | PositionsShown
    | MasterCleared
    | MasterAtRisk
    | BrokerIdApplied
    | BrokersCleaned
    | BrokerSetImported
    | MembersRemembered
    | MinimumTold
    | SetDoubted
)
OF_A_SET = frozenset(get_args(SetChange))
_BEGIN_A_SET = (BrokerIdApplied, BrokerSetImported)


def evolve_all(state: ControllerState, changes: Sequence[Change]) -> ControllerState:
    """Return the state after `changes`, one after the other; those of one set put it back once."""
    if len(changes) == 1:
        return evolve(state, changes[0])
    name, broker_set = None, None
    change: Any  # Its kind is asked for by type: `isinstance` of twelve costs more than the rest.
    for change in changes:
        if type(change) not in OF_A_SET:
            state = evolve(state if broker_set is None else state.with_set(broker_set), change)
            name, broker_set = None, None
            continue
        if change.broker_name != name:
            if broker_set is not None:
                state = state.with_set(broker_set)
            name = change.broker_name
            broker_set = state.sets.get(name)
        if broker_set is not None or isinstance(change, _BEGIN_A_SET):
            broker_set = evolve_set(broker_set, change)
    return state if broker_set is None else state.with_set(broker_set)


def evolve(state: ControllerState, change: Change) -> ControllerState:
    """Return the state after `change`."""
    if _is_of_a_set(change):
        before = state.sets.get(change.broker_name)
        if before is None and not isinstance(change, _BEGIN_A_SET):
            return state
        return state.with_set(evolve_set(before, change))
    match change:
        case LeadershipClaimed():
            return replace(
                state,
                term=change.term,
                leader_id=change.controller_id,
                leader_address=change.controller_address,
                leader_release=change.release,
            )
        case ClusterStarted():
            return replace(
                state,
                cluster_id=change.cluster_id,
                rules_version=change.rules_version,
                settings=Map(change.settings),
                fingerprints=tuple(change.fingerprints),
            )
        case SettingsChanged():
            return replace(state, settings=state.settings.update(change.settings))
        case RulesActivated():
            return replace(
                state, rules_version=change.rules_version, fingerprints=tuple(change.fingerprints)
            )
        case _:
            assert_never(change)


def _is_of_a_set(change: Change) -> TypeIs[SetChange]:
    return type(change) in OF_A_SET


def evolve_set(broker_set: Any, change: Any) -> BrokerSet:
    """Return the set after `change`; None is a set that nobody has heard of."""
    return EVOLVE[type(change)](broker_set, change)


def _with_applied(broker_set: BrokerSet | None, change: BrokerIdApplied) -> BrokerSet:
    if broker_set is None:
        broker_set = BrokerSet(change.cluster_name, change.broker_name)
    newcomer = Replica(change.broker_id, change.broker_address, change.register_check_code)
    others = [r for r in broker_set.replicas if r.broker_id != change.broker_id]
    return replace(
        broker_set,
        cluster_name=change.cluster_name,
        next_broker_id=change.next_broker_id,
        replicas=tuple(sorted([*others, newcomer], key=lambda replica: replica.broker_id)),
        tombstone=False,
        imported=False,
    )


def _with_registered(broker_set: BrokerSet, change: BrokerRegistered) -> BrokerSet:
    broker_id, replicas = change.broker_id, list(broker_set.replicas)
    for at, replica in enumerate(replicas):
        if replica.broker_id == broker_id:
            replicas[at] = Replica(
                broker_id,
                change.broker_address,
                replica.register_check_code,
                change.ha_address,
                change.incarnation,
                change.clean,
                change.incarnation is not None,
                True,
                change.last_epoch,
                change.end_offset,
            )
            break
    is_master = broker_set.master_broker_id == broker_id
    # Written out, here and below: `replace` looks at every field by name, and this is the fold's
    # hot path.
    return BrokerSet(
        broker_set.cluster_name,
        broker_set.broker_name,
        broker_set.next_broker_id,
        tuple(replicas),
        broker_set.master_broker_id,
        broker_set.master_epoch,
        broker_set.sync_state_set,
        broker_set.sync_state_set_epoch,
        change.highest_epoch_seen,
        broker_set.master_restarted or (change.restarted_master and is_master),
        broker_set.has_had_master,
        broker_set.unclean_members,
        broker_set.tombstone,
        broker_set.at_risk,
        broker_set.imported and not is_master,
        broker_set.remembered,
        broker_set.former,
        broker_set.minimums,
        broker_set.positions,
        broker_set.uncertain,
    )


def _without_master(broker_set: BrokerSet, change: MasterCleared) -> BrokerSet:
    return replace(
        broker_set,
        master_broker_id=None,
        master_epoch=change.master_epoch,
        highest_epoch_seen=change.highest_epoch_seen,
        master_restarted=False,
        at_risk=False,
        imported=False,
    )


def _with_elected(broker_set: BrokerSet, change: MasterElected) -> BrokerSet:
    return BrokerSet(
        broker_set.cluster_name,
        broker_set.broker_name,
        broker_set.next_broker_id,
        _clean_again(broker_set.replicas, change.sync_state_set),
        change.master_broker_id,
        change.master_epoch,
        tuple(change.sync_state_set),
        change.sync_state_set_epoch,
        change.highest_epoch_seen,
        False,
        True,
        (),
        broker_set.tombstone,
        remembered=broker_set.remembered,
        former=broker_set.former,
        minimums=broker_set.minimums,
        positions=broker_set.positions,
    )


def _with_altered(broker_set: BrokerSet, change: SyncStateSetAltered) -> BrokerSet:
    unclean = change.unclean_members
    # A member that leaves unclean is unclean from here on: its registration follows in the same
    # decision.
    replicas = broker_set.replicas
    if unclean:
        replicas = tuple(
            replace(r, clean=False) if r.clean and r.broker_id in unclean else r for r in replicas
        )
    return BrokerSet(
        broker_set.cluster_name,
        broker_set.broker_name,
        broker_set.next_broker_id,
        _clean_again(replicas, change.joined),
        broker_set.master_broker_id,
        broker_set.master_epoch,
        tuple(change.sync_state_set),
        change.sync_state_set_epoch,
        change.highest_epoch_seen,
        broker_set.master_restarted,
        broker_set.has_had_master,
        tuple(unclean),
        broker_set.tombstone,
        broker_set.at_risk,
        remembered=broker_set.remembered,
        former=broker_set.former,
        minimums=broker_set.minimums,
        positions=broker_set.positions,
        uncertain=broker_set.uncertain,
    )


def _with_minimum(broker_set: BrokerSet, change: MinimumTold) -> BrokerSet:
    minimums = {**dict(broker_set.minimums), change.broker_id: change.min_in_sync}
    return replace(broker_set, minimums=tuple(sorted(m for m in minimums.items() if m[1] > 1)))


def _doubted(broker_set: BrokerSet, change: SetDoubted) -> BrokerSet:
    cleared = MasterCleared(
        change.broker_name, -1, change.master_epoch, "", change.highest_epoch_seen
    )
    return replace(
        _without_master(broker_set, cleared),
        sync_state_set=(),
        sync_state_set_epoch=change.sync_state_set_epoch,
        has_had_master=broker_set.has_had_master
        or any(r.is_registered for r in broker_set.replicas),
        remembered=(),
        former=tuple(change.uncertain),
        uncertain=tuple(change.uncertain),
    )


def _imported(_before: BrokerSet | None, change: BrokerSetImported) -> BrokerSet:
    """Whatever stood there before was a tombstone or an earlier import: the decision saw to
    that.
    """
    replicas = tuple(
        Replica(one.broker_id, one.address, one.register_check_code, is_registered=True)
        for one in change.replicas
    )
    return BrokerSet(
        change.cluster_name,
        change.broker_name,
        change.next_broker_id,
        replicas=replicas,
        master_broker_id=change.master_broker_id,
        master_epoch=change.master_epoch,
        sync_state_set=tuple(change.sync_state_set),
        sync_state_set_epoch=change.sync_state_set_epoch,
        highest_epoch_seen=change.highest_epoch_seen,
        has_had_master=change.master_epoch > 0,
        imported=True,
    )


def _without_cleaned(broker_set: BrokerSet, change: BrokersCleaned) -> BrokerSet:
    gone = change.broker_ids
    left = tuple(r for r in broker_set.replicas if r.broker_id not in gone)
    return replace(
        broker_set,
        replicas=left,
        has_had_master=broker_set.has_had_master and bool(left),
        unclean_members=tuple(i for i in broker_set.unclean_members if i not in gone),
        tombstone=not left,
        imported=False,
        uncertain=broker_set.uncertain if left else (),
        minimums=tuple(told for told in broker_set.minimums if told[0] not in gone),
        positions=tuple(row for row in broker_set.positions if row.broker_id not in gone),
    )


def _clean_again(replicas: tuple[Replica, ...], members: tuple[int, ...]) -> tuple[Replica, ...]:
    """Members hold all that was acknowledged, so an unclean start of theirs is over (S5)."""
    for replica in replicas:
        if not replica.clean and replica.broker_id in members:
            break
    else:
        return replicas
    return tuple(
        replace(r, clean=True) if not r.clean and r.broker_id in members else r for r in replicas
    )


def _with_positions(broker_set: BrokerSet, change: PositionsShown) -> BrokerSet:
    return BrokerSet(
        broker_set.cluster_name,
        broker_set.broker_name,
        broker_set.next_broker_id,
        broker_set.replicas,
        broker_set.master_broker_id,
        broker_set.master_epoch,
        broker_set.sync_state_set,
        broker_set.sync_state_set_epoch,
        broker_set.highest_epoch_seen,
        broker_set.master_restarted,
        broker_set.has_had_master,
        broker_set.unclean_members,
        broker_set.tombstone,
        broker_set.at_risk,
        broker_set.imported,
        broker_set.remembered,
        broker_set.former,
        broker_set.minimums,
        tuple(change.positions),
        broker_set.uncertain,
    )


def _at_risk(broker_set: BrokerSet, _change: MasterAtRisk) -> BrokerSet:
    return replace(broker_set, at_risk=True)


def _with_memory(broker_set: BrokerSet, change: MembersRemembered) -> BrokerSet:
    return replace(broker_set, remembered=tuple(change.remembered), former=tuple(change.former))


# Looked up by type: the fold comes by for each change of each record.
EVOLVE: dict[type[Change], Callable[[Any, Any], BrokerSet]] = {
    SyncStateSetAltered: _with_altered,
    BrokerRegistered: _with_registered,
    MasterElected: _with_elected,
    PositionsShown: _with_positions,
    MasterCleared: _without_master,
    MasterAtRisk: _at_risk,
    BrokerIdApplied: _with_applied,
    BrokersCleaned: _without_cleaned,
    BrokerSetImported: _imported,
    MembersRemembered: _with_memory,
    MinimumTold: _with_minimum,
    SetDoubted: _doubted,
}
