"""How far the command log of a cluster has landed."""

from pathlib import Path

import pytest

from lakehouse.tables.landed_end import landed_offset, main
from tests.support.control_history import CLUSTER_ID, with_master
from tests.support.landed_log import command_records, lake_in, land, outcome_records

RECORDS = with_master(1, 2).records


def test_the_last_command_counts_and_nothing_else(tmp_path: Path) -> None:
    land(lake_in(tmp_path), [*command_records(RECORDS[:-3]), *outcome_records(RECORDS)])
    assert landed_offset(str(tmp_path), CLUSTER_ID) == len(RECORDS) - 4


def test_what_never_landed_ends_before_the_first_offset(tmp_path: Path) -> None:
    assert landed_offset(str(tmp_path), CLUSTER_ID) == -1
    land(lake_in(tmp_path), command_records(RECORDS))
    assert landed_offset(str(tmp_path), "another") == -1


def test_the_program_says_it_or_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    land(lake_in(tmp_path), command_records(RECORDS))
    assert main([str(tmp_path), CLUSTER_ID]) == 0
    assert capsys.readouterr().out == f"{len(RECORDS) - 1}\n"
    (tmp_path / "bronze" / "records" / "_delta_log" / ("00000000000000000000.json")).write_text(
        "damaged", encoding="utf-8"
    )
    assert main([str(tmp_path), CLUSTER_ID]) == 1
    assert capsys.readouterr().err
