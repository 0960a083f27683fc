"""What each change does to the state; total also where the set is unknown."""

import pytest
from immutables import Map

from events.changes import (
    CHANGES,
    BrokerIdApplied,
    BrokerRegistered,
    BrokersCleaned,
    BrokerSetImported,
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
from events.envelope import ImportedReplica, MemberPosition
from processors.fold.evolve import evolve
from processors.fold.state import BrokerSet, ControllerState, Replica

APPLIED = BrokerIdApplied("b", "c", 1, "h1:1", "h1:1;x", 2)
REGISTERED = BrokerRegistered("b", 1, "h1:2", "h1:3", "i1", True, 4, 5, False, 4)
ELECTED = MasterElected("b", 1, "h1:2", 5, (1,), 1, 5)
CLEARED = MasterCleared("b", 1, 6, "CLEANED", 6)
ALTERED = SyncStateSetAltered("b", (), 2, (), (1,), "UNCLEAN_START", (1,), 6)
CLEANED = BrokersCleaned("b", (1,), True)
AT_RISK = MasterAtRisk("b", 5)
OF_A_SET = (APPLIED, REGISTERED, ELECTED, AT_RISK, CLEARED, ALTERED, CLEANED)
IMPORTED = BrokerSetImported(
    "b",
    "c",
    4,
    (ImportedReplica(1, "h1:1"), ImportedReplica(3, "h3:1", "code")),
    3,
    5,
    (1, 3),
    7,
    6,
    "j",
)
SHOWN = (MemberPosition(1, 4, 5),)
OF_MEMORY = (MembersRemembered("b", (1,), (1,)), MinimumTold("b", 1, 2), PositionsShown("b", SHOWN))
DOUBTED = SetDoubted("b", (1,), 1_006, 1_002, 1_006)
OF_THE_CLUSTER = (
    ClusterStarted("c1", 1, {"a": "1"}, ("f",)),
    LeadershipClaimed(1, "n0", "h:1", "r"),
    SettingsChanged({"a": "2"}),
    RulesActivated(2, ("f", "g")),
)


def after(*changes) -> ControllerState:
    state = ControllerState()
    for change in changes:
        state = evolve(state, change)
    return state


def test_the_cluster_changes_one_after_the_other():
    state = after(*OF_THE_CLUSTER)
    assert state == ControllerState(
        "c1", 1, "n0", "h:1", 2, Map({"a": "2"}), ("f", "g"), leader_release="r"
    )


def test_a_set_changes_one_after_the_other():
    assert after(APPLIED).sets["b"] == BrokerSet("c", "b", 2, (Replica(1, "h1:1", "h1:1;x"),))
    registered = after(APPLIED, REGISTERED).sets["b"]
    assert registered.replica(1) == Replica(
        1, "h1:2", "h1:1;x", "h1:3", "i1", True, True, True, 4, 5
    )
    assert registered.highest_epoch_seen == 4
    elected = after(APPLIED, REGISTERED, ELECTED).sets["b"]
    assert (elected.master_broker_id, elected.master_epoch, elected.sync_state_set) == (1, 5, (1,))
    assert elected.has_had_master
    cleared = after(APPLIED, REGISTERED, ELECTED, CLEARED).sets["b"]
    assert (cleared.master_broker_id, cleared.master_epoch) == (None, 6)
    assert cleared.sync_state_set == (1,)
    altered = after(APPLIED, REGISTERED, ELECTED, CLEARED, ALTERED).sets["b"]
    assert (altered.sync_state_set, altered.unclean_members) == ((), (1,))
    assert not altered.replica(1).clean
    stone = after(*OF_A_SET).sets["b"]
    assert stone == BrokerSet("c", "b", 2, (), None, 6, (), 2, 6, tombstone=True)


def test_an_elected_replica_counts_clean():
    state = after(APPLIED, REGISTERED, ELECTED, CLEARED, ALTERED, ELECTED)
    assert state.sets["b"].replica(1).clean
    assert state.sets["b"].unclean_members == ()


@pytest.mark.parametrize("change", OF_A_SET[1:], ids=lambda change: type(change).__name__)
def test_a_change_to_an_unknown_set_is_no_change(change):
    assert after(change) == ControllerState()


def test_a_change_to_an_unknown_replica_leaves_the_replicas():
    registered = BrokerRegistered("b", 9, "h9:1", None, None, True, -1, -1, True, 0)
    assert after(APPLIED, registered).sets["b"].replicas == after(APPLIED).sets["b"].replicas


def test_the_state_before_stays_as_it_was():
    before = after(APPLIED, REGISTERED)
    copy = after(APPLIED, REGISTERED)
    evolve(before, ELECTED)
    assert before == copy


def test_a_mastership_is_at_risk_until_it_ends():
    assert after(APPLIED, REGISTERED, ELECTED, AT_RISK).sets["b"].at_risk
    assert not after(APPLIED, REGISTERED, ELECTED, AT_RISK, CLEARED).sets["b"].at_risk
    assert not after(APPLIED, REGISTERED, ELECTED, AT_RISK, ELECTED).sets["b"].at_risk


def test_an_imported_set_stands_as_it_was_told():
    replicas = (
        Replica(1, "h1:1", "", is_registered=True),
        Replica(3, "h3:1", "code", is_registered=True),
    )
    told = BrokerSet("c", "b", 4, replicas, 3, 5, (1, 3), 7, 6, has_had_master=True, imported=True)
    assert after(IMPORTED).sets["b"] == told
    assert after(APPLIED, REGISTERED, CLEANED, IMPORTED).sets["b"] == told


def test_every_kind_of_change_is_covered_here():
    told = (IMPORTED, *OF_A_SET, *OF_MEMORY, DOUBTED, *OF_THE_CLUSTER)
    assert {type(change) for change in told} == set(CHANGES)


def test_who_is_remembered_stays_so_until_something_else_is_told():
    changes = (APPLIED, REGISTERED, *OF_MEMORY)
    for more in ((), (REGISTERED,), (ELECTED,), (ELECTED, ALTERED)):
        broker_set = after(*changes, *more).sets["b"]
        assert (broker_set.remembered, broker_set.former, broker_set.minimums) == (
            (1,),
            (1,),
            ((1, 2),),
        )
        assert broker_set.positions == SHOWN
    assert after(*changes, CLEANED).sets["b"].positions == ()


def test_the_minimum_of_a_set_is_that_of_its_master():
    assert after(APPLIED, REGISTERED, *OF_MEMORY).sets["b"].min_in_sync() is None
    assert after(APPLIED, REGISTERED, ELECTED).sets["b"].min_in_sync() == 1
    assert after(APPLIED, REGISTERED, *OF_MEMORY, ELECTED).sets["b"].min_in_sync() == 2
    untold = MinimumTold("b", 1, 1)
    assert after(APPLIED, REGISTERED, *OF_MEMORY, untold, ELECTED).sets["b"].minimums == ()


def test_a_set_that_is_doubted_has_nobody_and_forgets_it_with_the_next_master():
    doubted = after(APPLIED, REGISTERED, ELECTED, *OF_MEMORY, DOUBTED).sets["b"]
    assert (doubted.master_broker_id, doubted.master_epoch, doubted.highest_epoch_seen) == (
        None,
        1_006,
        1_006,
    )
    assert (doubted.sync_state_set, doubted.sync_state_set_epoch) == ((), 1_002)
    assert (doubted.remembered, doubted.former, doubted.uncertain) == ((), (1,), (1,))
    assert doubted.replicas[0].clean and doubted.has_had_master and doubted.minimums == ((1, 2),)
    for change in (REGISTERED, ALTERED):
        assert evolve(after(APPLIED, REGISTERED, ELECTED, DOUBTED), change).sets["b"].uncertain == (
            1,
        )
    for change in (ELECTED, CLEANED):
        assert (
            evolve(after(APPLIED, REGISTERED, ELECTED, DOUBTED), change).sets["b"].uncertain == ()
        )


def test_a_set_of_which_nobody_registered_yet_begins_as_ever_above_all_epochs():
    doubted = after(APPLIED, DOUBTED).sets["b"]
    assert not doubted.has_had_master and doubted.highest_epoch_seen == 1_006
