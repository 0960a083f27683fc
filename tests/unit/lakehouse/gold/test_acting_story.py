"""Why an acting period began and ended, by what others say."""

from __future__ import annotations

from lakehouse.gold.acting_periods import by_set
from lakehouse.gold.acting_story import BEFORE_MS, Told, departure, end_by_signs
from tests.support.acting_history import LOST, SET, ActingHistory, at, whole_set
from tests.support.control_history import CLUSTER_ID


def told(past: ActingHistory) -> list[Told]:
    return by_set(past.events()[CLUSTER_ID])[SET]


def test_of_several_name_servers_the_first_ones_word_counts() -> None:
    past = whole_set()
    past.at(60).members(1, 2, left={0: LOST}, server="ns2:1")
    past.at(60.1).members(1, 2, left={0: "it was silent"})
    left = departure(1, at(61), told(past))
    assert left is not None
    assert (left.at_ms, left.broker_id, left.why) == (
        at(60),
        0,
        f"left: {LOST} (name server ns2:1)",
    )


def test_a_departure_of_long_ago_or_of_a_larger_id_is_no_reason() -> None:
    past = whole_set()
    past.at(60).members(1, 2, left={0: LOST})
    past.at(61).members(1, left={2: LOST})
    assert departure(1, at(60) + BEFORE_MS + 1, told(past)) is None
    assert departure(1, at(61), told(past)) is not None
    past = whole_set()
    past.at(61).members(0, 1, left={2: LOST})
    assert departure(1, at(61), told(past)) is None


def test_of_two_that_left_the_later_one_is_why_the_slave_is_the_smallest() -> None:
    past = whole_set()
    past.at(60).members(1, 2, left={0: LOST})
    past.at(70).members(2, left={1: LOST})
    left = departure(2, at(70.3), told(past))
    assert left is not None and (left.at_ms, left.broker_id) == (at(70), 1)


def test_what_the_acting_start_itself_says_is_no_sign_of_its_end() -> None:
    past = whole_set()
    past.at(60).began(1)
    past.at(61).began(1)
    began = next(one.row for one in told(past) if one.kind == "acting_began")
    assert end_by_signs(1, began, at(61), told(past)) is None
