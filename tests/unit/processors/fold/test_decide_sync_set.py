"""AlterSyncStateSet: RULES 5.6 row by row, and design S3 to S6."""

import pytest

from processors.fold.rules import RULES_VERSION
from tests.support.control_history import History, seen, verdicts, with_master, with_replicas


def master_of_all(rules: int = RULES_VERSION) -> History:
    return with_master(1, 2, 3, rules=rules)


ROWS = [
    # id, members, evidence, other arguments, code, refusal
    ("2 equal set", (1, 2, 3), (1, 2, 3), {}, 2013, "SET_UNCHANGED"),
    ("2 equal set in another order, twice", (3, 1, 2, 1), (1, 2, 3), {}, 2013, "SET_UNCHANGED"),
    ("2 before 3: fenced master, equal set", (1, 2, 3), (), {"master": 2}, 2013, "SET_UNCHANGED"),
    ("2 before 4", (1, 2, 3), (), {"master_epoch": 9}, 2013, "SET_UNCHANGED"),
    ("3 not the master", (1, 2), (1, 2), {"master": 2}, 2002, "NOT_THE_MASTER"),
    ("3 before 4", (1, 2), (), {"master": 2, "master_epoch": 9}, 2002, "NOT_THE_MASTER"),
    ("4 older master epoch", (1, 2), (1, 2), {"master_epoch": 0}, 2000, "MASTER_EPOCH_FENCED"),
    ("4 newer master epoch", (1, 2), (1, 2), {"master_epoch": 2}, 2000, "MASTER_EPOCH_FENCED"),
    ("4 before 5", (1, 2), (), {"master_epoch": 2, "set_epoch": 9}, 2000, "MASTER_EPOCH_FENCED"),
    ("5 older set epoch", (1, 2), (1, 2), {"set_epoch": 1}, 2001, "SET_EPOCH_FENCED"),
    ("5 newer set epoch", (1, 2), (1, 2), {"set_epoch": 3}, 2001, "SET_EPOCH_FENCED"),
    ("5 before 6", (1, 9), (), {"set_epoch": 1}, 2001, "SET_EPOCH_FENCED"),
    ("6 unknown member", (1, 9), (1, 9), {}, 2003, "REPLICA_UNKNOWN"),
    ("7 member not alive", (1, 2), (1,), {}, 2006, "REPLICA_NOT_ALIVE"),
    ("7 before 6: first bad member decides", (1, 2, 9), (1,), {}, 2006, "REPLICA_NOT_ALIVE"),
    ("6 before 7: first bad member decides", (0, 2), (), {}, 2003, "REPLICA_UNKNOWN"),
    ("7 before 8", (2,), (), {}, 2006, "REPLICA_NOT_ALIVE"),
    ("8 without the master", (2, 3), (1, 2, 3), {}, 2013, "SET_WITHOUT_MASTER"),
    ("8 empty set", (), (1, 2, 3), {}, 2013, "SET_WITHOUT_MASTER"),
    ("accepted", (1, 2), (1, 2, 3), {}, 0, None),
    ("accepted in any order", (2, 1), (2, 1), {}, 0, None),
]


