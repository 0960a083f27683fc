"""False statistics in Delta's log: told by the proof's verb, and written down anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from lakehouse.care.maintain import lake_locks
from lakehouse.care.restate import restate
from lakehouse.errors import LakehouseError
from lakehouse.sql.query import ask
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake, lake_at
from lakehouse.tables.listed_files import false_statistics
from lakehouse.tables.specs import BRONZE, DECISIONS, TableSpec
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land, outcome_records
from tests.support.tampered_lake import with_statistics

RECORDS = with_master(1, 2, 3).records
HIDES = {"maxValues": {"log_offset": 2}}


@pytest.fixture
def landed(lake: Lake) -> Lake:
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    return lake


def told(lake: Lake, table: TableSpec) -> list[str]:
    return list(false_statistics(lake, table, delta.open_table(lake, table)))


@pytest.mark.parametrize(
    ("table", "stats", "expected"),
    [
        (DECISIONS, HIDES, "ends with log_offset {last}, Delta's log says 2"),
        (DECISIONS, {"numRecords": 3}, "holds {count} rows, Delta's log says 3"),
        (BRONZE, {"minValues": {"offset": 99}}, "begins with offset 0, Delta's log says 99"),
    ],
)
def test_forged_statistics_are_told_until_they_are_written_down_anew(
    landed: Lake,
    table: TableSpec,
    stats: dict[str, Any],
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--tables", landed.root]
    before = delta.read(landed, table).num_rows
    with_statistics(landed, table, stats)

    assert main.main(["verify", *words]) == EXIT_FAILED
    said = capsys.readouterr().out
    assert expected.format(last=len(RECORDS) - 1, count=len(RECORDS)) in said
    assert "questions may pass its rows over; 'regent lake maintain --statistics'" in said

    assert main.main(["lake", "maintain", "--statistics", *words]) == EXIT_DONE
    assert f"{table.name}: " in capsys.readouterr().out
    assert main.main(["verify", *words]) == EXIT_DONE
    assert delta.read(landed, table).num_rows == before
    assert main.main(["lake", "maintain", "--statistics", "--json", *words]) == EXIT_DONE
    assert capsys.readouterr().out.endswith("[]\n")


def test_a_question_finds_its_rows_again(landed: Lake) -> None:
    query = "SELECT count(*) AS n FROM silver.decisions WHERE log_offset > 2"
    expected = ask(landed, query).rows.to_pylist()
    with_statistics(landed, DECISIONS, HIDES)
    assert ask(landed, query).rows.to_pylist() != expected
    locks = lake_locks(landed)
    try:
        [done] = restate(landed, locks, [BRONZE, DECISIONS])
        assert (done.table, done.files) == (DECISIONS.name, 1)
        assert list(restate(landed, locks, [BRONZE, DECISIONS])) == []
    finally:
        locks.close()
    assert ask(landed, query).rows.to_pylist() == expected
    assert told(landed, DECISIONS) == []


def test_it_is_done_once_and_in_folders_only(
    landed: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["lake", "maintain", "--statistics", "--every", "5", "--tables", landed.root]
    assert main.main(words) == EXIT_USAGE
    assert "--statistics is done once" in capsys.readouterr().err
    with pytest.raises(LakehouseError, match="is an object store"):
        list(restate(lake_at("s3://lake/tables"), lake_locks(landed), [BRONZE]))
