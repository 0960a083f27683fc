"""What the run says and how it ends; its parts run in tests/integration/test_lake_answers.py."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.equality import run
from tests.equality.comparison import Comparison
from tests.equality.stage import NotAsItShouldBe
from tests.support.interruptible import held_back
from tests.support.lake_questions import Question


def found(second: int) -> Comparison:
    made = Comparison([Question("q", "SELECT 1")])
    made.ask("one", lambda question: [(1,)])
    made.ask("two", lambda question: [(second,)])
    return made


@pytest.fixture
def ending(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[Callable[[], Comparison]], None]]:
    """Says how the comparison ends; its folder is in `tmp_path`."""
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    (tmp_path / "made").mkdir()
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path / "made"))
    yield lambda ends: monkeypatch.setattr(run, "compared", lambda sizes, home, say: ends())
    for one, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(one, handler)


@pytest.mark.parametrize(
    ("second", "code", "verdict"), [(1, 0, "all answers are equal"), (2, 1, "ANSWERS DIFFER")]
)
def test_the_exit_code_is_the_verdict(
    ending: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    second: int,
    code: int,
    verdict: str,
) -> None:
    ending(lambda: found(second))
    assert run.main(["--commands", "600", "--sets", "3"]) == code
    assert (
        f"{verdict}: 1 questions, 600 commands, 3 sets"
    ) in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_one_document_instead_of_the_table(
    ending: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ending(lambda: found(2))
    assert run.main(["--json", "--keep"]) == 1
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert (told["equal"], told["commands"], told["sets"], told["seed"]) == (False, 200_000, 50, 1)
    assert told["questions"][0]["different"] == ["two"] and told["why"] == [
        "q: two says in row 0 (2,), one (1,)"
    ]
    assert f"kept: {tmp_path / 'made'}" in captured.err and (tmp_path / "made").exists()


def test_a_part_that_fails_is_one_line(
    ending: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails() -> Comparison:
        raise NotAsItShouldBe("the log went on")

    ending(fails)
    assert run.main([]) == 1 and not list(tmp_path.iterdir())
    assert capsys.readouterr().err == "make equality: NotAsItShouldBe: the log went on\n"


@pytest.mark.parametrize("then", [None, RuntimeError("Spark has died of it too")])
def test_interrupted_it_ends_with_130_and_leaves_no_folder(
    ending: Callable[..., None], tmp_path: Path, then: Exception | None
) -> None:
    def interrupted() -> Comparison:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        finally:
            # once is enough: what is being ended goes on to end
            os.kill(os.getpid(), signal.SIGINT)
            if then is not None:
                raise then
        raise AssertionError("the signal was not heard")

    ending(interrupted)
    assert run.main([]) == 130 and not list(tmp_path.iterdir())


def test_who_is_interrupted_while_something_starts_knows_it_by_then(
    ending: Callable[..., None],
) -> None:
    known: list[str] = []

    def interrupted() -> Comparison:
        with held_back():
            os.kill(os.getpid(), signal.SIGINT)
            known.append("started")
        raise AssertionError("the signal was not heard")

    ending(interrupted)
    assert run.main([]) == 130 and known == ["started"]


@pytest.mark.parametrize("words", [["--commands", "10"], ["--sets", "0"], ["more"]])
def test_wrong_usage_is_said_before_anything_starts(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(words)
    assert ended.value.code == 2 and "make equality" in capsys.readouterr().err
