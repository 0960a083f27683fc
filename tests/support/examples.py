"""How many cases a generated or a long parametrised test takes."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

SHARE = 1 if os.environ.get("REGENT_EXAMPLES") == "all" else 3
"""`make test` has 12 minutes, `make test-long` takes all."""

LEAST = 2


def examples(whole: int) -> int:
    """Of so many cases that are drawn."""
    return max(LEAST, whole // SHARE)


def spread(cases: Sequence[Any]) -> list[Any]:
    """Of what one test goes through: the first, the last, and every third between."""
    return [
        case for number, case in enumerate(cases) if number % SHARE == 0 or number == len(cases) - 1
    ]


def some(cases: Iterable[Any]) -> list[Any]:
    """Every third of these parameters, a tuple being several; the others are marked `long`."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.long] if number % SHARE else [],
        )
        for number, case in enumerate(cases)
    ]
