"""Ids, registration and cleaning: RULES 5.1 to 5.3, 5.7, 6 and design S5, S6, S9."""

import pytest

from events.changes import BrokersCleaned
from events.commands import ApplyBrokerId, ImportBrokerSet
from events.envelope import ImportedReplica
from processors.fold.state import REPLICAS_MAX, TEXT_CHARS_MAX
from tests.support.control_history import NAME, History, seen, with_master, with_replicas

# --- 5.2 ApplyBrokerId ---------------------------------------------------------------------


def test_5_2_row_1_the_first_id_of_a_new_set_is_1():
    history = History()
    change = history.apply_id(1, "h1:10911;code").changes[0]
    assert (change.broker_id, change.next_broker_id) == (1, 2)
    assert change.broker_address == "h1:10911"
    assert history.set.next_broker_id == 2
    assert (history.set.master_epoch, history.set.sync_state_set_epoch) == (0, 0)


@pytest.mark.parametrize("wanted", [0, 2, 100, -1])
def test_5_2_row_2_any_other_first_id_is_refused(wanted):
    outcome = History().apply_id(wanted)
    assert (outcome.code, outcome.refusal) == (2014, "BROKER_ID_INVALID")


def test_5_2_row_3_the_next_id_is_given():
    history = with_replicas(1, 2)
    assert history.apply_id(3).accepted
    assert history.set.next_broker_id == 4


@pytest.mark.parametrize("wanted", [4, 100, 0, -1])
def test_s9_an_unassigned_id_that_is_not_the_next_is_refused(wanted):
    """Stricter than row 3: shipped code takes any unassigned id."""
    history = with_replicas(1, 2)
    assert history.apply_id(wanted).code == 2014
    assert history.set.next_broker_id == 3


def test_an_id_that_has_none_after_it_is_not_given():
    """Its outcome would have no bytes."""
    history = with_replicas()
    last = ImportBrokerSet(
        history.envelope(),
        "DefaultCluster",
        "other",
        2**63 - 2,
        None,
        0,
        (),
        0,
        (ImportedReplica(1, "h:1", ""),),
        "java",
        -1,
    )
    assert history.do(last).accepted
    codes = [
        history.do(
            ApplyBrokerId(history.envelope(), "DefaultCluster", "other", 2**63 - one, "h:2;x")
        ).code
        for one in (2, 1)
    ]
    assert codes == [0, 2014]


def test_5_2_row_4_the_same_code_again_is_the_same_id_again():
    history = with_replicas(1)
    outcome = history.apply_id(1)
    assert outcome.accepted
    assert outcome.changes == ()


def test_5_2_row_5_an_assigned_id_with_another_code_is_refused():
    assert with_replicas(1).apply_id(1, "h9:1;other").code == 2014


def test_5_2_a_set_keeps_the_cluster_name_it_began_with():
    history = with_replicas(1)
    assert history.set.cluster_name == "DefaultCluster"


def test_s9_a_cleaned_id_is_never_given_again():
    history = with_replicas(1, 2, 3)
    assert history.clean((2,)).accepted
    assert history.apply_id(2).code == 2014
    assert history.apply_id(4).accepted


def test_a_code_without_an_address_gives_none():
    history = History()
    assert history.apply_id(1, "").changes[0].broker_address == ""


def test_an_outcome_always_has_bytes_however_many_and_long_the_replicas_are():
    """The builder encodes each outcome: a full set of the longest texts must still fit."""
    history = History()
    for broker_id in range(1, REPLICAS_MAX + 1):
        assert history.apply_id(broker_id, "x" * TEXT_CHARS_MAX).accepted
        where = {"broker_address": "ä" * TEXT_CHARS_MAX, "ha_address": "h" * TEXT_CHARS_MAX}
        assert history.register(broker_id, **where).accepted
    assert history.apply_id(REPLICAS_MAX + 1).code == 2014
    assert len(history.elect(1).candidates) == REPLICAS_MAX


def test_texts_beyond_the_limit_are_refused():
    long = "x" * (TEXT_CHARS_MAX + 1)
    assert History().apply_id(1, long).code == 2014
    for name in ("broker_address", "ha_address", "incarnation"):
        assert with_replicas(1).register(1, **{name: long}).refusal == "INVALID_REGISTRATION"


