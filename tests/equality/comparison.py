"""One question, many answerers, one answer: who said what, how long it took, and whether all said
the same.

Responsible for asking, for the verdict and for its table. Refuses to know the questions, and how
anybody is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.cli.status import table
from infra.problems import Problem
from lakehouse.errors import LakehouseError
from tests.support.lake_questions import Question, Rows

Answerer = Callable[[Question], Rows | None]
SHOWN_CHARS_MAX = 300
UNASKED = "-"


@dataclass(frozen=True, slots=True)
class Given:
    """One answer. `failed`: why there is none."""

    rows: Rows
    seconds: float
    failed: str | None = None


@dataclass(slots=True)
class Compared:
    """One question with the answers by answerer, in the order in which they were asked."""

    question: str
    answers: dict[str, Given] = field(default_factory=dict)

    @property
    def different(self) -> list[str]:
        """Those who did not say what the first one said, and those who could not answer."""
        first = next(iter(self.answers.values()))
        return [who for who, one in self.answers.items() if one.failed or one.rows != first.rows]

    @property
    def is_equal(self) -> bool:
        """Whether at least two answered, and all the same; of no rows nothing is shown."""
        return len(self.answers) > 1 and not self.different and bool(self.rows)

    @property
    def rows(self) -> int:
        return max((len(one.rows) for one in self.answers.values()), default=0)

    def why(self) -> list[str]:
        """In words what is not equal."""
        if not self.answers:
            return [f"{self.question}: nobody was asked"]
        (first, theirs), *_ = self.answers.items()
        told = [
            (f"{self.question}: {who} {_difference(first, theirs, self.answers[who])}")
            for who in self.different
        ]
        return told or (
            []
            if self.is_equal
            else [
                f"{self.question}: " + ("no rows" if not self.rows else (f"only {first} was asked"))
            ]
        )


def _difference(first: str, theirs: Given, given: Given) -> str:
    if given.failed:
        return f"could not answer: {given.failed}"
    at = next(
        (
            at
            for at, pair in enumerate(zip(theirs.rows, given.rows, strict=False))
            if pair[0] != pair[1]
        ),
        None,
    )
    if at is None:
        return f"has {len(given.rows)} rows, {first} {len(theirs.rows)}"
    return (
        f"says in row {at} {str(given.rows[at])[:SHOWN_CHARS_MAX]}, {first} "
        f"{str(theirs.rows[at])[:SHOWN_CHARS_MAX]}"
    )


class Comparison:
    """All questions. Whoever is asked first is what the others are held against."""

    def __init__(
        self, questions: Sequence[Question], say: Callable[[str], None] = lambda text: None
    ) -> None:
        self._questions, self._say = questions, say
        self._who: list[str] = []
        self.compared = [Compared(one.name) for one in questions]

    def ask(self, who: str, answerer: Answerer) -> None:
        """Put every question to one more; it gives None for what it does not hold."""
        self._who.append(who)
        began = time.monotonic()
        for question, compared in zip(self._questions, self.compared, strict=True):
            given = _given(question, answerer)
            if given is not None:
                compared.answers[who] = given
        count = sum(who in one.answers for one in self.compared)
        self._say(f"{who}: {count} questions answered in {time.monotonic() - began:.1f} s")

    @property
    def is_equal(self) -> bool:
        return bool(self.compared) and all(one.is_equal for one in self.compared)

    def why(self) -> list[str]:
        """What is not equal; empty when all is."""
        return [text for one in self.compared for text in one.why()]

    def lines(self) -> list[str]:
        """Question, rows, seconds of each answerer, equal or not; then what is not."""
        head = ("question", "rows", *(f"{who} (s)" for who in self._who), "equal")
        body = [
            (
                one.question,
                str(one.rows),
                *(_seconds(one.answers.get(who)) for who in self._who),
                "yes" if one.is_equal else "NO",
            )
            for one in self.compared
        ]
        return [*table([head, *body]), *self.why()]

    def document(self) -> list[dict[str, Any]]:
        return [
            {
                "question": one.question,
                "rows": one.rows,
                "equal": one.is_equal,
                "different": one.different if one.answers else [],
                "seconds": {who: round(given.seconds, 3) for who, given in one.answers.items()},
            }
            for one in self.compared
        ]


def _given(question: Question, answerer: Answerer) -> Given | None:
    began = time.monotonic()
    try:
        rows = answerer(question)
    except (LakehouseError, Problem, RuntimeError) as error:
        return Given(
            [], time.monotonic() - began, (f"{type(error).__name__}: {error}")[:SHOWN_CHARS_MAX]
        )
    return None if rows is None else Given(rows, time.monotonic() - began)


def _seconds(given: Given | None) -> str:
    return UNASKED if given is None else f"{given.seconds:.2f}"
