"""What members showed binds them (design S15): a log that went back in time is not trusted, a
legitimate cut is no loss.
"""

import pytest
from msgspec.structs import replace

from events.envelope import MemberPosition
from tests.support.control_history import History, seen, verdicts, with_master, with_replicas


def gone(broker_id: int, **other):
    return seen(broker_id, alive=False, reason="connection_closed", **other)


def of(*members: int) -> History:
    """A set whose members told 2 as their minimum; the first leads in epoch 1."""
    history = with_master(*members)
    for broker_id in (1, 2, 3):
        history.register(broker_id, min_in_sync=2)
    return history


def shown(history: History) -> dict[int, tuple[int, int]]:
    return {row.broker_id: (row.epoch, row.end_offset) for row in history.set.positions}


def starts(history: History, broker_id: int, epoch: int, end: int, start: str = "later"):
    """A start of a process that says it lost nothing."""
    return history.register(
        broker_id, f"{start}{broker_id}", last_epoch=epoch, end_offset=end, min_in_sync=2
    )


# --- what is kept --------------------------------------------------------------------------


def test_alterations_and_elections_keep_what_members_showed():
    history = of(1, 2)
    history.alter((1,), seen(1, offset=3_000), gone(2, offset=2_500))
    assert shown(history) == {1: (1, 3_000), 2: (1, 2_500)}
    history.alter((1, 2), seen(1, offset=3_100), seen(2, offset=3_050))
    history.elect(-1, gone(1, offset=5_000), seen(2, offset=4_900))
    assert shown(history) == {1: (1, 5_000), 2: (1, 4_900)}


def test_an_election_that_clears_a_dead_master_keeps_what_it_had_shown():
    history = of(1, 2)
    history.elect(-1, gone(1, offset=5_000), gone(2, offset=4_900))
    assert history.set.master_broker_id is None
    assert shown(history) == {1: (1, 5_000), 2: (1, 4_900)}


@pytest.mark.parametrize(
    "evidence",
    [
        seen(2, offset=9_000, incarnation="former"),
        seen(2, epoch=-1, offset=9_000),
        seen(2, epoch=2, offset=9_000),
        seen(2, epoch=0, offset=9_000),
        seen(2, offset=999),
    ],
    ids=[
        "of an earlier start",
        "without an epoch",
        "of a later epoch",
        "of an earlier epoch",
        "less than before",
    ],
)
def test_what_shows_nothing_of_this_mastership_is_not_kept(evidence):
    history = of(1, 2, 3)
    history.alter((1, 2), seen(1), evidence)
    assert shown(history)[2] == (1, 1_000)


def test_who_never_was_a_member_showed_nothing():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2), seen(3, offset=9_000))
    assert sorted(shown(history)) == [1, 2]


def test_only_what_was_confirmed_is_expected():
    """A tail that nobody acknowledged may go with its machine, and may be cut."""
    history = of(1, 2)
    tail = replace(gone(1, offset=1_500), confirm_offset=1_200)
    history.elect(-1, tail, seen(2, offset=1_200))
    starts(history, 1, 1, 1_200)
    assert history.set.replica(1).clean
    starts(history, 1, 1, 1_199, "again")
    assert not history.set.replica(1).clean


def test_who_is_forgotten_leaves_no_position_behind():
    history = of(1, 2)
    history.alter((1,), seen(1), gone(2))
    history.clean((2,), living=True)
    assert sorted(shown(history)) == [1]


def test_older_rules_keep_none():
    history = with_master(1, 2, rules=2)
    history.elect(-1, gone(1, offset=5_000), seen(2, offset=5_000))
    assert history.set.positions == ()


# --- a start that lies below ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "end", "sound"),
    [(-1, 0, False), (1, 4_999, False), (0, 9_000, False), (1, 5_000, True), (2, 10, True)],
    ids=["empty", "shorter than it showed", "of an earlier epoch", "as it showed", "a later epoch"],
)
def test_a_copy_newer_than_the_last_registration_is_noticed(epoch, end, sound):
    """It registered with 100, showed 5,000, and comes back with an older disk."""
    history = with_replicas(1, 2, 3)
    history.elect(1)
    history.register(2, "before", last_epoch=0, end_offset=100, min_in_sync=2)
    history.alter((1, 2), seen(1), seen(2, incarnation="before", offset=1_000))
    history.elect(-1, seen(1, offset=5_000), gone(2, incarnation="before"), designate=True)
    history.alter((1,), seen(1, offset=5_000), gone(2, incarnation="before", offset=5_000))
    starts(history, 2, epoch, end)
    assert history.set.replica(2).clean is sound


