"""Elections remember (design S14, S15): who holds all that was acknowledged stays eligible, and
loss is compared.
"""

import pytest

from events.changes import MembersRemembered
from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules
from tests.support.control_history import History, seen, verdicts, with_master


def gone(broker_id: int, **other):
    return seen(broker_id, alive=False, reason="connection_closed", **other)


def of(*members: int, minimum: int | None = 2, rules: int = 3) -> History:
    """A set of three replicas that told their minimum; the first of `members` leads all of them."""
    history = with_master(*members, rules=rules)
    if rules >= 3:
        for broker_id in (1, 2, 3):
            history.register(broker_id, min_in_sync=minimum)
    return history


def memory(history: History) -> tuple[int, ...]:
    return history.set.remembered


def loses_power(
    history: History, broker_id: int, *, epoch: int = 1, end: int = 100, start: str = "power"
):
    return history.register(
        broker_id,
        f"{start}{broker_id}",
        clean=False,
        last_epoch=epoch,
        end_offset=end,
        min_in_sync=2,
    )


def back(broker_id: int, start: str = "power", **other):
    return seen(broker_id, incarnation=f"{start}{broker_id}", **other)


# --- who is remembered ---------------------------------------------------------------------


def test_who_an_election_leaves_out_below_the_minimum_is_remembered():
    history = of(1, 2)
    outcome = history.elect(-1, gone(1), seen(2))
    assert outcome.changes[-1] == MembersRemembered("broker-a", (1,), (1, 2))
    assert (history.set.sync_state_set, memory(history)) == ((2,), (1,))


@pytest.mark.parametrize(
    ("minimum", "remembered"),
    [(2, ()), (3, (1,)), (None, ()), (1, ())],
    ids=["met", "not met", "not told", "one"],
)
def test_a_set_with_its_minimum_remembers_nobody(minimum, remembered):
    history = of(1, 2, 3, minimum=minimum)
    history.elect(-1, gone(1), seen(2), seen(3))
    assert (history.set.sync_state_set, memory(history)) == ((2, 3), remembered)


def test_the_minimum_is_that_of_the_master_that_leads_now():
    history = of(1, 2)
    history.register(2, min_in_sync=1)
    history.elect(-1, gone(1), seen(2))
    assert memory(history) == ()


def test_who_a_shrink_below_the_minimum_leaves_out_is_remembered():
    history = of(1, 2)
    assert history.alter((1,), seen(1)).accepted
    assert memory(history) == (2,)


def test_the_memory_ends_when_the_set_has_its_minimum_again():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    assert history.alter((2, 3), seen(2), seen(3)).accepted
    assert memory(history) == ()
    assert history.set.former == (1, 2, 3)


def test_one_after_the_other_is_remembered_while_nothing_can_be_acknowledged():
    history = of(1, 2, 3, minimum=3)
    history.elect(-1, gone(1), seen(2), seen(3))
    history.elect(-1, gone(1), gone(2), seen(3))
    assert (history.set.sync_state_set, memory(history)) == ((3,), (1, 2))


def test_who_loses_data_is_remembered_no_more():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    loses_power(history, 1)
    assert memory(history) == ()
    assert not history.set.replica(1).clean


def test_who_restarts_without_a_loss_stays_remembered():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    history.register(1, "again", last_epoch=1, end_offset=1_000, min_in_sync=2)
    assert memory(history) == (1,)


def test_a_java_master_makes_its_set_forget():
    """It told no minimum: it may acknowledge alone."""
    history = of(1, 2)
    history.register_java(2)
    history.elect(-1, gone(1), seen(2, incarnation=None))
    assert (history.set.master_broker_id, memory(history)) == (2, ())


def test_who_was_cleaned_is_remembered_no_more():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    assert history.clean((1,)).refusal == "CLEAN_IS_ALIVE"
    assert history.clean((1,), living=True).accepted
    assert (memory(history), history.set.former) == ((), (2,))


def test_rules_2_remember_nobody():
    history = of(1, 2, rules=2)
    history.elect(-1, gone(1), seen(2))
    assert (memory(history), history.set.former) == ((), ())


@pytest.mark.parametrize("rules", [2, 3])
def test_a_start_alone_changes_no_memory_but_where_older_rules_kept_none(rules):
    history = of(1, 2, 3, rules=rules)
    if rules == 2:
        assert history.do(ActivateRules(history.envelope(), 3, COMMAND_FINGERPRINTS)).accepted
    outcome = history.register(2, "again", last_epoch=1, end_offset=1_000, min_in_sync=3)
    told = [change for change in outcome.changes if isinstance(change, MembersRemembered)]
    assert told == ([] if rules == 3 else [MembersRemembered("broker-a", (), (1, 2, 3))])
    assert (memory(history), history.set.former) == ((), (1, 2, 3))


