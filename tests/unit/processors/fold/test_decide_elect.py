"""ElectMaster: RULES 5.5 row by row with its edge cases, and design S5 to S7."""

import pytest

from tests.support.control_history import History, seen, verdicts, with_master, with_replicas

DEAD_1 = seen(1, alive=False, reason="connection_closed")


# --- the rows ------------------------------------------------------------------------------


def test_row_1_a_set_that_does_not_exist():
    outcome = History().elect(1, seen(1))
    assert (outcome.code, outcome.refusal) == (2010, "NEED_TO_BE_REGISTERED")
    assert outcome.candidates == ()


def test_row_2_the_first_election_takes_who_asks():
    history = with_replicas(1, 2)
    outcome = history.elect(2)
    change = outcome.changes[0]
    assert (change.master_broker_id, change.master_address) == (2, "h2:10911")
    assert (change.master_epoch, change.sync_state_set, change.sync_state_set_epoch) == (1, (2,), 1)
    assert verdicts(outcome) == {1: "NOT_ALIVE", 2: "CHOSEN"}


def test_row_2_others_that_are_there_are_not_asking():
    outcome = with_replicas(1, 2).elect(2, seen(1, epoch=-1, offset=0))
    assert verdicts(outcome) == {1: "NOT_ASKING", 2: "CHOSEN"}


@pytest.mark.parametrize(("rules", "winner"), [(2, 2), (3, 1)])
def test_row_2_the_first_election_takes_the_longest_log_of_those_that_report(rules, winner):
    """A set that is new here may be an old one: an empty replica that asks first must not lead
    (C7).
    """
    history = with_replicas(1, 2, rules=rules)
    history.elect(2, seen(1, epoch=5, offset=10**9), seen(2, epoch=-1, offset=0))
    assert (history.set.master_broker_id, history.set.sync_state_set) == (winner, (winner,))


def test_row_4_a_live_master_stays():
    outcome = with_master(1, 2, 3).elect(-1, seen(1), seen(2), seen(3))
    assert (outcome.code, outcome.refusal) == (2011, "MASTER_STILL_EXIST")
    assert verdicts(outcome) == {1: "MASTER_KEPT", 2: "NOT_NEEDED", 3: "NOT_NEEDED"}


def test_row_5_the_best_live_member_is_elected():
    history = with_master(1, 2, 3)
    outcome = history.elect(-1, DEAD_1, seen(2, offset=100), seen(3, offset=101))
    assert outcome.code == 0
    assert verdicts(outcome) == {1: "NOT_ALIVE", 2: "LOWER_OFFSET", 3: "CHOSEN"}
    assert (history.set.master_broker_id, history.set.master_epoch) == (3, 2)
    assert history.set.sync_state_set_epoch == 3


def test_row_6_nobody_electable_clears_a_dead_master_once():
    """Defect 5: shipped code moves the epoch at each repeat."""
    history = with_master(1, replicas=(1, 2))
    first = history.elect(-1, DEAD_1, seen(2))
    assert (first.code, first.refusal) == (2004, "MASTER_NOT_AVAILABLE")
    assert type(first.changes[0]).__name__ == "MasterCleared"
    assert (history.set.master_broker_id, history.set.master_epoch) == (None, 2)
    for _ in range(3):
        again = history.elect(-1, DEAD_1, seen(2))
        assert (again.code, again.changes) == (2004, ())
    assert history.set.master_epoch == 2
    assert history.set.sync_state_set == (1,)
    assert history.set.sync_state_set_epoch == 1


def test_row_7_nobody_electable_for_a_broker_that_asks_changes_nothing():
    history = with_master(1, replicas=(1, 2))
    outcome = history.elect(2, DEAD_1)
    assert (outcome.code, outcome.refusal, outcome.changes) == (2012, "ELECT_MASTER_FAILED", ())
    assert verdicts(outcome) == {1: "NOT_ALIVE", 2: "NOT_IN_SET"}
    assert history.set.master_broker_id == 1


# --- the edge cases ------------------------------------------------------------------------


@pytest.mark.parametrize("designate", [False, True])
def test_a_first_election_of_an_unclean_start_says_that_it_is_at_risk(designate):
    """Else the replica vetoes its promotion, lives, and so stays the master who does not lead for
    ever.
    """
    history = with_replicas(1, 2)
    history.register(1, "u1", clean=False)
    outcome = history.elect(1, seen(1, incarnation="u1"), designate=designate)
    assert outcome.accepted and "AT_RISK" in outcome.labels
    assert history.set.master_broker_id == 1 and history.set.at_risk


