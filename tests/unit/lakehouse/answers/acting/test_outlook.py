"""Who would act if the master of a set without controllers died, and what is known of that."""

from __future__ import annotations

from lakehouse.answers.acting.outlook import outlook, outlook_text
from lakehouse.answers.acting.sets import KnownSet
from lakehouse.gold.acting_periods import acting_period_rows
from tests.support.acting_history import SET, one_period


def test_the_smallest_that_lives_follows_one_after_the_other() -> None:
    model = outlook(SET, KnownSet(1, 2, {0, 1, 2, 5}, (0, 2, 5), 2), [])
    assert model["succession"] == [{"died": [0], "acts": 2}, {"died": [0, 2], "acts": 5}]
    assert model["master"] == 0 and model["acting"] is None
    assert "if broker 0 and broker 2 died: broker 5 would act" in outlook_text(model)


def test_without_name_servers_that_report_it_is_who_ever_did() -> None:
    assert outlook(SET, KnownSet(1, 2, {0, 1}), [])["members"] == [0, 1]


def test_a_master_without_slaves_has_nobody_to_act_for_it() -> None:
    model = outlook(SET, KnownSet(1, 2, {0}), [])
    assert "nobody would act, there is no slave" in outlook_text(model)


def test_what_was_before_is_told_with_its_median_and_its_longest() -> None:
    rows = acting_period_rows(one_period().events())
    longer = {**rows[0], "since_ms": rows[0]["since_ms"] + 5_000}
    model = outlook(SET, KnownSet(1, 2, {0, 1}), [*rows, longer])
    assert model["before"]["acted_after_ms"] == {"n": 2, "median_ms": 400, "longest_ms": 5_400}
    assert model["before"]["messages"] == 12
    text = outlook_text(model)
    assert "slaves acted 2 times, 12 messages left" in text
    assert "from the master's end until a slave acted: median 400 ms, longest 5400 ms" in text


def test_what_it_cannot_know_is_part_of_the_answer() -> None:
    model = outlook(SET, KnownSet(1, 2, {0, 1}), [])
    assert all(f"* {limit}" in outlook_text(model) for limit in model["limits"])
