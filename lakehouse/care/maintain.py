"""The care of tables: compaction, clustering, vacuum, checkpoints and the log of commits, without
Spark.

Responsible for doing to each table what `care.plan` says, without ever touching what time travel
inside the promised window needs, and while others append. No row is changed; one is dropped only
where the table's specification says after how many days, which today none does. Whoever commits
holds the table's lock (`commit_lock`), so that neither side overwrites the other's commit; one
partition is written anew at a time, so an append waits for that and not for the whole table.
Refuses to know what tables mean.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import PostCommitHookProperties, WriterProperties
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from lakehouse.care import plan
from lakehouse.care.plan import DataFile, Rewrite
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.gold.aggregate_tables import AGGREGATE_TABLES
from lakehouse.gold.progress import GOLD_PROGRESS
from lakehouse.gold.specs import GOLD_TABLES
from lakehouse.invariants.alarms import ALARMS
from lakehouse.invariants.kept import CHECKED
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.known_names import KNOWN
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.lake import Lake, open_delta
from lakehouse.tables.left_states import LEFT_STATES
from lakehouse.tables.specs import LANDING_TABLES, TableSpec

CARED_FOR: tuple[TableSpec, ...] = (
    *LANDING_TABLES,
    *GOLD_TABLES,
    GOLD_PROGRESS,
    *AGGREGATE_TABLES,
    ALARMS,
    CHECKED,
    PROVEN,
    KNOWN,
    LEFT_STATES,
)
LATE_LAYER = "silver"
"""Where landing makes tables of kinds that come later."""
WINDOW_DAYS = 30
WINDOW_DAYS_MIN = 1
"""A shorter window could remove files that somebody has written and not committed yet, or is just
reading.
"""
HOURS_PER_DAY = 24
MS_PER_DAY = 86_400_000
COMMITS_PER_CHECKPOINT = 50
"""Commits that opening a table reads one by one, at most, after a round of care."""
AT_ONCE = 1
ROWS_TOGETHER = 65_536
"""Rows of a file that a reader takes together or not at all: a question about one election opens
one or two such groups.
"""
# What the library takes when it is asked for nothing: with properties of one's own there would be
# none.
_COMPRESSION: Mapping[str, Any] = {"compression": "ZSTD", "compression_level": 4}
# Checkpoints are made here, of a version that is known to be settled, and not in passing.
_NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_WINDOW_PROPERTIES = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")


@dataclass(slots=True)
class TableCare:
    """What was found and done; times in ms, sizes in bytes. `problem` is one line, None when all
    went well.
    """

    table: str
    files_before: int = 0
    files_after: int = 0
    size_bytes: int = 0
    open_ms_before: float = 0.0
    open_ms_after: float = 0.0
    longest_hold_ms: float = 0.0
    """Longest time for which nobody else could commit to the table."""
    files_vacuumed: int = 0
    rows_dropped: int = 0
    """Rows older than the specification keeps them."""
    version: int = 0
    checkpointed: bool = False
    problem: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For a JSON document."""
        return asdict(self)


def lake_locks(lake: Lake, tables: Iterable[TableSpec] = CARED_FOR) -> CommitLocks:
    """The commit locks of a lake's tables."""
    return CommitLocks(lake.folder, [table.name for table in tables])