def test_a_first_election_of_an_unclean_start_is_no_other_than_before_under_rules_2():
    history = with_replicas(1, rules=2)
    history.register(1, "u1", clean=False)
    assert history.elect(1, seen(1, incarnation="u1")).labels == ()


def test_defect_6_a_first_election_by_an_id_that_is_not_registered_is_refused():
    history = with_replicas(1)
    assert history.elect(9).code == 2010
    history.apply_id(2)
    outcome = history.elect(2)
    assert outcome.code == 2010
    assert verdicts(outcome) == {1: "NOT_CONSIDERED", 2: "NOT_CONSIDERED"}


def test_defect_6_a_first_election_designated_on_a_dead_broker_is_refused():
    outcome = with_replicas(1, 2).elect(2, seen(1), seen(2, alive=False), designate=True)
    assert outcome.code == 2012
    assert verdicts(outcome) == {1: "NOT_DESIGNATED", 2: "NOT_ALIVE"}


def test_a_first_election_designated_on_a_live_broker_succeeds():
    outcome = with_replicas(1, 2).elect(2, seen(1), seen(2), designate=True)
    assert outcome.labels == ("DESIGNATED",)
    assert verdicts(outcome) == {1: "NOT_DESIGNATED", 2: "CHOSEN"}


def test_defect_7_id_minus_1_before_the_first_election_changes_nothing():
    history = with_replicas(1, 2)
    outcome = history.elect(-1, seen(1), seen(2))
    assert (outcome.code, outcome.changes) == (2004, ())
    assert history.set.master_epoch == 0
    assert history.elect(1).accepted


def test_id_minus_1_before_the_first_election_with_unclean_on_elects_the_live():
    history = with_replicas(1, 2)
    history.setting("enableElectUncleanMaster", "true")
    outcome = history.elect(-1, seen(2))
    assert history.set.master_broker_id == 2
    assert outcome.labels == ("UNCLEAN",)


def test_a_slave_that_asks_while_the_master_is_alive_is_told_so():
    assert with_master(1, 2).elect(2, seen(1)).code == 2011


def test_a_slave_that_asks_gets_the_choice_of_the_policy():
    history = with_master(1, 2, 3)
    history.elect(2, DEAD_1, seen(2, offset=5), seen(3, offset=9))
    assert history.set.master_broker_id == 3


def test_a_slave_that_asks_may_get_another_one_elected():
    history = with_master(1, replicas=(1, 2))
    history.elect(-1, DEAD_1)
    history.register(1, "i1-again")
    outcome = history.elect(2, seen(1, incarnation="i1-again"))
    assert outcome.accepted
    assert history.set.master_broker_id == 1


def test_a_live_replica_outside_the_set_is_not_designated_with_unclean_off():
    history = with_master(1, 2)
    outcome = history.elect(3, seen(1), seen(2), seen(3), designate=True)
    assert (outcome.code, outcome.changes) == (2012, ())
    assert verdicts(outcome)[3] == "NOT_IN_SET"
    assert history.set.master_broker_id == 1


def test_a_live_replica_outside_the_set_is_designated_with_unclean_on():
    history = with_master(1, 2)
    history.setting("enableElectUncleanMaster", "true")
    outcome = history.elect(3, seen(1), seen(2), seen(3), designate=True)
    assert outcome.labels == ("AT_RISK", "DESIGNATED", "UNCLEAN")
    assert (history.set.master_broker_id, history.set.sync_state_set) == (3, (3,))


def test_designating_the_live_master_keeps_it():
    assert with_master(1, 2).elect(1, seen(1), seen(2), designate=True).code == 2011


def test_designating_minus_1_never_removes_a_live_master():
    """Stricter: shipped code removes it."""
    history = with_master(1, 2)
    outcome = history.elect(-1, seen(1), seen(2), designate=True)
    assert (outcome.code, outcome.changes) == (2004, ())
    assert history.set.master_broker_id == 1


def test_designating_nobodys_id_fails():
    assert with_master(1, 2).elect(9, seen(1), seen(2), designate=True).code == 2012


