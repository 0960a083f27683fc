"""What is asked of the lake without Spark goes through Delta's log: merging, rewriting and clearing
of files changes no answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakehouse
from infra.cli import main
from infra.problems import EXIT_DONE
from lakehouse.gold.specs import GOLD_TABLES
from lakehouse.tables.specs import BRONZE, DECISIONS, TABLES
from tests.support.control_history import NAME
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, OFFSET = failed_over()
PIECES = 3
QUESTIONS = (
    ["explain", NAME],
    ["history"],
    ["state"],
    ["state", "--at", str(OFFSET - 1)],
    ["diff", "--from", "2"],
    ["failovers"],
    ["availability"],
    ["timeline", NAME],
    ["lake", "check", "--from-start"],
    ["sql", "SELECT * FROM silver.decisions ORDER BY command_offset, log_offset"],
    ["sql", 'SELECT topic, "offset", value FROM bronze.records ORDER BY ALL'],
    ["sql", 'SELECT * FROM gold.elections ORDER BY "offset"'],
)


def answers(root: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What each question is answered, without how much of it was folded."""
    found = []
    for words in QUESTIONS:
        assert main.main([*words, "--json", "--tables", str(root)]) == EXIT_DONE, words
        model = json.loads(capsys.readouterr().out)
        if isinstance(model.get("as_of"), dict):
            model["as_of"].pop("folded")
        found.append(model)
    tables = lakehouse.open(root)
    return [
        *found,
        tables.failovers().to_arrow().to_pylist(),
        tables.decisions().to_arrow().sort_by("log_offset").to_pylist(),
    ]


def tables_of(root: Path) -> list[deltalake.DeltaTable]:
    return [deltalake.DeltaTable(str(root / spec.name)) for spec in (*TABLES, *GOLD_TABLES)]


def maintain(root: Path) -> None:
    assert main.main(["lake", "maintain", "--tables", str(root)]) == EXIT_DONE


def merge_files(root: Path) -> None:
    before = len(deltalake.DeltaTable(str(root / BRONZE.name)).file_uris())
    for table in tables_of(root):
        table.optimize.compact()
    assert len(deltalake.DeltaTable(str(root / BRONZE.name)).file_uris()) < before


def order_files(root: Path) -> None:
    deltalake.DeltaTable(str(root / BRONZE.name)).optimize.z_order(["offset"])
    deltalake.DeltaTable(str(root / DECISIONS.name)).optimize.z_order(["command_offset"])


def write_anew(root: Path) -> None:
    """All rows again, in another order: the files that held them are no longer part of the
    table.
    """
    for spec in (BRONZE, DECISIONS, *GOLD_TABLES):
        table = deltalake.DeltaTable(str(root / spec.name))
        table.alter.set_table_properties({"delta.appendOnly": "false"})
        rows = table.to_pyarrow_table()
        turned = rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
        deltalake.write_deltalake(table, turned, mode="overwrite")


def clear(root: Path) -> None:
    """Nothing is left of what the tables were before, neither files nor commits."""
    gone = 0
    for table in tables_of(root):
        gone += len(
            table.vacuum(
                retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
            )
        )
        table.create_checkpoint()
        table.cleanup_metadata()
    assert gone


def test_no_answer_changes_when_files_are_merged_ordered_rewritten_and_cleared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lake_in(tmp_path)
    commands, outcomes = command_records(PAST.records), outcome_records(PAST.records)
    for end in range(len(commands) // PIECES, len(commands) + PIECES, len(commands) // PIECES):
        land(lake, [*commands[:end], *outcomes[:end]], end)
        bring_up(job_of(lake))
    wanted = answers(tmp_path, capsys)
    for care in (maintain, merge_files, order_files, write_anew, clear):
        care(tmp_path)
        capsys.readouterr()
        assert answers(tmp_path, capsys) == wanted, care.__name__
