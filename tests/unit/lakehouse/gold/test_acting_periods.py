"""When a slave acted for its master, why, until when, and what left the set meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.gold.acting_periods import (
    CLOCK_JUMP_MS,
    acting_period_rows,
    acting_sets,
    told_until_ms,
)
from lakehouse.gold.columns import ACTING_COLUMNS
from lakehouse.gold.specs import ACTING_PERIODS
from tests.support.acting_history import (
    LOST,
    OTHER_SET,
    SET,
    ActingHistory,
    address,
    at,
    one_period,
    whole_set,
)
from tests.support.control_history import CLUSTER_ID
from tests.unit.lakehouse.gold.gold_cases import require_sound

Row = dict[str, Any]


def periods(past: ActingHistory) -> list[Row]:
    rows = acting_period_rows(past.events())
    require_sound(ACTING_PERIODS, rows)
    return rows


def test_a_period_reaches_from_the_slaves_word_to_its_word() -> None:
    [row] = periods(one_period())
    assert (row["broker_name"], row["broker_id"], row["address"]) == (SET, 1, address(1))
    assert (row["since_ms"], row["until_ms"]) == (at(60.4), at(70.5))
    assert row["why_begun"] == f"broker 0 left: {LOST} (name server 127.0.0.1:9876)"
    assert row["why_over"] == f"the master is back, at {address(0)}"
    assert (row["master_left_ms"], row["master_back_ms"]) == (at(60), at(70))


def test_what_left_the_set_is_told_by_kind_and_by_set_with_what_came_last() -> None:
    [row] = periods(one_period())
    assert [
        (one["kind"], one["to_broker_name"], one["messages"], one["soft"], one["failed"])
        for one in row["escaped"]
    ] == [("delay level", OTHER_SET, 5, 1, 0), ("timer", OTHER_SET, 1, 0, 2)]
    assert (row["messages"], row["soft"], row["failed"], row["size_bytes"]) == (6, 1, 2, 60)
    level = row["escaped"][0]
    assert (level["first_ms"], level["last_ms"]) == (at(60.5), at(70.6))


def test_every_column_has_its_value() -> None:
    [row] = periods(one_period())
    assert [one.name for one in ACTING_COLUMNS if row[one.name] is None] == []


def test_what_waited_and_what_was_locked_is_told() -> None:
    [row] = periods(one_period())
    [waited] = row["waits"]
    assert waited["reason"] == "no other set has a master that takes the topic"
    assert waited["waiting"] == 2
    assert (row["lock_rounds"], row["queues_lost"]) == (3, 1)


def test_its_steps_stand_in_one_order() -> None:
    [row] = periods(one_period())
    assert [(one["phase"], one["at_ms"] - at(60), one["took_ms"]) for one in row["phases"]] == [
        (f"broker 0 left: {LOST} (name server 127.0.0.1:9876)", 0, 0),
        ("name server 127.0.0.1:9876 shows it in the master's place", 0, 0),
        ("broker 1 acts", 400, 400),
        (f"first messages of kind 'delay level' left for {OTHER_SET}", 1500, 1100),
        (f"first messages of kind 'timer' left for {OTHER_SET}", 2000, 500),
        ("messages wait: no other set has a master that takes the topic", 3000, 1000),
        ("the master's process started", 8000, 5000),
        ("the master took over what was done meanwhile, and is online", 10_000, 2000),
        ("name server 127.0.0.1:9876 shows it no more: a master registered", 10_100, 100),
        (f"over: the master is back, at {address(0)}", 10_500, 400),
    ]
    [route] = row["routes"]
    assert (route["from_ms"], route["to_ms"]) == (at(60), at(70.1))


def test_a_period_that_lasts_has_no_end() -> None:
    past = whole_set()
    past.at(60).began(1)
    past.at(61).batch(1, 3)
    [row] = periods(past)
    assert (row["until_ms"], row["why_over"], row["master_back_ms"]) == (None, None, None)
    assert row["messages"] == 3


def test_without_a_word_of_anybody_it_says_what_the_slave_knew() -> None:
    past = whole_set()
    past.at(60).began(1)
    [row] = periods(past)
    assert row["why_begun"] == "no name server names a broker with a smaller id"
    assert row["master_left_ms"] is None


def test_a_master_that_was_stopped_says_so_itself_whoever_else_sees_it() -> None:
    past = whole_set()
    past.at(59.9).stops(0)
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    [row] = periods(past)
    assert row["why_begun"] == "broker 0 was stopped (asked to)"
    assert row["master_left_ms"] == at(59.9)


def test_a_departure_that_was_over_is_not_why() -> None:
    past = whole_set()
    past.at(30).stops(0)
    past.at(35).starts(0)
    past.at(36).online(0)
    past.at(60).began(1)
    [row] = periods(past)
    assert row["why_begun"] == "no name server names a broker with a smaller id"


def test_a_master_that_starts_anew_at_once_and_is_not_online_yet_is_why() -> None:
    """As under a supervisor: its next process is there before the slave acts."""
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.6).starts(0)
    past.at(61).began(1)
    past.at(63).online(0)
    past.at(63.4).over(1)
    [row] = periods(past)
    assert row["why_begun"] == f"broker 0 left: {LOST} (name server 127.0.0.1:9876)"
    assert (row["master_left_ms"], row["master_back_ms"]) == (at(60), at(63))


def test_a_broker_that_never_tells_a_way_back_is_there_when_it_starts() -> None:
    past = ActingHistory()
    for broker_id in (0, 1, 2):
        past.starts(broker_id)
    past.at(30).stops(0)
    past.at(35).starts(0)
    past.at(60).began(1)
    [row] = periods(past)
    assert row["master_left_ms"] is None


def test_a_master_that_lived_and_fenced_itself_is_told() -> None:
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    past.at(65).expelled()
    past.at(66).without(2)
    past.at(67).online(0, left_out=(2,))
    past.at(67.5).over(1)
    [row] = periods(past)
    assert row["master_fenced"] and row["left_out"] == [2]
    assert row["why_begun"].endswith("; it lived, and found that it had been dropped")
    told = [one["phase"] for one in row["phases"]]
    assert "the master finds that name servers dropped this broker and fences itself" in told
    assert "it does without the tables of 2: no answer" in told


def test_a_second_slave_acts_when_the_first_one_dies_too() -> None:
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    past.at(70).master_lost(1, 2)
    past.at(70.3).began(2)
    past.at(90).online(0)
    past.at(90.5).over(2)
    first, second = periods(past)
    assert (first["broker_id"], first["until_ms"]) == (1, at(70))
    assert first["why_over"] == f"the broker that acted left: {LOST} (name server 127.0.0.1:9876)"
    assert second["why_begun"].startswith("broker 1 left")
    assert (second["broker_id"], second["until_ms"]) == (2, at(90.5))
    assert first["master_back_ms"] == second["master_back_ms"] == at(90)


def test_a_smaller_slave_that_comes_takes_over() -> None:
    past = whole_set()
    past.at(60).began(2)
    past.at(70).over(2, smallest=1)
    past.at(70.1).began(1)
    first, second = periods(past)
    assert first["why_over"] == f"broker 1, a smaller id, is there, at {address(1)}"
    assert second["until_ms"] is None


@pytest.mark.parametrize(
    ("sign", "why"),
    [
        (lambda past: past.starts(1), "the broker that acted started anew; when it ended nobody"),
        (lambda past: past.began(2), "broker 2 acts; the one before told no end"),
        (lambda past: past.online(0), "the master is online again; the one that acted told no"),
        (lambda past: past.members(2, left={1: LOST}), "the broker that acted left: its connec"),
        (lambda past: past.stops(1), "the broker that acted was stopped (asked to)"),
    ],
    ids=["starts anew", "another acts", "master online", "name server", "stopped"],
)
def test_an_end_that_was_not_told_is_its_first_sign(sign: Any, why: str) -> None:
    past = whole_set()
    past.at(60).began(1)
    past.at(65)
    sign(past)
    past.at(70).members(0, 1, 2)
    row = next(one for one in periods(past) if one["broker_id"] == 1)
    assert row["until_ms"] == at(65)
    assert row["why_over"].startswith(why)


def test_a_sign_that_the_acting_broker_outlived_is_none() -> None:
    """One of two name servers lost it for a moment."""
    past = whole_set()
    past.at(60).began(1)
    past.at(61).members(2, left={1: LOST}, server="127.0.0.1:9877")
    past.at(65).batch(1, 3)
    [row] = periods(past)
    assert row["until_ms"] is None


def test_each_start_of_a_broker_has_periods_of_its_own() -> None:
    past = whole_set()
    past.at(60).began(1)
    past.at(61).batch(1, 3)
    past.at(62).starts(1)
    past.at(63).began(1)
    past.at(64).batch(1, 4)
    first, second = periods(past)
    assert (first["messages"], second["messages"]) == (3, 4)
    assert first["until_ms"] == at(62)


def test_order_of_landing_and_repeats_change_nothing() -> None:
    past = one_period()
    rows = periods(past)
    past.told = [*reversed(past.told), *past.told[:5]]
    assert periods(past) == rows


def test_sets_that_controllers_lead_have_none() -> None:
    past = ActingHistory("led")
    past.starts(1)
    past.at(5).stops(1)
    assert periods(past) == []
    assert acting_sets(past.events(), []) == {}
    assert told_until_ms(past.events()) == 0


def test_what_availability_counts_is_the_time_without_a_master() -> None:
    past = one_period()
    found = acting_sets(past.events(), periods(past))[CLUSTER_ID, SET]
    assert (found.since_ms, found.until_ms) == (at(0), at(80))
    assert found.masterless == ((at(60), at(70)),)
    assert found.acting == ((at(60.4), at(70.5)),)


def masterless(past: ActingHistory, name: str = SET) -> list[tuple[float, float]]:
    """In seconds after the beginning."""
    found = acting_sets(past.events(), periods(past))[CLUSTER_ID, name].masterless
    return [((begin - at(0)) / 1000, (end - at(0)) / 1000) for begin, end in found]


def test_stretches_without_a_master_that_touch_are_one() -> None:
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    past.at(70).master_lost(1, 2)
    past.at(70.3).began(2)
    past.at(90).online(0)
    past.at(90.5).over(2)
    past.at(100).began(1)
    past.at(110).stops(1)
    assert masterless(past) == [(60, 90), (100, 110)]


def test_a_later_period_may_tell_of_an_earlier_departure() -> None:
    past = whole_set()
    past.at(2).online(1)
    past.at(50).stops(1)
    past.at(55).starts(1)
    past.at(60).began(1)
    past.at(61).began(2)
    first, second = periods(past)
    assert (first["master_left_ms"], second["master_left_ms"]) == (None, at(50))
    assert masterless(past) == [(50, 61)]


def test_a_set_of_which_all_die_before_anybody_acts_has_no_master() -> None:
    past = whole_set()
    past.at(60).members(1, 2, left={0: LOST})
    past.at(60.1).members(left={1: LOST, 2: LOST})
    past.at(200).starts(1)
    past.at(300).starts(0)
    past.at(301).online(0)
    past.at(310).members(0, 1)
    assert periods(past) == [] and masterless(past) == [(60, 301)]


def test_a_master_that_is_started_anew_is_away_from_its_end_until_it_is_online() -> None:
    past = whole_set()
    past.at(60).stops(0)
    past.at(60.1).members(0, 2, left={1: LOST})
    past.at(60.2).members(2, left={0: "it unregistered"})
    past.at(61).starts(0)
    past.at(63).online(0)
    past.at(70).members(0, 2)
    assert masterless(past) == [(60, 63)], "what a name server had not noticed yet is no return"


def test_of_an_end_that_nobody_told_the_time_from_the_next_start_on_is_certain() -> None:
    """The power of all machines went, that of the name server too."""
    past = whole_set()
    past.at(100).starts(0)
    past.at(104).online(0)
    assert masterless(past) == [(100, 104)]


def test_a_master_that_one_of_two_name_servers_lost_is_there() -> None:
    past = whole_set()
    past.at(2).members(0, 1, 2, server="127.0.0.1:9877")
    past.at(60).members(1, 2, left={0: LOST})
    past.at(61).members(0, 1, 2)
    past.at(70).members(1, 2, left={0: LOST})
    past.at(71).members(1, 2, left={0: LOST}, server="127.0.0.1:9877")
    past.at(80).members(0, 1, 2)
    assert masterless(past) == [(71, 80)], "the last one that listed it counts"


def test_a_master_that_stands_still_is_away_from_its_last_word_on() -> None:
    past = whole_set()
    past.at(60).members(1, 2, left={0: "it was silent"}, silent_ms=12_000)
    past.at(60.4).began(1)
    past.at(70).members(0, 1, 2)
    past.at(70.5).over(1)
    [row] = periods(past)
    assert row["master_left_ms"] == at(48)
    assert (
        row["why_begun"] == "broker 0 left: it was silent for 12.0 s (name server 127.0.0.1:9876)"
    )
    assert masterless(past) == [(48, 70)]


def test_a_closed_connection_ends_it_then_however_long_it_had_not_spoken() -> None:
    past = whole_set()
    past.at(60).members(1, 2, left={0: LOST}, silent_ms=12_000)
    past.at(70).members(0, 1, 2)
    assert masterless(past) == [(60, 70)]


def test_a_set_that_was_adopted_and_released_has_fixed_ids_before_and_after() -> None:
    past = whole_set()
    leader = address(0)
    past.at(59.9).placed(2, "controllers", leader)
    past.at(60).placed(1, "controllers", leader)
    past.at(100).members(left={0: "it registered otherwise"})
    past.at(119).placed(2, "fixed", leader, "c2")
    past.at(120).placed(0, "fixed", leader, "c2")
    past.at(130).stops(0)
    past.at(131).starts(0)
    past.at(150).stops(0)
    found = acting_sets(past.events(), periods(past))[CLUSTER_ID, SET]
    assert found.fixed == ((at(0), at(60)), (at(120), None)), "the word of the master counts"
    assert masterless(past) == [(130, 131), (150, 150)], (
        "what is between is the controllers', and where no slave acts a master is there at once"
    )


def test_a_set_that_controllers_led_first_has_fixed_ids_from_its_release_on() -> None:
    past = ActingHistory("led")
    past.lives[1] = past.lives[2] = 1
    past.at(119).placed(2, "fixed", address(1))
    past.at(120).placed(0, "fixed", address(1))
    past.at(140).starts(2)
    found = acting_sets(past.events(), [])[CLUSTER_ID, "led"]
    assert found.fixed == ((at(120), None),) and found.masterless == ()
    assert acting_sets(past.events(), [], at(900))[CLUSTER_ID, "led"].until_ms == at(900)


def test_nobody_can_write_for_as_long_as_the_master_is_away_whoever_acts() -> None:
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    past.at(70).members(2, left={1: LOST})
    past.at(100).members(left={2: LOST})
    found = acting_sets(past.events(), periods(past))[CLUSTER_ID, SET]
    assert found.masterless == ((at(60), at(100)),)
    assert found.acting == ((at(60.4), at(70)),)


@pytest.mark.parametrize(
    "sign",
    [lambda past: past.online(1), lambda past: past.members(0), lambda past: past.over(2)],
    ids=["a slave found it there", "name server", "the next one that acted"],
)
def test_a_master_that_tells_nothing_is_back_when_others_say_so(sign: Any) -> None:
    past = whole_set()
    past.at(60).began(1)
    past.at(70).stops(1)
    past.at(80)
    sign(past)
    past.at(90).members(0, 1)
    [row] = periods(past)
    assert row["master_back_ms"] == at(80)


def test_a_clock_that_is_wrong_by_years_makes_no_years_of_history() -> None:
    past = one_period()
    with past.clock_of(at(0) + 3 * CLOCK_JUMP_MS):
        past.batch(2, 1)
    with past.clock_of(0):
        past.starts(0)
    found = acting_sets(past.events(), periods(past))[CLUSTER_ID, SET]
    assert (found.since_ms, found.until_ms) == (at(0), at(80))