def test_designating_a_live_member_deposes_the_live_master():
    history = with_master(1, 2, 3)
    outcome = history.elect(2, seen(1), seen(2), seen(3), designate=True)
    assert outcome.labels == ("DESIGNATED",)
    assert history.set.master_broker_id == 2
    assert history.set.sync_state_set == (1, 2, 3)
    assert verdicts(outcome) == {1: "NOT_DESIGNATED", 2: "CHOSEN", 3: "NOT_DESIGNATED"}


def test_the_first_member_that_returns_and_asks_is_elected():
    history = with_master(1, 2, replicas=(1, 2, 3))
    assert history.elect(-1, seen(3)).code == 2004
    assert history.elect(3).code == 2012
    history.register(2, "i2-again")
    assert history.elect(2).accepted
    assert history.set.master_broker_id == 2


# --- compare and set -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected",
    [{"master_epoch": 0}, {"master_epoch": 2}, {"set_epoch": 1}, {"set_epoch": 3}],
    ids=str,
)
def test_an_election_on_a_state_that_has_moved_is_refused(expected):
    outcome = with_master(1, 2, 3).elect(-1, DEAD_1, seen(2), seen(3), **expected)
    assert (outcome.code, outcome.refusal) == (2000, "STATE_MOVED")
    assert set(verdicts(outcome).values()) == {"NOT_CONSIDERED"}


def test_of_two_elections_on_one_state_the_second_is_refused():
    history = with_master(1, 2, 3)
    evidence = (DEAD_1, seen(2), seen(3))
    assert history.elect(-1, *evidence, master_epoch=1, set_epoch=2).accepted
    assert history.elect(-1, *evidence, master_epoch=1, set_epoch=2).refusal == "STATE_MOVED"
    assert history.set.master_epoch == 2


def test_s7_the_set_counts_as_it_is_when_the_command_is_applied():
    """The issuer saw 3 in the set; it left before the election was applied."""
    history = with_master(1, 2, 3)
    history.alter((1, 2), seen(1), seen(2))
    history.elect(-1, DEAD_1, seen(2, offset=1), seen(3, offset=9))
    assert history.set.master_broker_id == 2


# --- S5: unclean starts --------------------------------------------------------------------


def all_unclean(*members: int) -> History:
    history = with_master(*members)
    for broker_id in members:
        length = {"last_epoch": 1, "end_offset": broker_id}
        history.register(broker_id, f"u{broker_id}", clean=False, **length)
    assert history.set.sync_state_set == ()
    return history


def up(broker_id: int, **other: object):
    """Return evidence of the start that was unclean."""
    return seen(broker_id, incarnation=f"u{broker_id}", **other)


def test_s5_an_unclean_replica_vetoes_its_own_promotion():
    history = with_master(1, 2, 3)
    history.register(2, "u2", clean=False)
    outcome = history.elect(2, DEAD_1)
    assert outcome.code == 2012
    assert verdicts(outcome) == {1: "NOT_ALIVE", 2: "UNCLEAN", 3: "NOT_ALIVE"}


def test_s5_all_members_unclean_waits_for_all():
    history = all_unclean(1, 2, 3)
    outcome = history.elect(3, up(1), up(3))
    assert outcome.code == 2012
    assert verdicts(outcome) == {1: "WAITING", 2: "AWAITED", 3: "WAITING"}
    assert history.elect(-1, up(1), up(3)).code == 2004


def test_s5_all_members_unclean_and_there_the_longest_wins_at_risk():
    history = all_unclean(1, 2, 3)
    lengths = (up(1, epoch=2, offset=5), up(2, epoch=1, offset=99), up(3, epoch=2, offset=4))
    outcome = history.elect(-1, *lengths)
    assert outcome.labels == ("AT_RISK",)
    assert verdicts(outcome) == {1: "CHOSEN", 2: "LOWER_EPOCH", 3: "LOWER_OFFSET"}
    assert history.set.sync_state_set == (1,)
    assert [r.clean for r in history.set.replicas] == [True, False, False]


def test_s5_length_comes_before_priority_where_bytes_may_be_missing():
    history = all_unclean(1, 2)
    history.elect(-1, up(1, offset=10, priority=9), up(2, offset=9, priority=1))
    assert history.set.master_broker_id == 1


def test_s5_without_a_heartbeat_the_registered_length_counts():
    history = all_unclean(1, 2)
    history.elect(2, up(1, epoch=-1, offset=-1, reason="asked"))
    assert history.set.master_broker_id == 2