# --- elections -----------------------------------------------------------------------------


def test_a_remembered_replica_leads_without_risk_when_no_member_can():
    """B1: the machine of the only member is gone for good."""
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    outcome = history.elect(-1, seen(1), gone(2))
    assert (outcome.labels, verdicts(outcome)) == (
        ("REMEMBERED",),
        {1: "CHOSEN", 2: "NOT_ALIVE", 3: "NOT_ALIVE"},
    )
    assert (history.set.master_broker_id, history.set.sync_state_set) == (1, (1,))
    assert memory(history) == (2,)
    assert not history.set.at_risk


def test_after_the_last_member_was_cleaned_the_longest_former_member_leads_at_risk():
    history = of(1, 2, 3)
    loses_power(history, 2, end=60)
    loses_power(history, 3, end=70)
    history.register(1, "again", last_epoch=1, end_offset=500, min_in_sync=2)
    history.elect(-1, seen(1, incarnation="again"), back(2), back(3))
    loses_power(history, 1)
    history.clean((1,), living=True)
    assert (history.set.sync_state_set, history.set.unclean_members, history.set.former) == (
        (),
        (),
        (2, 3),
    )
    assert history.elect(-1, gone(2), back(3, offset=70)).refusal == "MASTER_NOT_AVAILABLE"
    outcome = history.elect(-1, back(2, offset=60), back(3, offset=70))
    assert (outcome.labels, verdicts(outcome)) == (("AT_RISK",), {2: "LOWER_OFFSET", 3: "CHOSEN"})


def test_a_member_goes_before_the_remembered():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    history.register(2, "again", last_epoch=2, end_offset=1, min_in_sync=2)
    outcome = history.elect(-1, seen(1, offset=9_999), seen(2, incarnation="again", offset=1))
    assert (history.set.master_broker_id, outcome.labels) == (2, ())


def test_of_the_remembered_the_longest_leads_and_all_that_live_are_members():
    history = of(1, 2, 3, minimum=3)
    history.alter((1, 2, 3), seen(1), seen(2), seen(3))
    history.elect(-1, gone(1), gone(2), seen(3))
    outcome = history.elect(-1, seen(1, offset=70), seen(2, offset=71), gone(3))
    assert verdicts(outcome) == {1: "LOWER_OFFSET", 2: "CHOSEN", 3: "NOT_ALIVE"}
    assert (history.set.sync_state_set, memory(history)) == ((1, 2), (3,))


def test_an_operator_may_name_a_remembered_replica():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    outcome = history.elect(1, seen(1), gone(2), designate=True)
    assert (outcome.accepted, outcome.labels) == (True, ("DESIGNATED", "REMEMBERED"))


def test_nobody_leads_while_neither_members_nor_remembered_are_there():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    assert history.elect(-1, gone(1), gone(2), seen(3)).refusal == "MASTER_NOT_AVAILABLE"
    assert (history.set.sync_state_set, memory(history)) == ((2,), (1,))


# --- the schedules that lost acknowledged messages --------------------------------------------


def test_a_kill_then_a_power_loss_loses_nothing():
    """1 is killed, 2 elected alone, 2 loses its power: 1 holds everything."""
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    history.register(1, "again", last_epoch=1, end_offset=1_000, min_in_sync=2)
    loses_power(history, 2)
    outcome = history.elect(-1, seen(1, incarnation="again"), back(2, offset=100))
    assert (history.set.master_broker_id, outcome.labels) == (1, ("REMEMBERED",))


def test_a_power_loss_that_nobody_heard_then_a_kill_loses_nothing():
    """The heartbeat of 2 counts although its machine is dark; 1 is killed, the dead 2 is
    elected.
    """
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2))
    history.register(1, "again", last_epoch=1, end_offset=1_000, min_in_sync=2)
    outcome = history.elect(-1, seen(1, incarnation="again"), gone(2))
    assert (history.set.master_broker_id, outcome.labels) == (1, ("REMEMBERED",))
    loses_power(history, 2)
    assert (history.set.master_broker_id, history.set.sync_state_set) == (1, (1,))


def test_one_that_was_cut_off_from_the_controllers_is_remembered():
    """2 is unheard, 3 is killed, 1 is elected alone and loses its power: 2 held everything."""
    history = of(3, 1, 2)
    history.elect(-1, seen(1), gone(2), gone(3))
    assert (history.set.master_broker_id, memory(history)) == (1, (2, 3))
    loses_power(history, 1)
    outcome = history.elect(-1, back(1), seen(2), gone(3))
    assert (history.set.master_broker_id, outcome.labels) == (2, ("REMEMBERED",))