@pytest.mark.parametrize(
    ("members", "alive", "others", "code", "refusal"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_rows_of_5_6(members, alive, others, code, refusal):
    """As shipped; rules 3 differ in row 7 alone."""
    outcome = master_of_all(rules=2).alter(members, *(seen(i) for i in alive), **others)
    assert (outcome.code, outcome.refusal) == (code, refusal)


@pytest.mark.parametrize(
    ("members", "alive", "code", "refusal"),
    [
        ((1, 2), (1,), 0, None),
        ((1, 2, 9), (1,), 2003, "REPLICA_UNKNOWN"),
        ((2,), (), 2013, "SET_WITHOUT_MASTER"),
    ],
)
def test_rules_3_ask_liveness_of_joiners_only(members, alive, code, refusal):
    """A member that acknowledges and is not heard here held up the leaving of a dead one (S16)."""
    outcome = master_of_all().alter(members, *(seen(i) for i in alive))
    assert (outcome.code, outcome.refusal) == (code, refusal)


def test_who_joins_must_be_alive():
    history = with_master(1, 2)
    assert history.alter((1, 2, 3), seen(1), seen(2)).refusal == "REPLICA_NOT_ALIVE"
    assert history.alter((1, 2, 3), seen(3)).accepted


def test_row_1_a_set_that_does_not_exist():
    outcome = History().alter((1,), seen(1))
    assert (outcome.code, outcome.refusal) == (2013, "NO_SUCH_SET")


def test_row_1_a_tombstone_does_not_exist():
    history = master_of_all()
    history.clean(None, living=True)
    assert history.alter((1,), seen(1), master=1).refusal == "NO_SUCH_SET"


def test_row_3_nobody_is_master():
    assert with_replicas(1, 2).alter((1,), seen(1), master=1).refusal == "NOT_THE_MASTER"


def test_accepted_moves_the_set_epoch_by_one_and_says_who_came_and_went():
    history = master_of_all()
    change = history.alter((1, 2), seen(1), seen(2)).changes[0]
    assert (change.sync_state_set, change.sync_state_set_epoch) == ((1, 2), 3)
    assert (change.joined, change.left, change.reason) == ((), (3,), "PROPOSED")
    change = history.alter((1, 3), seen(1), seen(3)).changes[0]
    assert (change.joined, change.left) == ((3,), (2,))
    assert history.set.master_epoch == 1


def test_the_asking_master_is_alive_by_asking():
    """Stricter rows need evidence, but a question is a sign of life."""
    outcome = master_of_all().alter((1, 2), seen(1, alive=False), seen(2))
    assert outcome.accepted


def test_a_repeat_of_an_accepted_wish_by_a_new_command_is_unchanged():
    history = master_of_all()
    assert history.alter((1, 2), seen(1), seen(2), set_epoch=2).accepted
    assert history.alter((1, 2), seen(1), seen(2), set_epoch=2).refusal == "SET_UNCHANGED"


def test_s3_of_two_proposals_on_one_base_the_second_is_refused():
    history = master_of_all()
    assert history.alter((1, 2), seen(1), seen(2), set_epoch=2).accepted
    assert history.alter((1, 3), seen(1), seen(3), set_epoch=2).refusal == "SET_EPOCH_FENCED"


def test_s5_heartbeats_of_an_earlier_start_do_not_make_a_member_alive():
    history = with_master(1, 2)
    history.register(3, "i3-again")
    stale = seen(3, incarnation="i3")
    assert history.alter((1, 2, 3), seen(1), seen(2), stale).refusal == "REPLICA_NOT_ALIVE"
    fresh = seen(3, incarnation="i3-again")
    assert history.alter((1, 2, 3), seen(1), seen(2), fresh).accepted


def test_s5_a_proposal_that_crosses_an_unclean_start_is_refused():
    """Or the old acknowledgements of a member would bring it back at once."""
    history = master_of_all()
    history.register(3, "i3-again", clean=False)
    crossing = history.alter((1, 3), seen(1), seen(3, incarnation="i3-again"), set_epoch=2)
    assert crossing.refusal == "SET_EPOCH_FENCED"


def test_s5_an_unclean_replica_counts_clean_again_once_the_master_takes_it_back():
    history = master_of_all()
    history.register(3, "i3-again", clean=False)
    assert not history.set.replica(3).clean
    back = history.alter((1, 2, 3), seen(1), seen(2), seen(3, incarnation="i3-again"))
    assert back.accepted
    assert history.set.replica(3).clean
    assert history.set.unclean_members == ()


def test_s5_a_set_that_goes_on_does_not_wait_for_whom_it_lost():
    """Once the live master altered its set, unclean ex-members no longer count as members."""
    history = master_of_all()
    history.register(3, "i3-again", clean=False)
    assert history.set.unclean_members == (3,)
    history.alter((1,), seen(1))
    assert history.set.unclean_members == ()
    assert not history.set.replica(3).clean


def test_s6_a_restarted_master_alters_nothing_in_its_old_epoch():
    history = master_of_all()
    history.register(1, "i1-again")
    outcome = history.alter((1, 2), seen(1, incarnation="i1-again"), seen(2))
    assert (outcome.code, outcome.refusal) == (2002, "MASTER_RESTARTED")


def test_an_applied_id_that_never_registered_is_no_member():
    """Stricter than shipped: nothing is known about such a replica."""
    history = with_master(1, 2)
    history.apply_id(4)
    outcome = history.alter((1, 2, 4), seen(1), seen(2), seen(4))
    assert (outcome.code, outcome.refusal) == (2003, "REPLICA_UNKNOWN")


def test_s7_epochs_in_evidence_raise_the_floor_of_the_next_epoch():
    history = master_of_all()
    history.alter((1, 2), seen(1), seen(2), seen(3, epoch=7))
    assert history.set.highest_epoch_seen == 7
    history.elect(-1, seen(2))
    assert history.set.master_epoch == 8


@pytest.mark.parametrize(("reported", "floor"), [(2**31 - 2, 2**31 - 2), (2**31 - 1, 7)])
def test_s7_a_reported_epoch_that_leaves_none_for_the_next_raises_no_floor(reported, floor):
    history = master_of_all(rules=2)
    assert history.alter((1, 2), seen(1, epoch=7), seen(2), seen(3, epoch=reported)).accepted
    assert history.set.highest_epoch_seen == floor


@pytest.mark.parametrize(("reported", "floor"), [(1_001, 1_001), (1_002, 7)])
def test_s18_a_reported_epoch_out_of_reach_raises_no_floor(reported, floor):
    history = master_of_all()
    assert history.alter((1, 2), seen(1, epoch=7), seen(2), seen(3, epoch=reported)).accepted
    assert history.set.highest_epoch_seen == floor


def test_the_set_of_java_brokers_follows_the_same_rows():
    history = History()
    for broker_id in (1, 2):
        history.apply_id(broker_id)
        history.register_java(broker_id)
    history.elect(1)
    both = (seen(1, incarnation=None), seen(2, incarnation=None))
    assert history.alter((1, 2), *both).accepted
    assert verdicts(history.elect(-1, *both)) == {1: "MASTER_KEPT", 2: "NOT_NEEDED"}


# --- a master proves that members lost data (S15) --------------------------------------------


def of_three(rules: int = 3) -> History:
    """A set of three that told 2 as its minimum."""
    history = master_of_all(rules=rules)
    for broker_id in (1, 2, 3):
        history.register(broker_id, min_in_sync=2)
    return history


def test_s15_whom_the_master_proves_to_have_lost_data_leaves_unclean():
    history = of_three()
    outcome = history.alter((1, 2), seen(1), seen(2), lost=(3,))
    altered = outcome.changes[0]
    assert (altered.left, altered.reason, altered.unclean_members) == ((3,), "LOSS_PROVEN", (3,))
    assert (history.set.sync_state_set, history.set.remembered) == ((1, 2), ())
    assert not history.set.replica(3).clean


def test_s15_it_leaves_below_the_minimum_too_and_is_not_remembered():
    history = of_three()
    history.alter((1, 2), seen(1), seen(2))
    assert history.alter((1,), seen(1), lost=(2,)).accepted
    assert (history.set.sync_state_set, history.set.remembered) == ((1,), ())
    assert history.elect(-1, seen(1, alive=False), seen(2)).refusal == "MASTER_NOT_AVAILABLE"


def test_s15_it_leaves_even_when_the_wanted_set_has_it():
    history = of_three()
    assert history.alter((1, 2, 3), seen(1), seen(2), seen(3), lost=(3,)).accepted
    assert history.set.sync_state_set == (1, 2)


def test_s15_a_remembered_one_that_lost_data_is_remembered_no_more():
    history = of_three()
    history.alter((1,), seen(1))
    assert history.set.remembered == (2, 3)
    outcome = history.alter((1,), seen(1), lost=(3,))
    assert (outcome.changes[0].left, history.set.sync_state_set_epoch) == ((), 4)
    assert (history.set.sync_state_set, history.set.remembered) == ((1,), (2,))
    assert not history.set.replica(3).clean


def test_s15_the_lost_one_comes_back_once_it_has_caught_up():
    history = of_three()
    history.alter((1, 2), seen(1), seen(2), lost=(3,))
    assert history.alter((1, 2, 3), seen(1), seen(2), seen(3)).accepted
    assert history.set.replica(3).clean
    assert (history.set.sync_state_set, history.set.unclean_members) == ((1, 2, 3), ())


def test_s15_nobody_proves_a_loss_of_the_master_itself():
    history = of_three()
    assert (
        history.alter((1, 2, 3), seen(1), seen(2), seen(3), lost=(1,)).refusal
        == "SET_WITHOUT_MASTER"
    )
    assert history.set.replica(1).clean


@pytest.mark.parametrize(
    ("other", "refusal"),
    [
        ({"master": 2}, "NOT_THE_MASTER"),
        ({"master_epoch": 0}, "MASTER_EPOCH_FENCED"),
        ({"set_epoch": 1}, "SET_EPOCH_FENCED"),
    ],
)
def test_s15_a_proof_is_fenced_like_every_alteration(other, refusal):
    history = of_three()
    assert history.alter((1, 2), seen(1), seen(2), lost=(3,), **other).refusal == refusal
    assert history.set.replica(3).clean


@pytest.mark.parametrize("lost", [(4,), (-5, 2**62)], ids=["never a member", "never heard of"])
def test_s15_a_loss_of_nobody_who_was_trusted_changes_nothing(lost):
    history = with_master(1, 2, replicas=(1, 2, 3, 4))
    outcome = history.alter((1, 2), seen(1), seen(2), lost=lost)
    assert outcome.refusal == "SET_UNCHANGED"
    assert history.set.replica(4).clean


def test_s15_a_repeated_proof_changes_nothing():
    history = of_three()
    history.alter((1, 2), seen(1), seen(2), lost=(3,))
    assert history.alter((1, 2), seen(1), seen(2), lost=(3,)).refusal == "SET_UNCHANGED"


def test_s15_rules_2_do_not_read_a_proof():
    history = of_three(rules=2)
    assert history.alter((1, 2), seen(1), seen(2), lost=(3,)).refusal == "UNKNOWN_SCHEMA"
    assert history.set.sync_state_set == (1, 2, 3)
