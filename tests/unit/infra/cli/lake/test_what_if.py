"""`regent what-if`, in the process: answers, and one line for what cannot be asked."""

import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.error_line import error_line
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.unit.lakehouse.answers.what_if_cases import silent_master

PAST, OFFSET = silent_master()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    land(lake_in(root), [*command_records(PAST.records), *outcome_records(PAST.records)])
    return root


def timers(tmp_path: Path, text: str) -> str:
    path = tmp_path / "timers.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_an_answer_for_people_and_one_for_programs(
    capsys: pytest.CaptureFixture[str], tables: Path, tmp_path: Path
) -> None:
    words = [
        "what-if",
        "--tables",
        str(tables),
        "--timers",
        timers(tmp_path, "heartbeat_timeout_ms = 4000"),
    ]
    assert main.main(words) == EXIT_DONE
    assert "earlier" in capsys.readouterr().out
    assert main.main([*words, "--json"]) == EXIT_DONE
    model = json.loads(capsys.readouterr().out)
    assert [(one["offset"], one["result"]) for one in model["incidents"]] == [(OFFSET, "earlier")]
    assert model["timers"] == {"heartbeat_timeout_ms": 4000, "probes": True} and model["limits"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], EXIT_USAGE, "what if what?"),
        (["--policy", "best"], EXIT_USAGE, "One of: recorded, longest, unclean, clean."),
        (
            ["--policy", "longest", "--from", "soon"],
            EXIT_USAGE,
            "--from 'soon' is neither an offset nor a time",
        ),
        (
            ["--policy", "longest", "--from", "9", "--to", "3"],
            EXIT_USAGE,
            "--from lies behind --to",
        ),
        (
            ["--policy", "longest", "--to", "999"],
            EXIT_FAILED,
            f"command 999 has not landed: last {len(PAST.records) - 1}",
        ),
        (["--timers", "/no/such.toml"], EXIT_USAGE, "/no/such.toml cannot be read"),
    ],
)
def test_what_cannot_be_asked(
    capsys: pytest.CaptureFixture[str], tables: Path, words: list[str], code: int, said: str
) -> None:
    assert main.main(["what-if", "--tables", str(tables), *words]) == code
    assert said in error_line(capsys.readouterr().err)


@pytest.mark.parametrize(("text", "said"), [
    ("heartbeat_timeout_ms = 1", "greater than or equal to 100"),
    ("heartbeat_timeout = 5000", "did you mean heartbeat_timeout_ms?"),
    ("heartbeat", "is not TOML"),
])  # fmt: skip
def test_a_timers_file_that_says_nothing_usable(
    capsys: pytest.CaptureFixture[str], tables: Path, tmp_path: Path, text: str, said: str
) -> None:
    assert (
        main.main(["what-if", "--tables", str(tables), "--timers", timers(tmp_path, text)])
        == EXIT_USAGE
    )
    error = capsys.readouterr().err
    assert said in error and "heartbeat_timeout_ms = 5000" in error