def test_a_former_member_is_waited_for_and_compared_when_all_members_lost_power():
    """1 is killed while the set keeps its minimum, then 2 and 3 lose their power."""
    history = of(1, 2, 3)
    history.elect(-1, gone(1), seen(2), seen(3))
    assert memory(history) == ()
    for broker_id in (2, 3):
        loses_power(history, broker_id)
    waits = history.elect(-1, gone(1), back(2), back(3))
    assert waits.refusal == "MASTER_NOT_AVAILABLE"
    assert verdicts(waits)[2] == verdicts(waits)[3] == "WAITING"
    history.register(1, "again", last_epoch=1, end_offset=1_000, min_in_sync=2)
    outcome = history.elect(
        -1, seen(1, incarnation="again", offset=500), back(2, offset=90), back(3, offset=80)
    )
    assert (history.set.master_broker_id, outcome.labels) == (1, ("AT_RISK",))


def test_an_operator_ends_the_wait():
    history = of(1, 2, 3)
    history.elect(-1, gone(1), seen(2), seen(3))
    for broker_id in (2, 3):
        loses_power(history, broker_id)
    outcome = history.elect(3, gone(1), back(2), back(3), designate=True)
    assert (history.set.master_broker_id, outcome.labels) == (3, ("AT_RISK", "DESIGNATED"))


def waiting_for_one() -> History:
    """1 held everything when it was killed; then 2 and 3 lose their power."""
    history = of(1, 2, 3)
    history.elect(-1, gone(1), seen(2), seen(3))
    for broker_id in (2, 3):
        loses_power(history, broker_id)
    return history


def test_an_outcome_names_whom_the_set_waits_for():
    history = waiting_for_one()
    outcome = history.elect(-1, gone(1), back(2), back(3))
    assert verdicts(outcome) == {1: "AWAITED", 2: "WAITING", 3: "WAITING"}


@pytest.mark.parametrize(
    ("limit", "waited_ms", "elected"),
    [
        ("60000", 60_000, True),
        ("60000", 59_999, False),
        ("60000", None, False),
        ("0", 10**9, False),
        (None, 10**9, False),
    ],
    ids=["has passed", "has not", "not told", "for ever", "not set"],
)
def test_a_set_waits_as_long_as_the_setting_says(limit, waited_ms, elected):
    history = waiting_for_one()
    if limit:
        assert history.setting("atRiskWaitMs", limit).accepted
    history.elect(-1, gone(1), back(2, offset=90), back(3, offset=91), waited_ms=waited_ms)
    assert (history.set.master_broker_id == 3) is elected


def test_an_election_that_waits_no_longer_takes_the_longest_and_says_whom_it_gave_up():
    history = waiting_for_one()
    history.setting("atRiskWaitMs", "60000")
    outcome = history.elect(-1, gone(1), back(2, offset=90), back(3, offset=91), waited_ms=70_000)
    assert outcome.labels == ("AT_RISK",)
    assert verdicts(outcome) == {1: "WAIT_OVER", 2: "LOWER_OFFSET", 3: "CHOSEN"}
    assert history.set.at_risk


def test_a_wait_that_is_over_gives_no_set_away_whose_members_may_come_back():
    """2 and 3 are down with everything that was acknowledged: that is no election at risk, but
    none.
    """
    history = of(2, 3)
    history.setting("atRiskWaitMs", "60000")
    outcome = history.elect(-1, seen(1), gone(2), gone(3), waited_ms=10**9)
    assert (outcome.refusal, verdicts(outcome)[1]) == ("MASTER_NOT_AVAILABLE", "NOT_IN_SET")


def test_a_remembered_one_that_is_there_goes_before_an_election_at_risk():
    history = of(1, 2)
    history.setting("atRiskWaitMs", "1")
    history.elect(-1, gone(1), seen(2))
    loses_power(history, 2)
    outcome = history.elect(-1, seen(1), back(2), waited_ms=10**9)
    assert (history.set.master_broker_id, outcome.labels) == (1, ("REMEMBERED",))


@pytest.mark.parametrize("rules", [1, 2])
def test_older_rules_wait_for_ever(rules):
    assert not History(rules=rules).setting("atRiskWaitMs", "60000").accepted


@pytest.mark.parametrize(
    ("value", "accepted"), [("604800000", True), ("604800001", False), ("-1", False), ("1s", False)]
)
def test_a_wait_of_a_week_is_the_longest(value, accepted):
    assert History().setting("atRiskWaitMs", value).accepted is accepted


