"""`regent lake anchor` and what holds against it."""

import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support import tampered_lake
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, lake_in, land, outcome_records

RECORDS = with_master(1, 2, 3).records


def test_anchors_are_written_and_the_lake_is_held_against_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, file = lake_in(tmp_path / "tables"), tmp_path / "anchors"
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    where = ["--tables", lake.root]
    assert main.main(["lake", "anchor", *where, "--file", str(file), "--json"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out) == {"anchors": 2, "file": str(file)}
    assert main.main(["lake", "anchor", *where, "--file", str(file)]) == EXIT_DONE
    assert capsys.readouterr().out == f"0 anchors written to {file}\n"
    assert main.main(["verify", *where, "--anchors", str(file)]) == EXIT_DONE
    assert "2 anchors hold" in capsys.readouterr().out
    tampered_lake.with_changed_byte(lake, 3)
    assert main.main(["verify", *where, "--anchors", str(file)]) == EXIT_FAILED
    assert "not what was anchored" in capsys.readouterr().out


def test_who_does_not_take_them_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path / "tables"), [*command_records(RECORDS), *outcome_records(RECORDS)])
    where = ["--tables", str(tmp_path / "tables"), "--file", str(tmp_path / "anchors")]
    assert main.main(["lake", "anchor", *where, "--command", "false"]) == EXIT_FAILED
    assert "not taken by false" in capsys.readouterr().err
    assert main.main(["lake", "anchor", *where, "--every", "0"]) == EXIT_USAGE