# --- 5.3 RegisterBroker --------------------------------------------------------------------


def test_5_3_row_1_a_set_that_does_not_exist():
    assert History().register(1).code == 2010


def test_5_3_row_2_an_id_that_is_not_assigned():
    assert with_replicas(1).register(2).code == 2010


def test_5_3_row_3_registration_neither_elects_nor_touches_set_and_epochs():
    history = with_master(1, 2)
    before = history.set
    assert history.register(3, "i3-again").accepted
    after = history.set
    assert (after.master_broker_id, after.master_epoch) == (1, before.master_epoch)
    assert after.sync_state_set_epoch == before.sync_state_set_epoch
    assert after.sync_state_set == before.sync_state_set


def test_5_3_a_changed_address_is_recorded_and_the_code_kept():
    history = with_replicas(1)
    change = history.register(1, broker_address="new:1").changes[0]
    assert change.broker_address == "new:1"
    assert history.set.replica(1).address == "new:1"
    assert history.set.replica(1).register_check_code == "h1:10911;secret"


def test_5_3_the_same_registration_again_changes_nothing():
    history = with_replicas(1)
    outcome = history.register(1)
    assert outcome.accepted
    assert outcome.changes == ()


def test_a_registration_without_an_address_is_refused():
    """A master without an address would leave every broker fenced (RULES 16 row 4)."""
    assert with_replicas(1).register(1, broker_address="").refusal == "INVALID_REGISTRATION"


def test_s7_an_epoch_above_which_there_is_none_is_refused():
    assert with_replicas(1).register(1, "i", last_epoch=2**31 - 1).code == 2005


def test_s7_a_registered_epoch_raises_the_floor_of_the_next_one():
    history = with_replicas(1, 2)
    history.register(2, "i2-again", last_epoch=41)
    assert history.elect(1).accepted
    assert history.set.master_epoch == 42


def test_a_java_broker_is_not_one_of_ours():
    history = with_replicas(1)
    assert history.set.replica(1).is_regent
    history.register_java(1)
    replica = history.set.replica(1)
    assert (replica.is_regent, replica.incarnation, replica.ha_address) == (False, None, None)
    assert replica.clean


def test_s6_a_recorded_master_that_registers_a_new_start_has_restarted():
    history = with_master(1, 2)
    change = history.register(1, "i1-again").changes[0]
    assert change.restarted_master
    assert history.set.master_restarted
    assert history.set.master_broker_id == 1


def test_s6_the_same_start_registering_again_has_not_restarted():
    history = with_master(1, 2)
    history.register(1, broker_address="moved:1")
    assert not history.set.master_restarted


def test_s6_a_java_master_that_registers_has_restarted():
    """It names no incarnation, and registers only when it starts."""
    history = History()
    history.apply_id(1)
    history.register_java(1)
    history.elect(1)
    assert history.register_java(1).changes[0].restarted_master
    assert history.set.master_restarted
    assert history.register_java(1).changes == ()


def test_s6_a_slave_that_restarts_leaves_the_master_alone():
    history = with_master(1, 2)
    history.register(2, "i2-again")
    assert not history.set.master_restarted
    assert history.set.sync_state_set == (1, 2)


def test_s5_an_unclean_member_leaves_the_set_at_once():
    history = with_master(1, 2, 3)
    outcome = history.register(3, "i3-again", clean=False)
    kinds = [type(change).__name__ for change in outcome.changes]
    assert kinds == ["SyncStateSetAltered", "BrokerRegistered"]
    assert history.set.sync_state_set == (1, 2)
    assert history.set.sync_state_set_epoch == 3
    assert history.set.unclean_members == (3,)
    assert not history.set.replica(3).clean
    assert (history.set.master_broker_id, history.set.master_epoch) == (1, 1)


def test_s5_an_unclean_master_leaves_set_and_mastership():
    history = with_master(1, 2, 3)
    outcome = history.register(1, "i1-again", clean=False)
    kinds = [type(change).__name__ for change in outcome.changes]
    assert kinds == ["MasterCleared", "SyncStateSetAltered", "BrokerRegistered"]
    assert history.set.master_broker_id is None
    assert history.set.master_epoch == 2
    assert history.set.sync_state_set == (2, 3)