def test_who_never_was_a_member_is_not_waited_for():
    history = of(1, 2)
    loses_power(history, 2), loses_power(history, 1)
    outcome = history.elect(-1, back(1, offset=7), back(2, offset=8), gone(3))
    assert (history.set.master_broker_id, outcome.labels) == (2, ("AT_RISK",))


def test_after_an_election_at_risk_nobody_is_remembered():
    history = of(1, 2)
    loses_power(history, 2), loses_power(history, 1)
    history.elect(-1, back(1, offset=7), back(2, offset=8))
    assert (history.set.sync_state_set, memory(history)) == ((2,), ())


def at_address(history: History, broker_id: int, of_id: int, **other):
    """A broker whose disk is gone comes back at its address, with a new id and nothing."""
    history.apply_id(broker_id)
    history.register(broker_id, broker_address=f"h{of_id}:10911", min_in_sync=2, **other)


def test_a_former_member_whose_disk_is_gone_is_not_waited_for():
    """A later id lives at its address."""
    history = of(1, 2, 3)
    history.elect(-1, gone(1), seen(2), seen(3))
    for broker_id in (2, 3):
        loses_power(history, broker_id)
    at_address(history, 4, 1)
    assert history.elect(-1, gone(1), back(2), back(3)).refusal == "MASTER_NOT_AVAILABLE"
    outcome = history.elect(
        -1, gone(1), back(2, offset=90), back(3, offset=80), seen(4, epoch=-1, offset=0)
    )
    assert (history.set.master_broker_id, outcome.labels) == (2, ("AT_RISK",))


def test_a_set_whose_only_member_lost_its_disk_takes_the_longest_that_is_left():
    history = of(1, 2)
    history.elect(-1, gone(1), seen(2)), history.register(1, "u", clean=False, min_in_sync=2)
    at_address(history, 4, 2)
    empty = seen(4, epoch=-1, offset=0)
    outcome = history.elect(
        -1, seen(1, incarnation="u", offset=70), gone(2), seen(3, offset=60), empty
    )
    assert (history.set.master_broker_id, outcome.labels) == (1, ("AT_RISK",))


def test_a_stranger_at_the_address_of_a_living_member_moves_nobody():
    history = of(1, 2)
    at_address(history, 4, 1)
    history.elect(-1, seen(1), seen(2), seen(4))
    assert (history.set.master_broker_id, history.set.sync_state_set) == (1, (1, 2))


# --- logs that went back -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "end", "sound"),
    [(-1, 0, False), (3, 900, False), (4, 99, False), (4, 100, True), (5, 1, True)],
    ids=["empty disk, identity kept", "older epoch", "shorter", "the same", "later epoch"],
)
def test_a_member_whose_log_went_back_leaves_the_set_whatever_it_says(epoch, end, sound):
    history = of(1, 2)
    history.register(2, "before", last_epoch=4, end_offset=100, min_in_sync=2)
    history.register(2, "after", clean=True, last_epoch=epoch, end_offset=end, min_in_sync=2)
    assert history.set.sync_state_set == ((1, 2) if sound else (1,))
    assert history.set.replica(2).clean is sound


def test_an_empty_member_is_not_elected_over_one_that_holds_everything():
    history = of(1, 2)
    history.register(2, "before", last_epoch=1, end_offset=100, min_in_sync=2)
    history.register(2, "empty", clean=True, last_epoch=-1, end_offset=0, min_in_sync=2)
    history.elect(-1, gone(1), seen(2, incarnation="empty", epoch=-1, offset=0))
    assert history.set.master_broker_id is None
    history.register(1, "again", last_epoch=1, end_offset=1_000, min_in_sync=2)
    history.elect(
        -1, seen(1, incarnation="again"), seen(2, incarnation="empty", epoch=-1, offset=0)
    )
    assert history.set.master_broker_id == 1


def test_a_newcomer_may_begin_with_less():
    history = of(1, 2)
    history.register(3, "before", last_epoch=4, end_offset=100)
    history.register(3, "empty", clean=True, last_epoch=-1, end_offset=0)
    assert history.set.replica(3).clean


# --- the upgrade ---------------------------------------------------------------------------


def test_after_an_upgrade_every_replica_may_have_been_a_member():
    history = of(1, 2, 3, rules=2)
    history.elect(-1, gone(1), seen(2), seen(3))
    assert history.do(ActivateRules(history.envelope(), 3, COMMAND_FINGERPRINTS)).accepted
    for broker_id in (2, 3):
        loses_power(history, broker_id)
    assert history.set.former == (1, 2, 3)
    assert history.elect(-1, gone(1), back(2), back(3)).refusal == "MASTER_NOT_AVAILABLE"
