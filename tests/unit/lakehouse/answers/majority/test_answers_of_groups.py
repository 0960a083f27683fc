"""Every question about a group that replicates by majority is answered, from tables in which no
controller ever decided anything.
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
    failovers,
    forecast_answer,
    timeline,
    timeline_svg,
    what_if_answer,
)
from lakehouse.answers.majority import outlook, terms
from lakehouse.answers.majority.groups import group_names, is_group, known_group, told_of_group
from lakehouse.answers.what_if_rules import Timers
from lakehouse.errors import NotLanded
from lakehouse.gold.now import gold_now
from lakehouse.gold.reader import gold_standing
from lakehouse.gold.specs import AVAILABILITY, FAILOVERS, MAJORITY_TERMS
from lakehouse.invariants.check import check
from lakehouse.tables.lake import Lake
from tests.support.acting_history import SET, one_period
from tests.support.control_history import NAME, with_master
from tests.support.lake_guide import GUIDE
from tests.support.landed_log import command_records, land, outcome_records
from tests.support.made_gold import bring_up, job_of, rows_of
from tests.support.majority_history import GROUP, GroupHistory, at, killed_leader


@pytest.fixture
def landed(lake: Lake) -> Lake:
    land(lake, killed_leader().records())
    return lake


def test_a_change_of_leader_is_explained_as_an_election_is(landed: Lake) -> None:
    model = explain.explain(landed, GROUP)
    json.dumps(model)
    assert model["by_majority"] and [one["term"] for one in model["terms"]] == [1, 2]
    assert model["terms"][1]["clients"] == {
        "took_appends_after_ms": 100,
        "nobody_took_appends_ms": 2_600,
    }
    text = explain_text.explain_text(model)
    for words in (
        f"{GROUP} replicates by majority: no controller elects its leader",
        f"{GROUP}: n0 leads term 1 from 2026-01-01 00:00:03.000, lasted 57.0 s",
        "over:    it told no end; n1, which leads next, heard a leader last then",
        f"{GROUP}: n1 leads term 2 from 2026-01-01 00:01:02.500, lasts",
        "votes:   n1 by n1, n2 (members: n0, n1, n2)",
        "cut:     n0 cuts its log from entry 43 to 40: these entries are not those of n1",
        "n1 takes appends: entry 41 is committed",
        "clients: it took appends 100 ms after its election",
        "nobody took appends for 2600 ms before",
    ):
        assert words in text
    [only] = explain.explain(landed, GROUP, 2)["terms"]
    assert only == model["terms"][1]


def test_the_guide_shows_this_very_answer(landed: Lake) -> None:
    text = explain_text.explain_text(explain.explain(landed, GROUP, 2))
    _, term = text.split("\n\n")
    assert f"```\n{term}\n```" in GUIDE.read_text("utf-8")


def test_a_term_that_nobody_told_of_is_named_with_those_that_are_known(landed: Lake) -> None:
    with pytest.raises(NotLanded, match=f"nobody told of term 9 of {GROUP}; known terms: 1, 2"):
        explain.explain(landed, GROUP, 9)


def test_a_term_without_a_leader_has_its_votes(lake: Lake) -> None:
    past = killed_leader()
    past.at(80).votes("n1", "n1", 3)
    past.at(80).votes("n2", "n2", 3)
    land(lake, past.records())
    text = explain_text.explain_text(explain.explain(lake, GROUP))
    assert f"{GROUP}: term 3 had no leader" in text and "n1 by n1; n2 by n2" in text


def test_what_is_explained_is_the_same_with_gold_tables_and_without(landed: Lake) -> None:
    before = explain.explain(landed, GROUP)
    assert bring_up(job_of(landed)) == 0
    assert len(rows_of(landed)[MAJORITY_TERMS.name]) == 2
    assert explain.explain(landed, GROUP) == before
    assert gold_standing(landed).is_fresh


def test_gold_follows_events_that_land_later(lake: Lake) -> None:
    records = killed_leader().records()
    land(lake, records[:9])  # before n1 is elected
    job = job_of(lake)
    bring_up(job)
    [row] = rows_of(lake)[MAJORITY_TERMS.name]
    assert row["until_ms"] is None
    land(lake, records)
    bring_up(job)
    first, _ = rows_of(lake)[MAJORITY_TERMS.name]
    assert first["until_ms"] == at(60)
    [day] = rows_of(lake)[AVAILABILITY.name]
    assert (day["unavailable_ms"], day["failovers"]) == (2_600, 1)


def test_availability_counts_the_time_without_a_leader(landed: Lake) -> None:
    found = gold_now(landed, [AVAILABILITY], GROUP)
    assert found.text().startswith("up to the newest broker event, of 2026-01-01 00:01:11")
    model = availability.availability_model(found.rows(AVAILABILITY), GROUP)
    assert (model["total"]["observed_ms"], model["total"]["unavailable_ms"]) == (68_000, 2_600)
    assert model["total"]["failovers"] == 1
    assert "96.1764 % available" in availability.availability_text(model)


def test_failovers_tell_changes_of_leader(landed: Lake) -> None:
    found = gold_now(landed, [FAILOVERS, MAJORITY_TERMS], GROUP)
    model = failovers.failovers_model(found.rows(FAILOVERS), GROUP, found.rows(MAJORITY_TERMS))
    assert model["failovers"] == []
    [change] = model["changes_of_leader"]
    assert (change["old_leader"], change["new_leader"], change["unled_ms"]) == ("n0", "n1", 2_600)
    text = failovers.failovers_text(model)
    assert "n0 -> n1" in text and "1 -> 2" in text and "1 changes of leader by majority" in text
    assert failovers.failovers_model([], SET, found.rows(MAJORITY_TERMS))["changes_of_leader"] == []


def timeline_of(lake: Lake) -> dict[str, Any]:
    rows = gold_now(lake, [MAJORITY_TERMS], GROUP).rows(MAJORITY_TERMS)
    return timeline.timeline_model(GROUP, [], [], [], [], at(71.1), terms=rows)


def test_a_timeline_tells_terms_gaps_and_who_led(landed: Lake) -> None:
    model = timeline_of(landed)
    text = timeline.timeline_text(model)
    assert "term 1: n0 leads, lasted 57.0 s: nobody had led before" in text
    assert "term 2: n1 leads, lasts: n0 leads no more" in text
    assert "n0 cuts its log from entry 43 to 40" in text and "no master for 2600 ms" in text
    assert [(one["broker_id"], one["address"]) for one in model["replicas"]] == [
        (1, "n0"), (2, "n1"),
    ]  # fmt: skip
    part = timeline.window(model, at(65), at(70))
    assert [one["term"] for one in part["terms"]] == [2]
    assert "2 terms with a leader" in timeline_svg.timeline_svg(model)


def test_a_forecast_says_who_may_lead_and_what_it_cannot_say(landed: Lake) -> None:
    model = forecast_answer.forecast_of(landed, GROUP)
    json.dumps(model)
    assert (model["leader"], model["may_lead"], model["more_may_die"]) == ("n1", ["n0", "n2"], 1)
    text = forecast_answer.forecast_text(model)
    assert "if n1 died: one of n0, n2 would lead; with more than 1 of 3 members away" in text
    assert "before: 1 changes of leader; without one: median 2600 ms" in text
    assert all(f"* {limit}" in text for limit in outlook.LIMITS)


def test_a_group_without_a_change_and_one_of_a_single_member_say_so(lake: Lake) -> None:
    past = GroupHistory(members=("n0",))
    past.starts()
    past.at(1).elected("n0", 1, ("n0",), 1_000)
    past.at(1.1).crosses("n0", "n0", 1, 0)
    land(lake, past.records())
    text = forecast_answer.forecast_text(forecast_answer.forecast_of(lake, GROUP))
    assert "if a member died: nobody could lead" in text
    assert "no change of leader of this group was told yet" in text


def test_what_if_names_what_it_does_not_speak_of(landed: Lake) -> None:
    model = what_if_answer.what_if(landed, Timers(5_000, True), "recorded")
    assert model["by_majority"] == [GROUP]
    assert f"By majority, and so without a controller's elections: {GROUP}." in (
        what_if_answer.what_if_text(model)
    )


def test_the_check_finds_nothing_and_what_is_broken_is_a_finding_in_words(lake: Lake) -> None:
    past = killed_leader()
    land(lake, past.records())
    assert check(lake).violations == {}
    past.at(90).elected("n2", 2, (), 100)
    land(lake, past.records())
    report = check(lake)
    assert report.violations == {"one_leader_per_term": 1}
    assert "term 2 has leaders n1 (by the word of n1) and n2 (by that of n2)" in report.text()


def test_groups_are_known_and_others_are_none(lake: Lake) -> None:
    led = with_master(1, 2).records
    told = [*killed_leader().records(), *one_period().records(1)]
    land(lake, command_records(led) + outcome_records(led) + told)
    assert group_names(lake) == [GROUP] and is_group(lake, GROUP)
    assert not is_group(lake, NAME) and told_of_group(lake, SET) == []
    assert known_group([]) is None
    known = known_group(told_of_group(lake, GROUP))
    assert known is not None and known.members == ("n0", "n1", "n2")
    assert explain.explain(lake, NAME)["elections"] and explain.explain(lake, SET)["acting_periods"]
    with pytest.raises(NotLanded, match=f"by majority: {GROUP}"):
        explain.explain(lake, "no-such-set")
    with pytest.raises(NotLanded, match="it replicates by majority: 'regent explain"):
        decisions.history(lake, GROUP)
    rows = gold_now(lake, [MAJORITY_TERMS]).rows(MAJORITY_TERMS)
    assert {one["broker_name"] for one in terms.change_models(rows)} == {GROUP}
