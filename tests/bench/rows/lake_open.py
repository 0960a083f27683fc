"""Opening a table after 10,000 commits, each with a file of its own, before and after a round of
care: a fresh table beside.

The commits are made by the Rust library alone, one row of `decisions` each; its checkpoints come as
the table's own settings say, so this is what a landing job leaves that nobody cared for.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from statistics import median

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from lakehouse.care.maintain import TableCare, lake_locks, maintain
from lakehouse.tables.delta import ensure_tables, read
from lakehouse.tables.lake import Lake, lake_at
from lakehouse.tables.specs import DECISIONS
from tests.bench.figure import Figure
from tests.bench.run_context import Bench
from tests.support.judged_history import sound_history
from tests.support.landed_log import land, outcome_records

COMMITS = 10_000
OPENS = 20
CLUSTER = "bench"


def landed_once(folder: Path) -> Lake:
    """A lake with one landed row of decisions."""
    lake = lake_at(folder, CLUSTER)
    ensure_tables(lake, (DECISIONS,))
    land(lake, outcome_records(sound_history().records)[:1])
    return lake


def commit(lake: Lake, count: int) -> None:
    """So many appends of one row more."""
    table = deltalake.DeltaTable(lake.uri(DECISIONS))
    folder = f"cluster_id={CLUSTER}"
    row = read(lake, DECISIONS).slice(0, 1).drop_columns("cluster_id")
    model = Path(lake.uri(DECISIONS)) / folder / "model.parquet"
    pq.write_table(row, model)
    size = model.stat().st_size
    for number in range(count):
        path = f"{folder}/part-{number:05d}.parquet"
        shutil.copyfile(model, Path(lake.uri(DECISIONS)) / path)
        action = AddAction(
            path,
            size,
            {"cluster_id": CLUSTER},
            time.time_ns() // 1_000_000,
            True,
            json.dumps({"numRecords": 1}),
        )
        table.create_write_transaction([action], "append", table.schema(), ["cluster_id"])
        table.update_incremental()
    model.unlink()


def opened_ms(lake: Lake) -> list[float]:
    """How long it takes to open the table and list its files, each time from the disk."""
    times = []
    for _ in range(OPENS):
        began = time.perf_counter()
        pa.table(deltalake.DeltaTable(lake.uri(DECISIONS)).get_add_actions()).num_rows  # noqa: B018
        times.append(round((time.perf_counter() - began) * 1000, 1))
    return times


def read_ms(lake: Lake) -> float:
    """One column of every row."""
    began = time.perf_counter()
    read(lake, DECISIONS, columns=["command_offset"])
    return (time.perf_counter() - began) * 1000


def cared(lake: Lake) -> TableCare:
    locks = lake_locks(lake)
    try:
        return next(iter(maintain(lake, locks, tables=(DECISIONS,))))
    finally:
        locks.close()


def measure(bench: Bench) -> list[Figure]:
    fresh = opened_ms(landed_once(bench.folder("lake-open-fresh")))
    lake = landed_once(bench.folder("lake-open"))
    bench.say(f"{COMMITS} commits")
    commit(lake, COMMITS)
    worn, worn_read = opened_ms(lake), read_ms(lake)
    bench.say("a round of care")
    began = time.perf_counter()
    done = cared(lake)
    took_s = time.perf_counter() - began
    new, new_read = opened_ms(lake), read_ms(lake)
    note = (
        f"{done.files_before} files became {done.files_after} in {took_s:.1f} s, of which nobody "
        f"else could commit for {done.longest_hold_ms / 1000:.1f} s; one column of all rows read "
        f"in {worn_read:.0f} ms before and {new_read:.0f} ms after"
    )
    peer = "a table of two commits"
    return [
        Figure(
            "lake-open",
            f"open a table after {COMMITS} commits, without care",
            "ms",
            median(worn),
            peer,
            median(fresh),
            samples=worn,
        ),
        Figure(
            "lake-open",
            "the same after a round of care",
            "ms",
            median(new),
            peer,
            median(fresh),
            note=note,
            samples=new,
            details={"problem": done.problem, "rows": COMMITS + 1},
        ),
    ]
