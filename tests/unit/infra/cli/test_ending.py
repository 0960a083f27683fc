from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cli import ending, main
from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem

COMMAND = [sys.executable, "-m", "infra"]


def test_a_problem_is_one_line_for_people_and_with_json_a_document_for_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["controller", "status", "--controller", "nonsense"]) == EXIT_USAGE
    assert capsys.readouterr().out == ""
    assert main.main(["controller", "status", "--controller", "nonsense", "--json"]) == EXIT_USAGE
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (
        document["exit_code"] == EXIT_USAGE
        and "nonsense" in document["error"]
        and "HOST:PORT" in document["way_out"]
    )
    assert said.err.startswith("regent: ") and said.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["nosuchverb", "--json"],
        ["controller", "set", "--json"],
        ["status", "--json", "--dir", "/nonexistent"],
    ],
)
def test_wrong_usage_is_valid_json_too(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(words) == EXIT_USAGE
    assert json.loads(capsys.readouterr().out)["exit_code"] == EXIT_USAGE


def test_an_unforeseen_error_is_one_line_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def falls(_words: list[str]) -> int:
        return {}["missing"]  # type: ignore[no-any-return]

    monkeypatch.setattr(main, "_dispatch", falls)
    assert main.main(["status"]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"KeyError: 'missing' at {Path(__file__).name}:" in said


def test_a_process_that_falls_says_so_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    def falls(_words: list[str]) -> int:
        raise KeyError("missing")

    monkeypatch.setattr(main, "_dispatch", falls)
    with pytest.raises(KeyError):
        main.main(["controller", "--config", "c.toml"])
    assert main.main(["controller", "sets"]) == EXIT_FAILED, (
        "a question to controllers is no process"
    )


def test_ctrl_c_is_one_line_even_when_a_library_falls_over_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def falls(_words: list[str]) -> int:
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("save_nargs")

    monkeypatch.setattr(main, "_dispatch", falls)
    assert main.main(["status", "--json"]) == main.EXIT_INTERRUPTED
    said = capsys.readouterr()
    assert said.err == "regent: interrupted\n" and json.loads(said.out)["error"] == "interrupted"


@pytest.mark.parametrize(
    ("redirection", "code"),
    [(">&-", 2), ("2>&-", 2), (">&- 2>&-", 2), ("<&-", 2), ("2>/dev/full", 2), ("2>&1 | true", 0)],
)
def test_streams_that_are_closed_or_full_change_no_exit_code(redirection: str, code: int) -> None:
    line = (
        (f"exec '{sys.executable}' -m infra bogus --json {redirection}")
        if "|" not in redirection
        else f"'{sys.executable}' -m infra bogus {redirection}"
    )
    ended = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == code and "Traceback" not in ended.stderr + ended.stdout


def test_a_full_disk_behind_the_output_is_a_failure_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COMMAND, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert (
        ended.returncode == EXIT_FAILED
        and ended.stderr.count("\n") == 1
        and "No space left" in ended.stderr
    )


def test_a_terminal_that_lacks_a_character_gets_another_one() -> None:
    code = "from infra.cli import ending; ending.prepare_streams(); print('\\u2192 way out')"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert (ended.returncode, ended.stdout) == (0, "? way out\n")


def test_the_trace_is_shown_to_whoever_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ending.TRACE, "1")
    try:
        raise ValueError("odd")
    except ValueError as error:
        assert isinstance(ending.unforeseen(error), Problem)
    assert "Traceback" in capsys.readouterr().err