def test_s5_the_operator_may_end_the_waiting():
    history = all_unclean(1, 2, 3)
    outcome = history.elect(2, up(2), designate=True)
    assert outcome.labels == ("AT_RISK", "DESIGNATED")
    assert history.set.master_broker_id == 2


def test_s5_the_operator_may_not_end_it_with_a_stranger():
    history = all_unclean(1, 2)
    assert history.elect(3, seen(3), designate=True).code == 2012


def test_s5_one_clean_member_is_enough():
    history = with_master(1, 2)
    history.register(1, "u1", clean=False)
    assert history.elect(1).code == 2012
    history.register(2, "i2-again")
    outcome = history.elect(2, up(1))
    assert outcome.labels == ()
    assert verdicts(outcome) == {1: "UNCLEAN", 2: "CHOSEN", 3: "NOT_ALIVE"}
    assert history.set.sync_state_set == (2,)


# --- S6: a restarted master ----------------------------------------------------------------


def test_s6_a_restarted_master_gets_a_new_epoch():
    history = with_master(1, 2, 3)
    history.register(1, "i1-again")
    evidence = (seen(1, incarnation="i1-again", offset=9), seen(2, offset=9), seen(3, offset=8))
    outcome = history.elect(1, *evidence)
    assert outcome.accepted
    assert (history.set.master_broker_id, history.set.master_epoch) == (1, 2)
    assert history.set.sync_state_set == (1, 2, 3)
    assert not history.set.master_restarted


def test_s6_another_member_may_win_against_the_restarted_master():
    history = with_master(1, 2)
    history.register(1, "i1-again")
    history.elect(1, seen(1, incarnation="i1-again", offset=5), seen(2, offset=6))
    assert (history.set.master_broker_id, history.set.master_epoch) == (2, 2)


def test_s6_a_restarted_java_master_gets_a_new_epoch():
    history = History()
    history.apply_id(1)
    history.register_java(1)
    history.elect(1)
    history.register_java(1)
    assert history.elect(1).accepted
    assert history.set.master_epoch == 2
    assert history.elect(1).code == 2011


# --- S7: epochs and the new set ------------------------------------------------------------


def test_s7_the_new_epoch_is_above_what_evidence_reports():
    history = with_master(1, 2)
    history.elect(-1, DEAD_1, seen(2, epoch=50))
    assert history.set.master_epoch == 51
    assert history.set.highest_epoch_seen == 51


def test_s7_the_dead_report_too():
    history = with_master(1, 2)
    history.elect(-1, seen(1, alive=False, epoch=8), seen(2))
    assert history.set.master_epoch == 9


def test_s7_an_epoch_that_does_not_fit_is_not_given():
    outcome = with_master(1, 2, rules=2).elect(-1, DEAD_1, seen(2, epoch=2**31 - 1))
    assert outcome.refusal == "EPOCH_EXHAUSTED"


@pytest.mark.parametrize(("reported", "epoch"), [(1_001, 1_002), (1_002, 2), (2**31 - 1, 2)])
def test_s18_one_report_out_of_reach_uses_no_epochs_up(reported, epoch):
    history = with_master(1, 2)
    history.elect(-1, DEAD_1, seen(2, epoch=reported))
    assert (history.set.master_broker_id, history.set.master_epoch) == (2, epoch)


def test_an_id_that_nobody_registered_with_is_told_as_such():
    history = with_master(1, 2)
    history.apply_id(4)
    assert verdicts(history.elect(-1, DEAD_1, seen(2), seen(4)))[4] == "NOT_REGISTERED"
    refused = history.elect(4, seen(2), seen(4), designate=True)
    assert (refused.code, verdicts(refused)[4]) == (2012, "NOT_REGISTERED")


def test_s7_the_last_epoch_is_given_and_is_the_last():
    history = with_master(1, 2, rules=2)
    history.elect(-1, DEAD_1, seen(2, epoch=2**31 - 2))
    assert history.set.master_epoch == 2**31 - 1
    lost = history.elect(-1, seen(1, alive=False), seen(2, alive=False))
    assert (lost.refusal, lost.changes, history.set.master_broker_id) == (
        "MASTER_NOT_AVAILABLE",
        (),
        2,
    )