@pytest.mark.parametrize(
    ("heard_epoch", "heard_offset", "sound"),
    [(1, 7_000, False), (1, 6_000, True), (2, 7_000, True), (0, 7_000, True), (None, None, True)],
    ids=[
        "it had named more",
        "it had named as much",
        "of no epoch that was led in",
        "of an epoch before",
        "nothing was heard",
    ],
)
def test_between_two_commands_the_heartbeats_of_the_start_before_count(
    heard_epoch, heard_offset, sound
):
    """No decision was made since 2 was at 5,000; its disk comes back with 6,000."""
    history = of(1, 2)
    history.alter((1, 2, 3), seen(1, offset=5_000), seen(2, offset=5_000), seen(3, offset=5_000))
    told = {"heard_epoch": heard_epoch, "heard_offset": heard_offset, "min_in_sync": 2}
    history.register(2, "later", last_epoch=1, end_offset=6_000, **told)
    assert history.set.replica(2).clean is sound
    assert (2 in history.set.sync_state_set) is sound


def test_what_was_heard_of_a_newcomer_binds_it_not():
    history = of(1, 2)
    history.register(3, "later", last_epoch=1, end_offset=6, heard_epoch=1, heard_offset=7_000)
    assert history.set.replica(3).clean


def test_a_former_master_with_an_older_disk_is_remembered_no_more():
    history = of(1, 2)
    history.elect(-1, gone(1, offset=5_000), seen(2, offset=5_000))
    assert history.set.remembered == (1,)
    starts(history, 1, 1, 4_000)
    assert (history.set.remembered, history.set.replica(1).clean) == ((), False)
    assert (
        history.elect(-1, seen(1, incarnation="later1", offset=4_000), gone(2)).refusal
        == "MASTER_NOT_AVAILABLE"
    )


def test_a_member_with_an_older_disk_leaves_the_set_at_once():
    history = of(1, 2, 3)
    history.alter((1, 2), seen(1, offset=5_000), seen(2, offset=5_000))
    starts(history, 2, 1, 4_000)
    assert (history.set.sync_state_set, history.set.unclean_members) == ((1,), (2,))


# --- what is no loss -----------------------------------------------------------------------


def test_a_former_master_that_was_cut_to_its_successor_lost_nothing():
    """1 led epoch 3 and nobody took a byte of it; it is cut off, and 2, whose log ends in epoch 1,
    leads next.
    """
    history = of(1, 2)
    (
        history.elect(2, seen(1), seen(2), designate=True),
        history.elect(1, seen(1), seen(2), designate=True),
    )
    history.elect(-1, gone(1, epoch=3), seen(2))
    assert shown(history) == {1: (3, 1_000), 2: (1, 1_000)}
    # What its heartbeats named first is not gone from the evidence when it has been cut and joins.
    history.alter((1, 2), seen(1, epoch=3), seen(2, epoch=4))
    starts(history, 1, 1, 1_000)
    assert history.set.replica(1).clean
    assert history.set.sync_state_set == (1, 2)


def test_members_that_stay_are_bound_to_where_their_new_master_ends():
    """1 led epoch 3; 2, whose log ends in epoch 1, takes over from it, so nothing was confirmed in
    epoch 3.
    """
    history = of(1, 2)
    (
        history.elect(2, seen(1), seen(2), designate=True),
        history.elect(1, seen(1), seen(2), designate=True),
    )
    history.elect(2, seen(1, epoch=3), seen(2), designate=True)
    assert shown(history) == {1: (1, 1_000), 2: (1, 1_000)}
    starts(history, 1, 1, 1_000)
    assert history.set.sync_state_set == (1, 2)


def test_after_an_election_at_risk_nobody_is_expected_to_have_more_than_the_winner():
    history = of(1, 2)
    history.elect(-1, gone(1, offset=5_000), seen(2, offset=5_000))
    for broker_id in (1, 2):
        history.register(
            broker_id,
            f"dark{broker_id}",
            clean=False,
            last_epoch=1,
            end_offset=4_000,
            min_in_sync=2,
        )
    outcome = history.elect(
        -1, seen(1, incarnation="dark1", offset=4_100), seen(2, incarnation="dark2", offset=4_000)
    )
    assert outcome.labels == ("AT_RISK",)
    assert shown(history) == {1: (1, 4_100), 2: (1, 4_100)}
    starts(history, 1, 2, 4_100)
    assert history.set.replica(1).clean


def test_who_joins_again_is_bound_to_what_it_shows_then():
    history = of(1, 2)
    history.elect(-1, gone(1, offset=5_000), seen(2, offset=5_000))
    starts(history, 1, 1, 5_000)
    history.alter(
        (1, 2), seen(1, incarnation="later1", epoch=2, offset=5_100), seen(2, epoch=2, offset=5_100)
    )
    assert shown(history)[1] == (2, 5_100)
    history.alter(
        (2,), seen(2, epoch=2, offset=6_000), gone(1, incarnation="later1", epoch=2, offset=5_900)
    )
    assert shown(history) == {1: (2, 5_900), 2: (2, 6_000)}


