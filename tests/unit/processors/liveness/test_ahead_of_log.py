"""What brokers know beyond the log, and how many reports it takes to believe that the log lost it
(S11).
"""

import pytest

from events.topics import COMMANDS_TOPIC
from processors.fold.state import EPOCH_REACH, BrokerSet, Replica
from processors.liveness.ahead_of_log import (
    ASK_AGAIN_MS,
    REPORTS_MIN,
    REPORTS_WITHIN_MS,
    Ahead,
    LogDoubts,
    ahead_of,
    behind_brokers,
    beyond_belief,
)
from processors.liveness.pulses import Heartbeat

REPLICAS = tuple(
    Replica(i, f"b{i}:1", f"b{i};1", incarnation=f"life-{i}", is_regent=True, is_registered=True)
    for i in (1, 2, 3)
)
SET = BrokerSet(
    "C",
    "a",
    4,
    REPLICAS,
    master_broker_id=1,
    master_epoch=5,
    sync_state_set=(1, 2),
    sync_state_set_epoch=9,
    highest_epoch_seen=5,
    has_had_master=True,
    former=(1, 2),
)
AHEAD = Ahead(2, "b2:1", "master epoch", 6, 5)


def beat(broker_id: int, **told: object) -> Heartbeat:
    fields = {"incarnation": f"life-{broker_id}"} | told
    return Heartbeat(("C", "a", broker_id), f"b{broker_id}:1", **fields)  # type: ignore[arg-type]


def replaced(**changes: object) -> BrokerSet:
    fields = {name: getattr(SET, name) for name in SET.__struct_fields__} | changes
    return BrokerSet(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "told", "found"),
    [
        ("a member has seen a later epoch", beat(2, epoch_seen=6), AHEAD),
        ("it knows what the log knows", beat(2, epoch_seen=5), None),
        ("it has not heard yet", beat(2, epoch_seen=4), None),
        ("a broker of Java's tells nothing", beat(2, incarnation=None, epoch=6), None),
        ("another start than the registered one", beat(2, incarnation="other", epoch_seen=6), None),
        ("who never was a member proves nothing", beat(3, epoch_seen=6), None),
        ("nobody registered under that id", beat(9, epoch_seen=6), None),
        (
            "the master's set moved on",
            beat(1, epoch=5, epoch_seen=5, set_epoch=10),
            Ahead(1, "b1:1", "SyncStateSet epoch", 10, 9),
        ),
        ("the set epoch of a former epoch", beat(1, epoch=4, epoch_seen=5, set_epoch=10), None),
        (
            "only the master knows the set's epoch",
            beat(2, epoch=5, epoch_seen=5, set_epoch=10),
            None,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_which_reports_are_ahead_of_the_log(one: str, told: Heartbeat, found: Ahead | None) -> None:
    assert ahead_of(SET, told) == found, one


def test_a_set_that_other_controllers_led_may_be_ahead() -> None:
    told = beat(2, epoch_seen=6)
    assert ahead_of(replaced(imported=True), told) is None
    assert (
        ahead_of(
            replaced(
                has_had_master=False,
                master_broker_id=None,
                master_epoch=0,
                sync_state_set=(),
                former=(),
            ),
            told,
        )
        is None
    )
    assert ahead_of(None, told) is None


def test_a_member_left_out_is_believed_and_one_taken_in_before_it_was_written() -> None:
    assert ahead_of(replaced(sync_state_set=(1,)), beat(2, epoch_seen=6)) == AHEAD
    assert ahead_of(replaced(former=()), beat(2, epoch_seen=6)) == AHEAD


@pytest.mark.parametrize(
    ("above", "within"), [(1, True), (EPOCH_REACH, True), (EPOCH_REACH + 1, False)]
)
def test_within_which_reach_a_report_is_believed(above: int, within: bool) -> None:
    ahead = ahead_of(SET, beat(2, epoch_seen=5 + above))
    assert ahead is not None and ahead.is_within_reach is within


def test_it_takes_several_proven_reports() -> None:
    doubts = LogDoubts()
    for number in range(1, REPORTS_MIN + 1):
        assert doubts.begins("a", number)
        assert doubts.proven("a", AHEAD, number) is (number == REPORTS_MIN)


def test_a_log_that_was_only_late_clears_the_doubt() -> None:
    doubts = LogDoubts()
    for _ in range(REPORTS_MIN - 1):
        doubts.proven("a", AHEAD, 0)
    assert not doubts.proven("a", None, 0)
    assert not doubts.proven("a", AHEAD, 0), "counting began anew"


def test_reports_of_another_set_or_of_another_day_do_not_add_up() -> None:
    doubts = LogDoubts()
    for _ in range(REPORTS_MIN - 1):
        doubts.proven("a", AHEAD, 0)
    assert not doubts.proven("b", AHEAD, 0)
    assert not doubts.proven("a", AHEAD, REPORTS_WITHIN_MS + 1)


def test_one_proof_of_a_set_at_a_time_and_again_when_the_log_did_not_answer() -> None:
    doubts = LogDoubts()
    assert doubts.begins("a", 100) and not doubts.begins("a", 200) and doubts.begins("b", 200)
    assert not doubts.begins("a", 99 + ASK_AGAIN_MS) and doubts.begins("a", 100 + ASK_AGAIN_MS)
    doubts.proven("a", AHEAD, 200 + ASK_AGAIN_MS)
    assert doubts.begins("a", 200 + ASK_AGAIN_MS)


def test_what_is_beyond_belief_is_told_once() -> None:
    doubts = LogDoubts()
    assert [doubts.is_news("a"), doubts.is_news("a"), doubts.is_news("b")] == [True, False, True]


def test_the_words_say_who_knows_more_and_what_to_do() -> None:
    text = behind_brokers("a", AHEAD, 70)
    assert (
        (f"{COMMANDS_TOPIC} ends at offset 70 with master epoch 5 of a") in text
        and "b2:1" in text
        and "regent controller rebuild" in text
    )
    assert "is not followed" in beyond_belief("a", AHEAD)
