"""What a run of places says at the end: a row for what broke, the exit code, and that the other
places are tried all the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.problems import Problem
from tests.elsewhere import places
from tests.elsewhere.run import LINES, run
from tests.interop.stage import Row, Stage


def good(stage: Stage) -> list[Row]:
    return [Row("tables beside the log", "equal")]


def unequal(stage: Stage) -> list[Row]:
    return [Row("tables beside the log", "bronze lacks 1 row", ok=False)]


def in_vain(stage: Stage) -> list[Row]:
    raise Problem("waited in vain for 180 s until a worker is known", "last words")


def test_every_place_has_its_play() -> None:
    assert all(callable(getattr(places, name)) for name in LINES)


def test_all_as_it_should_be_ends_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([], {"near": good, "far": good}, Stage(tmp_path)) == 0
    told = capsys.readouterr()
    assert told.out.count("equal") == 2 and told.out.endswith("all as it should be\n")
    assert "near: ok after" in told.err and "far: ok after" in told.err


@pytest.mark.parametrize(
    ("breaks", "words"), [(unequal, "lacks 1 row"), (in_vain, "a worker is known")]
)
def test_what_breaks_is_named_and_the_next_place_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], breaks: object, words: str
) -> None:
    assert run([], {"near": breaks, "far": good}, Stage(tmp_path)) == 1  # type: ignore[dict-item]
    told = capsys.readouterr()
    assert words in told.out and "NOT EVERYTHING" in told.out and "far: ok after" in told.err


def test_only_what_is_named_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["far"], {"near": in_vain, "far": good}, Stage(tmp_path)) == 0
    assert "near" not in capsys.readouterr().err
