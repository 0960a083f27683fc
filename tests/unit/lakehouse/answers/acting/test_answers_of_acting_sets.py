"""Every question about a set without controllers is answered, from tables in which no controller
ever decided anything.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse.answers import (
    availability,
    decisions,
    explain,
    explain_text,
    forecast_answer,
    timeline,
    timeline_svg,
    what_if_answer,
)
from lakehouse.answers.acting.changeovers import changeover_models
from lakehouse.answers.acting.sets import (
    acting_set_names,
    acting_set_of,
    is_acting_set,
    known_set,
    sets_without_controllers,
    told_of,
)
from lakehouse.answers.what_if_rules import Timers
from lakehouse.errors import NotLanded
from lakehouse.gold.now import gold_now
from lakehouse.gold.reader import gold_standing
from lakehouse.gold.specs import ACTING_PERIODS, AVAILABILITY
from lakehouse.proof.witnesses import checked
from lakehouse.tables.lake import Lake
from tests.support.acting_history import (
    OTHER_SET,
    SET,
    ActingHistory,
    address,
    at,
    one_period,
    whole_set,
)
from tests.support.control_history import NAME, with_master
from tests.support.lake_guide import GUIDE
from tests.support.landed_log import command_records, land, outcome_records
from tests.support.made_gold import bring_up, job_of, rows_of


@pytest.fixture
def landed(lake: Lake) -> Lake:
    land(lake, one_period().records())
    return lake


def test_an_acting_period_is_explained_as_an_election_is(landed: Lake) -> None:
    model = explain.explain(landed, SET)
    json.dumps(model)
    assert model["without_controllers"] and model["elections"] == []
    [period] = model["acting_periods"]
    assert (period["broker_id"], period["at_ms"], period["until_ms"]) == (1, at(60.4), at(70.5))
    assert period["clients"] == {"acted_after_ms": 400, "shown_after_ms": 0, "no_writes_ms": 10_000}
    text = explain_text.explain_text(model)
    for words in (
        f"{SET} has no controllers: nobody is elected",
        f"broker 1 ({address(1)}) acted for the master from",
        "lasted 10.1 s",
        "cause:   broker 0 left: its connection closed (name server 127.0.0.1:9876)",
        f"over:    the master is back, at {address(0)}",
        "first messages of kind 'delay level' left for broker-b",
        "waited:  up to 2 messages: no other set has a master that takes the topic",
        "locks:   3 rounds of votes, 1 locks of queues not given",
        "nobody could write for 10.0 s",
    ):
        assert words in text


def test_the_guide_shows_this_very_answer(landed: Lake) -> None:
    text = explain_text.explain_text(explain.explain(landed, SET))
    _, period = text.split("\n\n")
    assert f"```\n{period}\n```" in GUIDE.read_text("utf-8")


def test_what_is_explained_is_the_same_with_gold_tables_and_without(landed: Lake) -> None:
    before = explain.explain(landed, SET)
    assert bring_up(job_of(landed)) == 0
    [row] = rows_of(landed)[ACTING_PERIODS.name]
    assert row["messages"] == 6
    assert explain.explain(landed, SET) == before
    assert gold_standing(landed).is_fresh


def test_gold_follows_events_that_land_later(lake: Lake) -> None:
    past = one_period()
    records = past.records()
    land(lake, records[:16])  # before the master starts again
    job = job_of(lake)
    bring_up(job)
    [row] = rows_of(lake)[ACTING_PERIODS.name]
    assert row["until_ms"] is None
    land(lake, records)
    bring_up(job)
    [row] = rows_of(lake)[ACTING_PERIODS.name]
    assert row["until_ms"] == at(70.5)
    [day] = rows_of(lake)[AVAILABILITY.name]
    assert day["acting_ms"] == 10_100


def test_a_set_in_which_nobody_has_acted_says_so(lake: Lake) -> None:
    land(lake, whole_set().records())
    text = explain_text.explain_text(explain.explain(lake, SET))
    assert "no slave has acted yet" in text
    assert "no slave of this set has acted yet" in forecast_answer.forecast_text(
        forecast_answer.forecast_of(lake, SET)
    )


def test_an_epoch_is_nothing_that_such_a_set_has(landed: Lake) -> None:
    with pytest.raises(NotLanded, match="no election of acting-set began epoch 3"):
        explain.explain(landed, SET, 3)


def test_availability_counts_the_time_without_writes_and_tells_who_could_read(landed: Lake) -> None:
    found = gold_now(landed, [AVAILABILITY], SET)
    assert found.text().startswith("up to the newest broker event, of 2026-01-01 00:01:20")
    model = availability.availability_model(found.rows(AVAILABILITY), SET)
    total = model["total"]
    assert (total["observed_ms"], total["unavailable_ms"]) == (80_000, 10_000)
    assert (total["masterless_ms"], total["acting_ms"], total["failovers"]) == (10_000, 10_100, 0)
    text = availability.availability_text(model)
    assert "87.5 % available" in text and availability.ACTING_HEAD in text
    assert "nobody could write, which is counted as unavailable" in text


def timeline_of(lake: Lake) -> dict[str, Any]:
    periods = gold_now(lake, [ACTING_PERIODS], SET).rows(ACTING_PERIODS)
    told = told_of(lake, SET)
    over_time = acting_set_of(lake, told, periods, 0)
    assert over_time is not None
    acting = timeline.Acting(periods, over_time, changeover_models(told))
    return timeline.timeline_model(SET, [], [], [], [], over_time.until_ms, acting)


def test_a_timeline_shows_who_led_who_acted_and_when_nobody_could_write(landed: Lake) -> None:
    model = timeline_of(landed)
    assert (model["from_ms"], model["to_ms"]) == (at(0), at(80))
    lanes = {
        lane["broker_id"]: [(s["role"], s["from_ms"], s["to_ms"]) for s in lane["stretches"]]
        for lane in model["replicas"]
    }
    assert lanes == {
        0: [("master", at(0), at(60)), ("master", at(70), at(80))],
        1: [("acting for the master", at(60.4), at(70.5))],
    }
    assert [(one["from_ms"], one["to_ms"], one["kind"]) for one in model["gaps"]] == [
        (at(60), at(70), timeline.NO_MASTER)
    ]
    text = timeline.timeline_text(model)
    assert "broker 1 acts for the master for 10.1 s: broker 0 left" in text
    assert "6 messages left" in text and "no master for 10.0 s" in text
    assert "acting for the master" in timeline_svg.timeline_svg(model)


def test_a_part_of_a_timeline_holds_the_part_of_a_period(landed: Lake) -> None:
    part = timeline.window(timeline_of(landed), at(65), at(75))
    [acting] = part["acting"]
    assert (acting["from_ms"], acting["to_ms"]) == (at(65), at(70.5))
    assert timeline.window(timeline_of(landed), at(0), at(10))["acting"] == []


def moved_set() -> ActingHistory:
    """Adopted after a minute, and released after two."""
    past = whole_set()
    leader = address(0)
    past.at(60).placed(1, "controllers", leader)
    past.at(60.3).placed(2, "controllers", leader)
    past.at(119.8).placed(2, "fixed", leader, "c2")
    past.at(120).placed(0, "fixed", leader, "c2")
    past.at(121).online(0)
    past.at(130).members(0, 2)
    return past


def test_an_adoption_and_a_release_are_explained(lake: Lake) -> None:
    land(lake, moved_set().records())
    model = explain.explain(lake, SET)
    json.dumps(model)
    adopted, released = model["changeovers"]
    assert (adopted["what"], adopted["at_ms"], adopted["epoch"]) == ("adopted", at(60), 1)
    assert [(one["broker_id"], one["after_ms"]) for one in adopted["replicas"]] == [
        (1, 0),
        (2, 300),
    ]
    assert (released["what"], released["at_ms"], released["epoch"]) == ("released", at(120), None)
    text = explain_text.explain_text(model)
    leader = address(0)
    for words in (
        f"00:01:00.000: adopted by controllers: {leader} gave up as master with a fixed id",
        f"ids:     1 ({leader}), 2 ({address(2)}); the last one began anew 300 ms later",
        "copies:  2 replicas hold what is acknowledged",
        "epochs:  1 labels every byte of before",
        f"00:02:00.000: released by controllers: {leader} leads with broker_id 0",
    ):
        assert words in text


def test_a_timeline_shows_adoption_and_release_and_a_master_before_and_after(lake: Lake) -> None:
    land(lake, moved_set().records())
    model = timeline_of(lake)
    [lane] = model["replicas"]
    assert [(s["role"], s["from_ms"], s["to_ms"]) for s in lane["stretches"]] == [
        ("master", at(0), at(60)),
        ("master", at(120), at(130)),
    ]
    assert model["gaps"] == []
    text = timeline.timeline_text(model)
    assert "adopted" in text and "released" in text
    assert timeline.window(model, at(100), at(125))["changeovers"] == model["changeovers"][1:]


def test_a_timeline_shows_a_set_of_which_all_died_without_a_master(lake: Lake) -> None:
    past = whole_set()
    past.at(60).members(left={0: "its connection closed"})
    past.at(80).starts(0)
    past.at(81).online(0)
    land(lake, past.records())
    model = timeline_of(lake)
    assert [(one["from_ms"], one["to_ms"], one["kind"]) for one in model["gaps"]] == [
        (at(60), at(81), timeline.NO_MASTER)
    ]


def test_a_forecast_says_who_would_act_and_that_nobody_is_elected(landed: Lake) -> None:
    model = forecast_answer.forecast_of(landed, SET)
    json.dumps(model)
    assert model["succession"] == [{"died": [0], "acts": 1}, {"died": [0, 1], "acts": 2}]
    assert model["before"]["acted_after_ms"] == {"n": 1, "median_ms": 400, "longest_ms": 400}
    text = forecast_answer.forecast_text(model)
    assert "nobody is elected" in text
    assert "if broker 0 died: broker 1 would act; clients read from it, nobody writes" in text
    assert "without anybody to write to: median 10.0 s" in text


def test_a_forecast_knows_that_a_slave_acts_now(lake: Lake) -> None:
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    land(lake, past.records())
    model = forecast_answer.forecast_of(lake, SET)
    assert model["acting"] == {"broker_id": 1, "since_ms": at(60.4)} and model["master"] is None
    assert "broker 1 acts for the master since" in forecast_answer.forecast_text(model)


def test_a_forecast_of_a_set_that_controllers_released_is_that_of_one_without(lake: Lake) -> None:
    past = with_master(1, 2)
    past.clean(None, living=True)
    released = ActingHistory(NAME)
    released.at(60).online(0)
    released.members(0, 1)
    land(lake, command_records(past.records) + outcome_records(past.records) + released.records())
    model = forecast_answer.forecast_of(lake, NAME)
    assert model["succession"] == [{"died": [0], "acts": 1}]


def test_what_if_says_which_sets_have_no_elections(landed: Lake) -> None:
    model = what_if_answer.what_if(landed, Timers(5_000, True), "recorded")
    assert model["without_controllers"] == [SET] and model["incidents"] == []
    assert f"Without controllers, and so without elections: {SET}." in (
        what_if_answer.what_if_text(model)
    )


def test_what_if_names_no_set_that_controllers_have_adopted(lake: Lake) -> None:
    past = moved_set()
    land(lake, past.records())

    def without(until_s: float) -> list[str]:
        model = what_if_answer.what_if(lake, Timers(5_000, True), "recorded", 0, at(until_s))
        return list(model["without_controllers"])

    assert [without(50), without(100), without(125)] == [[SET], [], [SET]]
    adopted = ActingHistory("adopted")
    adopted.at(0).online(0)
    adopted.at(60).placed(1, "controllers", address(0))
    land(lake, adopted.records(1))
    assert sets_without_controllers(lake) == [SET]
    with pytest.raises(NotLanded, match=f"no decision about .*adopted.*controllers: {SET}$"):
        decisions.history(lake, "adopted")


def test_a_history_of_decisions_says_where_to_ask_instead(landed: Lake) -> None:
    with pytest.raises(NotLanded, match=f"nobody decides about {SET}.*regent explain {SET}"):
        decisions.history(landed, SET)
    with pytest.raises(NotLanded, match=f"known sets: none; without controllers: {SET}"):
        decisions.history(landed, "another")


def test_the_check_of_such_a_lake_is_well(landed: Lake) -> None:
    assert checked(landed, from_start=False).exit_code == 0


def test_sets_with_and_without_controllers_stand_beside_each_other(lake: Lake) -> None:
    led = with_master(1, 2).records
    land(lake, command_records(led) + outcome_records(led) + one_period().records())
    assert acting_set_names(lake) == [SET]
    assert not is_acting_set(lake, NAME) and known_set(lake, OTHER_SET) is None
    of_led = explain.explain(lake, NAME)
    assert of_led["elections"] and of_led["acting_periods"] == []
    assert not of_led["without_controllers"]
    assert len(explain.explain(lake, SET)["acting_periods"]) == 1
    assert len(rows_after_gold(lake)) == 1
    assert what_if_answer.what_if(lake, Timers(5_000, True), "recorded")["without_controllers"]
    forecast = forecast_answer.forecast_of(lake, NAME)
    assert "without_controllers" not in forecast


def rows_after_gold(lake: Lake) -> list[object]:
    bring_up(job_of(lake))
    return list(rows_of(lake)[ACTING_PERIODS.name])
