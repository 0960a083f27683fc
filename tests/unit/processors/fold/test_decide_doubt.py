"""A log that may have lost decisions about a set (S11): who is waited for, who leads, and when that
is a risk.
"""

import pytest

from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules, DoubtBrokerSet
from events.outcomes import LABEL_AT_RISK
from processors.fold.decide_doubt import LIFTED_BY
from processors.fold.state import EPOCH_MAX, EPOCH_REACH
from tests.support.control_history import NAME, History, seen, verdicts, with_master


def of(*members: int, rules: int = 3) -> History:
    """A set of three replicas that tell their minimum; the first of `members` leads all of them,
    and is doubted.
    """
    history = with_master(*members, rules=rules)
    for broker_id in (1, 2, 3):
        history.register(broker_id, min_in_sync=2)
    return history


def doubted(*members: int) -> History:
    history = of(*members)
    assert history.doubt().accepted
    return history


ALL = (seen(1, offset=300), seen(2, offset=300), seen(3, offset=100))


def test_a_doubted_set_has_no_master_and_no_members_and_epochs_above_all_given_away() -> None:
    history = of(1, 2)
    before = history.set
    [change] = history.doubt().changes
    after = history.set
    assert change.uncertain == (1, 2, 3), "whoever was a replica may have been a member"
    assert (after.master_broker_id, after.sync_state_set, after.remembered) == (None, (), ())
    assert after.master_epoch == after.highest_epoch_seen == before.highest_epoch_seen + LIFTED_BY
    assert after.sync_state_set_epoch == before.sync_state_set_epoch + LIFTED_BY
    assert [replica.register_check_code for replica in after.replicas] == [
        one.register_check_code for one in before.replicas
    ]


def test_a_master_of_before_alters_nothing() -> None:
    history = doubted(1, 2, 3)
    assert history.alter((1, 2), *ALL).refusal == "NOT_THE_MASTER"


@pytest.mark.parametrize("there", [(1, 2), (3,), (2, 3)])
def test_all_replicas_are_waited_for_whatever_the_log_calls_them(there: tuple[int, ...]) -> None:
    history = doubted(1, 2, 3)
    outcome = history.elect(-1, *(row for row in ALL if row.broker_id in there))
    assert outcome.refusal == "MASTER_NOT_AVAILABLE"
    assert {verdicts(outcome)[i] for i in there} == {"WAITING"}


def test_a_stale_member_does_not_lead_when_its_leaving_was_lost() -> None:
    """The log says that 3 is a member; it left, and 1 and 2 acknowledged more."""
    history = doubted(1, 2, 3)
    assert not history.elect(-1, ALL[2]).accepted, "nobody else came back yet"
    epoch = history.set.master_epoch
    outcome = history.elect(-1, *ALL)
    assert outcome.accepted and outcome.labels == ()
    assert (history.set.master_broker_id, history.set.sync_state_set, history.set.uncertain) == (
        1,
        (1,),
        (),
    )
    assert history.set.master_epoch == epoch + 1 and not history.set.at_risk


def test_a_replica_that_joined_in_a_lost_decision_leads_if_it_has_the_most() -> None:
    history = doubted(1, 2)
    outcome = history.elect(
        -1, seen(1, offset=100), seen(2, offset=100), seen(3, epoch=4, offset=90)
    )
    assert outcome.accepted and history.set.master_broker_id == 3 and outcome.labels == ()


@pytest.mark.parametrize(
    "worse",
    ["unclean", "java", "gone for good", "cleaned", "never registered", "asked for by an operator"],
)
def test_it_is_a_risk_when_somebody_is_missing_or_may_have_lost_something(worse: str) -> None:
    history = of(1, 2, 3)
    if worse == "never registered":
        history.apply_id(4)
    assert history.doubt().accepted
    rows, by, designate = ALL, -1, False
    match worse:
        case "unclean":
            history.register(2, "again", clean=False, last_epoch=1, end_offset=10)
            rows = (ALL[0], seen(2, incarnation="again", offset=10), ALL[2])
        case "java":
            history.register_java(3)
            rows = (*ALL[:2], seen(3, incarnation=None, offset=100))
        case "gone for good":
            history.apply_id(4)
            history.register(4, broker_address="h3:10911")
            rows = (*ALL[:2], seen(4, offset=0, epoch=-1))
        case "cleaned":
            history.clean((3,))
        case "asked for by an operator":
            rows, by, designate = ALL[:1], 1, True
    outcome = history.elect(by, *rows, designate=designate)
    assert outcome.accepted, outcome
    assert LABEL_AT_RISK in outcome.labels and history.set.at_risk
    assert history.set.master_broker_id == 1


def test_a_clean_start_after_the_doubt_is_no_risk_and_one_of_an_older_disk_is() -> None:
    for last, risk in ((2_000, ()), (10, (LABEL_AT_RISK,))):
        history = of(1, 2, 3)
        history.register(2, "before", last_epoch=1, end_offset=1_500, min_in_sync=2)
        history.doubt()
        history.register(2, "again", last_epoch=1, end_offset=last, min_in_sync=2)
        outcome = history.elect(-1, ALL[0], seen(2, incarnation="again", offset=last), ALL[2])
        assert outcome.accepted and outcome.labels == risk


def test_a_replica_that_comes_while_the_set_is_uncertain_is_compared_too() -> None:
    history = doubted(1, 2, 3)
    history.apply_id(4), history.register(4)
    outcome = history.elect(-1, *ALL, seen(4, offset=0, epoch=-1))
    assert outcome.accepted and outcome.labels == () and history.set.master_broker_id == 1


def test_a_set_is_doubted_again_and_again() -> None:
    history = doubted(1, 2, 3)
    epoch = history.set.master_epoch
    assert history.doubt(5).accepted and history.set.master_epoch == epoch + 5
    assert history.elect(-1, *ALL).labels == ()
    assert history.doubt().accepted and history.set.uncertain == (1, 2, 3)


def test_epochs_that_are_nearly_used_up_leave_one_for_the_next_master() -> None:
    history = History(rules=3)
    history.import_set(1, 2, master_epoch=EPOCH_MAX - 5, sync_state_set_epoch=3)
    assert history.doubt().accepted
    assert history.set.master_epoch == EPOCH_MAX - 1 and not history.set.imported


@pytest.mark.parametrize(
    ("lifted", "name", "refusal"),
    [
        (0, NAME, "DOUBT_INVALID"),
        (-1, NAME, "DOUBT_INVALID"),
        (EPOCH_REACH + 1, NAME, "DOUBT_INVALID"),
        (1, "unknown", "NO_SUCH_SET"),
    ],
)
def test_what_is_refused(lifted: int, name: str, refusal: str) -> None:
    history = of(1, 2)
    before = history.folder.state
    assert history.doubt(lifted, name).refusal == refusal
    assert history.folder.state == before


def test_older_rules_cannot_read_it_and_with_its_schema_alone_refuse_it() -> None:
    history = with_master(1, 2, rules=2)
    assert history.doubt().refusal == "UNKNOWN_SCHEMA"
    history.do(ActivateRules(history.envelope(), 2, COMMAND_FINGERPRINTS))
    assert history.doubt().refusal == "DOUBT_INVALID"


def test_only_the_leader_of_the_log_doubts() -> None:
    history = of(1, 2)
    assert history.do(DoubtBrokerSet(history.envelope(term=0), NAME, 1)).refusal == "STALE_TERM"


def test_a_tombstone_is_not_doubted() -> None:
    history = of(1)
    history.clean(None, living=True)
    assert history.doubt().refusal == "NO_SUCH_SET"
