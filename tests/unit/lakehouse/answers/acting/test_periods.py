"""An acting period as a person reads it, and as a stretch of time."""

from __future__ import annotations

from typing import Any

from lakehouse.answers.acting.periods import no_writes_ms, period_model, period_text, span_of
from lakehouse.gold.acting_periods import acting_period_rows
from tests.support.acting_history import SET, ActingHistory, at, whole_set


def rows(past: ActingHistory) -> list[dict[str, Any]]:
    return acting_period_rows(past.events())


def test_a_period_that_lasts_and_in_which_nothing_was_due_says_so() -> None:
    past = whole_set()
    past.at(60).master_lost(0, 1, 2)
    past.at(60.4).began(1)
    [row] = rows(past)
    model = period_model(row)
    assert model["clients"]["no_writes_ms"] is None
    text = period_text(SET, model)
    for words in (
        ", lasts",
        "over:    not yet",
        "left:    nothing was due that had to leave the set",
        "nobody can write yet, as far as was told",
        "readers had somebody after 400 ms",
    ):
        assert words in text
    assert "locks:" not in text and "fenced:" not in text


def test_a_master_that_fenced_itself_and_whom_it_went_without_are_told() -> None:
    past = whole_set()
    past.at(60).began(1)
    past.at(61).expelled()
    past.at(62).online(0, left_out=(2,))
    past.at(63).over(1)
    [row] = rows(past)
    text = period_text(SET, period_model(row))
    assert "fenced:  the master lived" in text
    assert "without: broker 2, whose tables the master could not get" in text
    assert no_writes_ms(row) == 2_000, "without a word on when it left, from the acting on"


def test_a_departure_that_a_clock_puts_behind_the_acting_makes_no_shorter_outage() -> None:
    past = whole_set()
    past.at(60).began(1)
    past.at(60.5).master_lost(0, 1, 2)
    past.at(70).online(0)
    [row] = rows(past)
    assert row["master_left_ms"] == at(60.5)
    assert no_writes_ms(row) == 10_000, "from the acting on, as availability counts it"


def test_a_stretch_that_lasts_reaches_up_to_where_history_does() -> None:
    past = whole_set()
    past.at(60).began(1)
    [row] = rows(past)
    span = span_of(row, at(120))
    assert (span["from_ms"], span["to_ms"], span["why_over"]) == (at(60), at(120), None)
