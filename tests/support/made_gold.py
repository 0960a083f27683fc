"""Gold tables as they stand, for comparing one way of making them with another.

Refuses to know what a table is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.gold.job import WRITTEN, GoldJob
from lakehouse.gold.merge import Merge, merge_rows
from lakehouse.gold.specs import GOLD_TABLES, GoldTableSpec
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from lakehouse.tables.left_states import EVERY_COMMANDS

Row = Mapping[str, Any]


def job_of(lake: Lake, merge: Merge = merge_rows, states_every: int = EVERY_COMMANDS) -> GoldJob:
    """A gold job with locks of its own."""
    locks = CommitLocks(lake.folder, [table.name for table in WRITTEN])
    return GoldJob(lake, locks, merge, states_every)


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