# --- starts that tell no position ------------------------------------------------------------


def of_java() -> History:
    """Master 1 of ours and a Java member 2, both at 5,000."""
    history = History()
    for broker_id in (1, 2):
        history.apply_id(broker_id)
    history.register(1, min_in_sync=2), history.register_java(2)
    history.elect(1)
    java = seen(2, incarnation=None, offset=5_000)
    history.alter((1, 2), seen(1, offset=5_000), java)
    return history


def java(offset: int, **other):
    return seen(2, incarnation=None, offset=offset, **other)


def test_a_java_member_that_lost_its_power_is_not_elected_without_risk():
    """A4: it registers as ever, stays in the set, and its heartbeats show less than it had."""
    history = of_java()
    history.register_java(2)
    assert history.set.positions[1] == MemberPosition(2, 1, 5_000, restarted=True)
    outcome = history.elect(-1, gone(1, offset=5_000), java(4_000))
    assert (outcome.refusal, history.set.sync_state_set) == ("MASTER_NOT_AVAILABLE", (1,))
    assert verdicts(outcome) == {1: "NOT_ALIVE", 2: "UNCLEAN"}
    assert not history.set.replica(2).clean
    assert history.elect(-1, seen(1, offset=5_000), java(4_000)).accepted
    assert (history.set.master_broker_id, history.set.at_risk) == (1, False)


def test_what_a_java_member_named_last_counts_where_no_decision_showed_anything():
    """A young set: joined once, and nothing decided since."""
    history = History()
    for broker_id in (1, 2):
        history.apply_id(broker_id)
    history.register(1, min_in_sync=2), history.register_java(2)
    history.elect(1)
    history.alter((1, 2), seen(1, epoch=-1, offset=-1), java(-1, epoch=-1))
    assert history.set.positions == ()
    history.register_java(2, heard_epoch=1, heard_offset=5_000)
    assert history.set.positions == (MemberPosition(2, 1, 5_000, restarted=True),)
    outcome = history.elect(-1, gone(1, offset=5_000), java(4_000))
    assert (outcome.refusal, history.set.replica(2).clean) == ("MASTER_NOT_AVAILABLE", False)


@pytest.mark.parametrize(
    "heard", [{}, {"heard_epoch": 7, "heard_offset": 9_000}, {"heard_epoch": 1}]
)
def test_what_was_heard_of_another_epoch_or_of_a_newcomer_binds_no_java_broker(heard):
    history = of_java()
    history.apply_id(3)
    before = history.set.positions
    history.register_java(3, **heard)
    assert history.set.positions == before
    history.register_java(3, heard_epoch=1, heard_offset=9_000)
    assert history.set.positions == before, "it never was a member"


def test_when_all_lost_data_the_longest_leads_at_risk():
    history = of_java()
    history.register_java(2)
    history.register(1, "dark", clean=False, last_epoch=1, end_offset=4_500, min_in_sync=2)
    outcome = history.elect(-1, seen(1, incarnation="dark", offset=4_500), java(4_000))
    assert (history.set.master_broker_id, outcome.labels) == (1, ("AT_RISK",))


def test_a_java_member_that_shows_all_it_had_is_elected_without_risk():
    history = of_java()
    history.register_java(2)
    outcome = history.elect(-1, gone(1, offset=5_000), java(5_000))
    assert (history.set.master_broker_id, outcome.labels) == (2, ())
    assert not any(row.restarted for row in history.set.positions)


@pytest.mark.parametrize(
    "evidence",
    [java(4_000), java(-1, epoch=-1)],
    ids=["it did not start anew", "nothing is known of it"],
)
def test_what_is_unknown_is_no_loss(evidence):
    """A controller that leads since a moment ago knows an older heartbeat, or none yet."""
    history = of_java()
    if evidence.epoch < 0:
        history.register_java(2)
    assert history.elect(-1, gone(1, offset=5_000), evidence).accepted
    assert history.set.master_broker_id == 2


def test_a_java_master_that_restarts_with_less_is_no_master_any_more():
    history = of_java()
    history.elect(-1, gone(1, offset=5_000), java(5_000))
    history.alter((1, 2), seen(1, offset=5_000), java(6_000, epoch=2))
    history.elect(-1, seen(1, epoch=2, offset=5_900), java(6_000, epoch=2))
    history.register_java(2)
    assert history.set.master_restarted
    outcome = history.elect(2, seen(1, epoch=2, offset=6_000), java(5_500, epoch=2))
    assert (history.set.master_broker_id, outcome.labels) == (1, ())
    assert not history.set.replica(2).clean