def test_s5_an_unclean_start_outside_the_set_moves_the_set_epoch_only():
    """A proposal to take it in that rests on what it acknowledged before is then refused."""
    history = with_master(1, 2)
    history.register(3, "i3-again", clean=False)
    assert history.set.sync_state_set == (1, 2)
    assert history.set.sync_state_set_epoch == 3
    assert history.set.unclean_members == ()
    assert not history.set.replica(3).clean


def test_s5_a_clean_start_after_an_unclean_one_is_still_unclean():
    """What was lost is still missing, until it has caught up."""
    history = with_master(1, 2, 3)
    history.register(3, "i3-again", clean=False)
    history.register(3, "i3-third", clean=True)
    assert not history.set.replica(3).clean
    assert history.set.sync_state_set == (1, 2)


def test_s5_the_same_unclean_start_registering_again_does_not_leave_again():
    history = with_master(1, 2, 3)
    history.register(3, "i3-again", clean=False)
    history.alter((1, 2, 3), seen(1), seen(2), seen(3, incarnation="i3-again"))
    history.register(3, "i3-again", clean=False)
    assert history.set.sync_state_set == (1, 2, 3)
    assert history.set.replica(3).clean


def test_s5_who_was_chosen_at_risk_without_hearing_it_and_is_chosen_again_can_refuse():
    """The second election rests on the first one, so it has no risk of its own; the replica knows
    better.
    """
    history = with_master(1, 2)
    for broker_id in (1, 2):
        history.register(broker_id, f"i{broker_id}-again", clean=False)
    everyone = tuple(
        seen(i, incarnation=f"i{i}-again" if i < 3 else "", offset=5000 - i) for i in (1, 2, 3)
    )
    assert "AT_RISK" in history.elect(-1, *everyone).labels
    unheard = tuple(
        seen(i, alive=i > 1, incarnation=f"i{i}-again" if i < 3 else "") for i in (1, 2, 3)
    )
    history.elect(-1, *unheard)
    assert (history.set.master_broker_id, history.set.sync_state_set) == (None, (1,))
    assert history.elect(1, *everyone).labels == ()

    outcome = history.register(1, "i1-again", clean=False)

    assert [type(change).__name__ for change in outcome.changes][:2] == [
        "MasterCleared",
        "SyncStateSetAltered",
    ]
    assert (history.set.sync_state_set, history.set.replica(1).clean) == ((), False)
    outcome = history.elect(-1, *everyone)
    assert (history.set.master_broker_id, "AT_RISK" in outcome.labels) == (1, True)


# --- 5.7 CleanBrokerData -------------------------------------------------------------------


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "dead"])
def test_5_7_row_1_a_recorded_master_blocks_cleaning_the_whole_set(alive):
    outcome = with_master(1, 2).clean(None, seen(1, alive=alive))
    assert (outcome.code, outcome.refusal) == (2009, "CLEAN_HAS_MASTER")


def test_5_7_row_2_no_id_at_all_is_not_the_whole_set():
    """Texts that are no numbers are refused before there is a command."""
    assert with_master(1, 2).clean(()).refusal == "CLEAN_NAMES_NOBODY"
    assert with_master(1, 2).clean((), living=True).refusal == "CLEAN_NAMES_NOBODY"


def test_5_7_row_3_a_live_replica_is_not_forgotten():
    outcome = with_master(1, 2).clean((2, 3), seen(3))
    assert (outcome.code, outcome.refusal) == (2009, "CLEAN_IS_ALIVE")


def test_5_7_row_3_any_start_of_it_counts_as_life():
    assert with_master(1, 2).clean((3,), seen(3, incarnation="x")).refusal == "CLEAN_IS_ALIVE"


def test_5_7_row_3_before_row_4():
    assert History().clean((3,), seen(3)).refusal == "CLEAN_IS_ALIVE"


def test_5_7_row_4_a_set_that_does_not_exist():
    outcome = History().clean(None)
    assert (outcome.code, outcome.refusal) == (2009, "CLEAN_NO_SUCH_SET")
    assert History().clean((1,), living=True).refusal == "CLEAN_NO_SUCH_SET"


def test_5_7_row_5_a_replica_outside_the_set_goes_alone():
    history = with_master(1, 2)
    outcome = history.clean((3,))
    assert [type(change).__name__ for change in outcome.changes] == ["BrokersCleaned"]
    assert history.set.sync_state_set_epoch == 2
    assert history.set.next_broker_id == 4


