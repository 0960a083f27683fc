"""Who comes back with less than it acknowledged (design S15)."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from brokers.replica.effects import FindRecord, ReportEvent
from brokers.replica.loss_watch import REPLICAS_MAX, WHY_ACKNOWLEDGED, WHY_CONFIRMED, LossWatch


def test_a_member_below_the_confirm_offset_lost_data() -> None:
    watch = LossWatch()
    assert watch.claims(2, 40, confirmed=100, log_min=0) == [FindRecord(2, 40, 100)]
    assert 2 in watch.in_doubt
    fields = {
        "lost_broker_id": 2,
        "claimed_epoch": 3,
        "claimed_offset": 40,
        "acknowledged_offset": 100,
        "why": WHY_CONFIRMED,
    }
    assert watch.settled(2, 40, True, epoch=3) == [ReportEvent("LossNoticed", fields)]
    assert not watch.in_doubt


def test_whoever_acknowledged_more_in_this_mastership_lost_data_member_or_not() -> None:
    watch = LossWatch()
    watch.link_ended(2, 100)
    watch.link_ended(2, 80)  # what one link said is not undone by another one
    assert watch.claims(2, 90, confirmed=60, log_min=0) == [FindRecord(2, 90, 100)]
    (told,) = watch.settled(2, 90, True, epoch=3)
    assert (told.fields["acknowledged_offset"], told.fields["why"]) == (100, WHY_ACKNOWLEDGED)


def test_the_first_bytes_of_a_record_are_no_loss() -> None:
    """A slave that starts anew cuts a record of which it had only the first bytes."""
    watch = LossWatch()
    watch.link_ended(2, 105)
    assert watch.claims(2, 100, confirmed=0, log_min=0)
    assert watch.settled(2, 100, False, epoch=3) == []
    assert not watch.in_doubt


def test_who_has_as_much_as_before_or_was_never_heard_is_in_no_doubt() -> None:
    watch = LossWatch()
    watch.link_ended(2, 100)
    watch.link_ended(3, None)
    assert (
        watch.claims(2, 100, confirmed=100, log_min=0)
        == watch.claims(3, 0, confirmed=0, log_min=0)
        == []
    )


def test_who_fell_behind_the_first_file_and_began_anew_has_lost_nothing() -> None:
    watch = LossWatch()
    watch.link_ended(3, 100)
    assert watch.claims(3, 0, confirmed=0, log_min=100) == []
    assert watch.claims(3, 0, confirmed=0, log_min=99) == [FindRecord(3, 0, 100)]


def test_a_loss_is_told_once_and_the_next_one_again() -> None:
    watch = LossWatch()
    watch.link_ended(2, 100)
    watch.claims(2, 10, confirmed=0, log_min=0)
    assert watch.settled(2, 10, True, epoch=1)
    assert watch.claims(2, 10, confirmed=0, log_min=0) == []  # its copy has not begun yet
    watch.link_ended(2, 70)
    assert watch.claims(2, 20, confirmed=0, log_min=0) == [FindRecord(2, 20, 70)]


def test_an_answer_to_no_question_says_nothing() -> None:
    assert LossWatch().settled(2, 10, True, epoch=1) == []


def test_ids_that_nobody_can_check_are_not_remembered_without_end() -> None:
    watch = LossWatch()
    for broker_id in range(REPLICAS_MAX + 10):
        watch.link_ended(broker_id, 5)
    assert watch.claims(REPLICAS_MAX - 1, 0, confirmed=0, log_min=0) and not watch.claims(
        REPLICAS_MAX + 1, 0, confirmed=0, log_min=0
    )
    watch.link_ended(0, 9)
    assert watch.claims(0, 5, confirmed=0, log_min=0) == [FindRecord(0, 5, 9)]


sizes = st.lists(st.integers(1, 30), min_size=1, max_size=12)


@given(sizes, st.data())
def test_it_is_a_loss_exactly_when_a_whole_record_is_gone(
    records: list[int], data: st.DataObject
) -> None:
    """Whatever it acknowledged, in the middle of a record or not, on however many links."""
    borders = [0, *accumulate(records)]
    watch, had = LossWatch(), 0
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.sampled_from(borders), "where its log ends at a start: at a record")
        confirmed = data.draw(
            st.sampled_from([0, *(one for one in borders if one <= had)]), "0: it is no member"
        )
        lost = borders[bisect_right(borders, had) - 1] > start
        told = []
        for question in watch.claims(2, start, confirmed, log_min=0):
            told = watch.settled(
                2, start, any(start < one <= question.below for one in borders), epoch=1
            )
        assert bool(told) == lost
        had = start if lost else max(had, start)
        acked = data.draw(st.integers(start, borders[-1]), "what it acknowledges on this link")
        watch.link_ended(2, acked)
        had = max(had, acked)
