from pathlib import Path

import pytest

from infra.cli import main
from infra.cli.lake.decisions import moment_of, verified_between
from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, lake_in, land


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


@pytest.mark.parametrize("words", [["explain", "broker-a"], ["history"], ["state"], ["verify"]])
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
    assert capsys.readouterr().err.count("\n") == 1


def test_a_proof_from_and_to_offsets_or_times(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, command_records(with_master(1, 2, 3).records))
    assert verified_between(lake, None, None) == (None, None)
    assert verified_between(lake, "3", "5") == (3, 5)
    # The log took record n n seconds after midnight.
    assert verified_between(lake, "2026-01-01T00:00:03", "2026-01-01T00:00:05.5") == (3, 5)
    assert verified_between(lake, "2020-01-01", "5") == (0, 5)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "5", "--to", "3"], EXIT_USAGE, "--from 5 lies behind --to 3"),
        (["--to", "never"], EXIT_USAGE, "--to 'never' is neither an offset nor a time"),
        (["--to", "2020-01-01"], EXIT_FAILED, "no command had been taken by 2020-01-01"),
    ],
)
def test_a_proof_of_what_there_is_not_is_one_line(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path), command_records(with_master(1, 2, 3).records))
    assert main.main(["verify", "--tables", str(tmp_path), *words]) == code
    assert said in capsys.readouterr().err
