from pathlib import Path

import pytest

from infra.cli import main
from infra.cli.lake.decisions import moment_of
from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem
from tests.support.error_line import error_line


def test_a_moment_is_an_offset_or_a_time_in_utc() -> None:
    assert moment_of(None) == {}
    assert moment_of("42") == {"offset": 42}
    assert moment_of("1970-01-01T00:00:01") == moment_of("1970-01-01T00:00:01Z") == {"at_ms": 1000}
    assert moment_of("1970-01-01T01:00:01.5+01:00") == {"at_ms": 1500}


@pytest.mark.parametrize("text", ["", "-3", "yesterday", "42.5", "²"])
def test_what_is_neither_is_wrong_usage(text: str) -> None:
    with pytest.raises(Problem, match="neither an offset nor a time") as caught:
        moment_of(text)
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("words", [["explain", "broker-a"], ["history"], ["state"]])
def test_missing_tables_are_one_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*words, "--tables", str(tmp_path / "none")]) == EXIT_FAILED
    assert "no tables in" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["explain", "broker-a"], ["history"], ["state"]])
def test_an_empty_folder_of_tables_is_one_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*words, "--tables", str(tmp_path)]) == EXIT_FAILED
    assert error_line(capsys.readouterr().err)