def maintain(
    lake: Lake,
    locks: CommitLocks,
    window_days: float = WINDOW_DAYS,
    tables: Sequence[TableSpec] | None = None,
    stopped: Callable[[], bool] = lambda: False,
    now_ms: int | None = None,
) -> Iterator[TableCare]:
    """Care for every table there is, one after the other; a table in trouble does not keep the
    next ones from it.

    Rows of all clusters are cared for, whichever the lake names. Time travel to any moment of the
    last `window_days` days stays possible, of gold see `window_of`. Ends early when `stopped()`.
    Raises `LakehouseError` when the lake cannot be listed.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    for table in (*CARED_FOR, *late_tables(lake)) if tables is None else tables:
        locks.also(table.name)
        if stopped():
            return
        try:
            found = _Care(lake, table, locks, window_of(table, window_days), now_ms).run()
        except NotLanded:
            continue  # made when something for it lands first
        except (LakehouseError, DeltaError, OSError, pa.ArrowException) as error:
            found = TableCare(table.name, problem=" ".join(str(error).split()))
        yield found


def late_tables(lake: Lake) -> list[TableSpec]:
    """Tables of kinds of record that this release was not made with, as the lake has them. Raises
    `LakehouseError`.
    """
    known = {table.name for table in CARED_FOR}
    try:
        files = PyFileSystem(DeltaStorageHandler(lake.root, dict(lake.storage_options) or None))
        found = files.get_file_info(FileSelector(LATE_LAYER, allow_not_found=True))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise LakehouseError(f"{lake.root} cannot be listed: {error}") from error
    names = sorted(
        f"{LATE_LAYER}/{one.base_name}" for one in found if one.type == FileType.Directory
    )
    return [TableSpec(name, "", (), ()) for name in names if name not in known]


def window_of(table: TableSpec, window_days: float) -> float:
    """For how many days versions of a table are kept.

    Rows of gold say themselves from when to when they hold, and every run of the gold job writes
    files anew to replace some: a month of versions would be many times the table, and nobody needs
    them. The same holds for what proofs and checks keep.
    """
    return min(window_days, WINDOW_DAYS_MIN) if table.layer in ("gold", "proof") else window_days


class _Care:
    """One round of care for one table."""

    def __init__(
        self, lake: Lake, table: TableSpec, locks: CommitLocks, window_days: float, now_ms: int
    ) -> None:
        self._lake = lake
        self._table = table
        self._locks = locks
        self._now_ms = now_ms
        self._window_hours = round(window_days * HOURS_PER_DAY)
        self._done = TableCare(table.name)

    def run(self) -> TableCare:
        """Everything, in the order in which one step serves the next."""
        done = self._done
        done.open_ms_before, delta = self._opened()
        files = _files(delta)
        done.files_before = len(files)
        self._promise_window(delta)
        self._drop_old(delta)
        for rewrite in plan.rewrites(files, self._table.cluster_by):
            self._locked(partial(_write_anew, rewrite=rewrite))
        self._checkpoint(self._vacuum())
        if done.longest_hold_ms:
            done.open_ms_after, delta = self._opened()
            files = _files(delta)
        else:  # Nothing was done: to open it once more would cost as much as all else.
            done.open_ms_after = done.open_ms_before
        done.files_after, done.version = len(files), delta.version()
        done.size_bytes = sum(file.size_bytes for file in files)
        return done

    def _opened(self) -> tuple[float, deltalake.DeltaTable]:
        began = time.monotonic()
        delta = open_delta(self._lake, self._table)
        return (time.monotonic() - began) * 1000, delta

    def _locked(self, commit: Callable[[deltalake.DeltaTable], Any]) -> None:
        """Do one thing to the newest version, alone."""
        with self._locks.held(self._table.name):
            began = time.monotonic()
            commit(open_delta(self._lake, self._table))
            self._done.longest_hold_ms = max(
                self._done.longest_hold_ms, (time.monotonic() - began) * 1000
            )

    def _promise_window(self, delta: deltalake.DeltaTable) -> None:
        """Write the window into the table, where Spark and every other tool reads it."""
        wanted = dict.fromkeys(_WINDOW_PROPERTIES, f"interval {self._window_hours} hours")
        if not wanted.items() <= delta.metadata().configuration.items():
            self._locked(lambda delta: delta.alter.set_table_properties(wanted))

    def _drop_old(self, delta: deltalake.DeltaTable) -> None:
        """Drop the rows that are older than the specification keeps them."""
        days, column = self._table.retention_days, self._table.offset_column
        if days is None:
            return
        oldest_ms = self._now_ms - days * MS_PER_DAY
        self._done.rows_dropped = delta.to_pyarrow_dataset().count_rows(
            filter=pc.field(column) < oldest_ms
        )
        if self._done.rows_dropped:
            self._locked(
                lambda delta: delta.delete(
                    f"{column} < {oldest_ms}", post_commithook_properties=_NO_CHECKPOINT
                )
            )

    def _vacuum(self) -> int:
        """Remove files that no version inside the window names, and those of writers that died
        before their commit. Gives the version that was looked at.
        """
        hours: dict[str, Any] = {
            "retention_hours": self._window_hours,
            "enforce_retention_duration": False,
            "full": True,
        }
        seen = open_delta(self._lake, self._table)
        found = seen.vacuum(dry_run=True, **hours)
        if found:
            self._locked(
                lambda delta: delta.vacuum(
                    dry_run=False, post_commithook_properties=_NO_CHECKPOINT, **hours
                )
            )
        self._done.files_vacuumed = len(found)
        return seen.version()

    def _checkpoint(self, newest: int) -> None:
        """Write the list of files down, and forget commits that no version inside the window
        needs.
        """
        if (
            newest - self._last_checkpoint() < COMMITS_PER_CHECKPOINT
            and not self._done.longest_hold_ms
        ):
            return

        def write_down(delta: deltalake.DeltaTable) -> None:
            delta.create_checkpoint()
            delta.cleanup_metadata()

        self._locked(write_down)
        self._done.checkpointed = True

    def _last_checkpoint(self) -> int:
        """Version of the newest checkpoint, -1 without one."""
        handler = DeltaStorageHandler(
            self._lake.uri(self._table), dict(self._lake.storage_options) or None
        )
        try:
            with PyFileSystem(handler).open_input_file("_delta_log/_last_checkpoint") as file:
                return int(json.loads(file.read())["version"])
        except (FileNotFoundError, ValueError, KeyError):
            return -1


def _files(delta: deltalake.DeltaTable) -> list[DataFile]:
    rows = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    names = delta.metadata().partition_columns
    return [
        DataFile(tuple((name, row[f"partition.{name}"]) for name in names), int(row["size_bytes"]))
        for row in rows
    ]


def _write_anew(delta: deltalake.DeltaTable, rewrite: Rewrite) -> None:
    where = [(name, "=", value) for name, value in rewrite.partition]
    how: dict[str, Any] = {
        "partition_filters": where,
        "target_size": rewrite.target_bytes,
        "max_concurrent_tasks": AT_ONCE,
        "post_commithook_properties": _NO_CHECKPOINT,
        "writer_properties": WriterProperties(max_row_group_size=ROWS_TOGETHER, **_COMPRESSION),
    }
    if rewrite.order_by:
        delta.optimize.z_order(rewrite.order_by, **how)
    else:
        delta.optimize.compact(**how)
