"""
Gold tables as they stand, for comparing one way of making them with another, and a merge without Java.

Refuses to know what a table is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakehouse.commit_lock import CommitLocks
from lakehouse.delta_tables import open_table, read
from lakehouse.gold_job import WRITTEN, GoldJob
from lakehouse.gold_merge import merge_rows
from lakehouse.gold_tables import GOLD_TABLES, GoldTableSpec
from lakehouse.lake import Lake

Row = Mapping[str, Any]


def merge_without_java(spark: Any, lake: Lake, table: GoldTableSpec, rows: Sequence[Row]) -> None:
    """What `gold_merge.merge_rows` does, by the Rust library: some tens of ms a table."""
    new = pa.Table.from_pylist(list(rows), schema=table.schema)
    same = " and ".join(f"old.{name} = new.{name}" for name in table.key)
    merge = open_table(lake, table).merge(new, same, source_alias="new", target_alias="old")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def job_of(lake: Lake, spark: Any = None) -> GoldJob:
    """A gold job; without a session it merges without Java."""
    locks = CommitLocks(lake.folder, [table.name for table in WRITTEN])
    return GoldJob(spark, lake, locks, merge=merge_without_java if spark is None else merge_rows)


def bring_up(job: GoldJob) -> int:
    """Runs until there is nothing more; gives the commands taken in."""
    commands = 0
    while found := job.step().commands:
        commands += found
    return commands


def rows_of(lake: Lake) -> dict[str, list[Row]]:
    """All rows of all gold tables by key: what must be the same whatever happened on the way."""
    return {table.name: _by_key(table, read(lake, table).to_pylist()) for table in GOLD_TABLES}


def _by_key(table: GoldTableSpec, rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: tuple(str(row[name]).zfill(20) for name in table.key))