def test_s7_a_reported_epoch_that_leaves_none_raises_no_floor_when_nobody_is_elected():
    history = with_master(1, 2)
    history.elect(-1, DEAD_1, seen(3, epoch=2**31 - 1))
    assert (history.set.master_broker_id, history.set.highest_epoch_seen) == (None, 2)


def test_the_new_set_keeps_live_members_of_ours():
    """Design section 5: each holds all that was acknowledged."""
    history = with_master(1, 2, 3)
    history.elect(-1, DEAD_1, seen(2), seen(3))
    assert history.set.sync_state_set == (2, 3)


def test_the_new_set_is_the_master_alone_when_a_java_replica_survives():
    history = with_master(1, 2, 3)
    history.register_java(3)
    history.elect(-1, DEAD_1, seen(2, offset=9), seen(3, offset=8, incarnation=None))
    assert history.set.sync_state_set == (2,)


def java_among(java: int, rules: int) -> History:
    """A set of three in which that replica has been Java's from the beginning; 1 is the master."""
    history = History(rules=rules)
    for broker_id in (1, 2, 3):
        history.apply_id(broker_id)
        history.register_java(java) if broker_id == java else history.register(broker_id)
    history.elect(1)
    history.alter((1, 2, 3), *(seen(i, incarnation=None if i == java else "") for i in (1, 2, 3)))
    assert history.set.sync_state_set == (1, 2, 3)
    return history


@pytest.mark.parametrize("rules", [1, 2])
def test_a_dead_java_slave_does_not_matter(rules):
    history = java_among(2, rules)
    history.elect(-1, DEAD_1, seen(3))
    assert history.set.sync_state_set == (3,)
    history = java_among(3, rules)
    history.register(2, "again")
    history.elect(-1, DEAD_1, seen(2, incarnation="again"))
    assert history.set.sync_state_set == (2,)


@pytest.mark.parametrize(("rules", "members"), [(1, (2, 3)), (2, (2,))])
def test_after_a_java_master_the_set_is_the_new_one(rules, members):
    """It acknowledged by its own rules, so what 2 has, 3 may lack (S1)."""
    history = java_among(1, rules)
    history.elect(-1, DEAD_1, seen(2, offset=2000), seen(3, offset=1000))
    assert history.set.sync_state_set == members


@pytest.mark.parametrize(("rules", "members"), [(1, (2, 3)), (2, (2,))])
def test_after_a_java_master_that_was_cleared_too(rules, members):
    history = java_among(1, rules)
    history.elect(-1, DEAD_1)
    history.elect(2, seen(2, offset=2000), seen(3, offset=1000))
    assert history.set.sync_state_set == members


def test_a_mastership_at_risk_is_remembered_until_the_next():
    history = with_master(1, 2)
    history.setting("enableElectUncleanMaster", "true")
    outcome = history.elect(-1, seen(3))
    assert outcome.labels == ("AT_RISK", "UNCLEAN")
    assert history.set.at_risk
    assert history.alter((1, 3), seen(1), seen(3)).accepted
    assert history.set.at_risk
    history.elect(-1, seen(1), master_epoch=history.set.master_epoch)
    assert not history.set.at_risk


def test_a_mastership_at_risk_ends_when_the_master_is_cleared():
    history = with_master(1, 2)
    history.setting("enableElectUncleanMaster", "true")
    history.elect(-1, seen(3))
    history.elect(-1)
    assert (history.set.master_broker_id, history.set.at_risk) == (None, False)


def test_rules_1_do_not_know_a_mastership_at_risk():
    history = with_master(1, 2, rules=1)
    history.setting("enableElectUncleanMaster", "true")
    assert history.elect(-1, seen(3)).labels == ("AT_RISK", "UNCLEAN")
    assert not history.set.at_risk


@pytest.mark.parametrize(("rules", "epoch"), [(1, 2), (2, 10)])
def test_s7_what_an_earlier_start_reported_counts_too(rules, epoch):
    history = with_master(1, 2, rules=rules)
    history.elect(-1, DEAD_1, seen(2), seen(3, epoch=9, incarnation="before"))
    assert history.set.master_epoch == epoch


def test_s7_a_failed_election_keeps_what_was_reported():
    history = with_master(1, 2)
    history.elect(-1, seen(3, epoch=9))
    assert (history.set.master_epoch, history.set.highest_epoch_seen) == (2, 9)