def test_5_7_row_5_no_master_and_live_slaves_is_no_reason_to_refuse():
    history = with_replicas(1, 2, rules=2)
    assert history.clean(None, seen(1), seen(2)).accepted


def test_rules_3_clean_no_whole_set_in_which_somebody_lives():
    """Its brokers could never register again (C8)."""
    history = with_replicas(1, 2)
    assert history.clean(None, seen(2)).refusal == "CLEAN_IS_ALIVE"
    assert history.clean(None, seen(2), living=True).accepted


def test_an_id_that_nobody_has_changes_nothing():
    outcome = with_master(1, 2).clean((9,))
    assert outcome.accepted
    assert outcome.changes == ()


def test_defect_8_clean_of_the_living_takes_only_the_listed():
    history = with_master(1, 2, 3)
    assert history.clean((3,), seen(1), seen(2), seen(3), living=True).accepted
    assert [replica.broker_id for replica in history.set.replicas] == [1, 2]
    assert history.set.master_broker_id == 1


def test_defect_10_cleaning_a_member_moves_the_set_epoch():
    history = with_master(1, 2, 3)
    history.clean((3,))
    assert (history.set.sync_state_set, history.set.sync_state_set_epoch) == ((1, 2), 3)


def test_cleaning_the_master_elects_nobody_and_clears_it():
    history = with_master(1, 2, 3)
    outcome = history.clean((1,))
    kinds = [type(change).__name__ for change in outcome.changes]
    assert kinds == ["MasterCleared", "SyncStateSetAltered", "BrokersCleaned", "MembersRemembered"]
    assert history.set.master_broker_id is None
    assert (history.set.master_epoch, history.set.sync_state_set_epoch) == (2, 3)
    assert history.set.sync_state_set == (2, 3)


def test_defect_9_cleaning_every_member_leaves_the_other_replicas_and_no_master():
    """Shipped code loses the set here, and later gives ids of others away."""
    history = with_master(1, 2)
    history.clean((1, 2))
    assert [replica.broker_id for replica in history.set.replicas] == [3]
    assert history.set.sync_state_set == ()
    assert history.register(3, "i3-again").accepted
    assert history.apply_id(4).accepted


def test_defect_9_who_was_no_member_does_not_become_master_by_asking():
    history = with_master(1, 2)
    history.clean((1, 2))
    assert history.elect(3, seen(3)).code == 2012


def test_s9_cleaning_everything_leaves_a_tombstone_with_ids_and_epochs():
    history = with_master(1, 2, 3)
    history.register(2, "i2-again", last_epoch=6)
    cleaned = history.clean(None, living=True).changes
    assert [one.whole_set for one in cleaned if isinstance(one, BrokersCleaned)] == [True]
    stone = history.set
    assert stone.tombstone
    assert stone.replicas == ()
    assert (stone.next_broker_id, stone.master_epoch, stone.sync_state_set_epoch) == (4, 2, 3)
    assert stone.highest_epoch_seen == 6
    assert history.folder.state.live_set(NAME) is None
    assert history.register(1).code == 2010


def test_s9_cleaning_each_id_leaves_the_same_tombstone():
    history = with_replicas(1, 2)
    assert history.clean((1, 2)).changes[-1].whole_set
    assert history.set.tombstone


def test_s9_a_set_that_begins_again_goes_on_with_ids_and_epochs():
    history = with_master(1, 2, 3)
    history.clean(None, living=True)
    assert history.apply_id(1).code == 2014
    assert history.apply_id(4).accepted
    assert not history.set.tombstone
    history.register(4)
    assert history.elect(4).accepted
    assert (history.set.master_epoch, history.set.sync_state_set_epoch) == (3, 4)


def test_s5_giving_up_a_dead_member_ends_the_waiting_for_it():
    history = with_master(1, 2)
    history.register(1, "i1-again", clean=False)
    assert history.elect(1, seen(1, incarnation="i1-again")).code == 2012
    history.clean((2,))
    outcome = history.elect(1, seen(1, incarnation="i1-again"))
    assert outcome.labels == ("AT_RISK",)
    assert history.set.master_broker_id == 1
