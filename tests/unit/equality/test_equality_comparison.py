"""Whether all said the same: one row that differs, one that is missing, one who cannot answer, and
nothing to compare.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from infra.problems import Problem
from lakehouse.errors import LakehouseError
from tests.equality import comparison
from tests.equality.comparison import Comparison
from tests.support.lake_questions import Question, Rows

QUESTIONS = [Question("sets", "SELECT 1"), Question("leader", "SELECT 2")]
ROWS: dict[str, Rows] = {"sets": [("a", 1), ("b", 2)], "leader": [(3, "c1")]}


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer takes any time."""
    monkeypatch.setattr(comparison, "time", SimpleNamespace(monotonic=lambda: 0.0))


def right(question: Question) -> Rows:
    return list(ROWS[question.name])


def compared(*others: Callable[[Question], Rows | None]) -> Comparison:
    said: list[str] = []
    found = Comparison(QUESTIONS, said.append)
    found.ask("fold", right)
    for number, one in enumerate(others):
        found.ask(f"other {number}", one)
    assert [text.split(":")[0] for text in said] == [
        "fold",
        *(f"other {number}" for number in range(len(others))),
    ]
    return found


def test_the_same_rows_of_all_who_hold_them_are_equal() -> None:
    found = compared(right, lambda question: right(question) if question.name == "leader" else None)
    assert found.is_equal and not found.why()
    head, sets, leader = found.lines()
    assert head.split("  ")[0] == "question" and head.endswith("equal")
    assert sets.split() == ["sets", "2", "0.00", "0.00", "-", "yes"] and leader.split() == [
        "leader",
        "1",
        "0.00",
        "0.00",
        "0.00",
        "yes",
    ]
    assert found.document()[0]["seconds"].keys() == {"fold", "other 0"} and found.document()[1][
        "seconds"
    ].keys() == {"fold", "other 0", "other 1"}


def test_one_row_that_differs_or_lacks_is_named() -> None:
    found = compared(
        right, lambda question: [("a", 1), ("b", 9)] if question.name == "sets" else right(question)
    )
    assert not found.is_equal and found.why() == [
        "sets: other 1 says in row 1 ('b', 9), fold ('b', 2)"
    ]
    assert [one["equal"] for one in found.document()] == [False, True] and found.document()[0][
        "different"
    ] == ["other 1"]
    assert found.lines()[1].endswith("NO") and found.lines()[2].endswith("yes")
    assert compared(lambda question: right(question)[:1]).why() == [
        "sets: other 0 has 1 rows, fold 2"
    ]


def test_who_cannot_answer_is_not_equal() -> None:
    for error in (
        LakehouseError("hole"),
        Problem("nobody answers", "Start it."),
        RuntimeError("exit code 1"),
    ):

        def fails(question: Question, error: Exception = error) -> Rows:
            raise error

        why = compared(fails).why()
        assert len(why) == 2 and "could not answer" in why[0] and str(error).split(".")[0] in why[0]


def test_nothing_is_shown_by_no_rows_and_by_one_answer_alone() -> None:
    assert compared().why() == ["sets: only fold was asked", "leader: only fold was asked"]
    found = Comparison(QUESTIONS[:1])
    assert (
        not found.is_equal
        and found.why() == ["sets: nobody was asked"]
        and found.document()[0]["different"] == []
    )
    found.ask("one", lambda question: [])
    found.ask("two", lambda question: [])
    assert not found.is_equal and found.why() == ["sets: no rows"]
    assert not Comparison([]).is_equal
