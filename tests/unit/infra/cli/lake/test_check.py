import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED
from tests.support.judged_history import sound_history
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    lake_in,
    land,
    outcome_records,
)

RECORDS = sound_history().records


def test_a_sound_history_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    land(lake_in(tmp_path), [*command_records(RECORDS), *outcome_records(RECORDS)])
    assert main.main(["lake", "check", "--tables", str(tmp_path)]) == EXIT_DONE
    assert capsys.readouterr().out.startswith("sound: ")


def test_a_gap_ends_with_1_and_one_document_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path), [*command_records(RECORDS)[:5], *outcome_records(RECORDS)])
    append_to_bronze(lake_in(tmp_path), command_records(RECORDS)[7:])
    assert main.main(["lake", "check", "--tables", str(tmp_path), "--json"]) == EXIT_FAILED
    document = json.loads(capsys.readouterr().out)
    assert document["gaps"] == [{"topic": "regent.commands", "partition": 0, "first": 5, "last": 6}]
    assert (document["violations"], document["exit_code"]) == ({}, EXIT_FAILED)


def test_missing_and_empty_tables_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["lake", "check", "--tables", str(tmp_path / "none")]) == EXIT_FAILED
    assert "no tables in" in capsys.readouterr().err
    assert main.main(["lake", "check", "--tables", str(tmp_path)]) == EXIT_FAILED
    assert capsys.readouterr().err.count("\n") == 1
