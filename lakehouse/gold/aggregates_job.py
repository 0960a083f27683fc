"""The analytics job: Delta tables as streams -> counts over event time -> gold, with Structured
Streaming.

Responsible for queries, their checkpoints and the count of what came too late. A batch that is
taken twice gives the same windows again, and these replace themselves by key: whatever ends the
job, nothing is lost and nothing counted twice. A checkpoint is of these very tables: when one is
made anew, all is counted anew, and so it is when a job was away for longer than its sources keep
the commits, for the rows are all there. Refuses to know what is counted (`aggregates`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow.compute as pc

from lakehouse.errors import LakehouseError
from lakehouse.gold.aggregate_tables import AGGREGATE_INPUTS, AGGREGATE_TABLES
from lakehouse.gold.aggregates import AGGREGATES, EVENT_TIME, Aggregate
from lakehouse.gold.merge import Merge, merge_rows
from lakehouse.gold.specs import GoldTableSpec
from lakehouse.spark_session import hadoop_files
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.delta import count_rows, ensure_tables, open_table, read
from lakehouse.tables.lake import Lake, spark_path
from lakehouse.troubles import error_text, note_java

log = logging.getLogger("regent.lake.gold")

WATERMARK_S = 600
CHECKPOINTS = ".checkpoints/aggregates"
FILES_PER_BATCH = 10_000
"""More than a first look at a cared-for table meets: what comes in one batch is never too late."""
COMMITS_GONE = ("DELTA_MISSING_FILES_UNEXPECTED_VERSION", "FAILED_READ_FILE.FILE_NOT_EXIST")
"""What Spark says when commits behind the checkpoint, or the files that they brought, are gone."""
ID_CHARS = 16
STALLED_S = 240
"""A batch of `FILES_PER_BATCH` files takes seconds; the first one also waits for Spark to warm
up.
"""


@dataclass(frozen=True, slots=True)
class Intake:
    """What an aggregate was made of."""

    aggregate: str
    received: int
    counted: int
    late: int
    """Rows whose window was closed before they landed, or whose time no clock has."""


class AggregatesJob:
    """The aggregates of one cluster: each cluster's history may come at another time, so a
    watermark is of one alone.

    `locks` are those of `AGGREGATE_TABLES`; one job per cluster and checkpoint.
    """

    def __init__(
        self,
        spark: Any,
        lake: Lake,
        locks: CommitLocks,
        checkpoint: str | None = None,
        watermark_s: int = WATERMARK_S,
        merge: Merge = merge_rows,
        require_alone: Callable[[], None] = lambda: None,
    ) -> None:
        """`checkpoint`: folder or URI of the queries' progress, in the lake by default.
        `require_alone` is asked before each step and each commit and raises `LakehouseError` when
        another job may be at work. Raises `LakehouseError` without a cluster.
        """
        if lake.cluster_id is None:
            raise LakehouseError(
                f"no cluster has landed in {lake.root} yet: nothing can be counted"
            )
        place = checkpoint or f"{lake.root}/{CHECKPOINTS}"
        self._checkpoint = spark_path(f"{place}/{quote(lake.cluster_id, safe='')}")
        self._spark = spark
        self._lake = lake
        self._locks = locks
        self._watermark_s, self._merge = watermark_s, merge
        self._require_alone = require_alone
        self._failure: LakehouseError | None = None
        """What ended the last commit: Spark tells it only within Java's stack."""
        ensure_tables(lake, AGGREGATE_TABLES)

    def step(self) -> list[Intake] | None:
        """Count all that has landed since the last step; None when more landed meanwhile.

        Raises `LakehouseError` when a query fails, `NotLanded` when a source is missing.
        """
        self._require_alone()  # Two would write one checkpoint.
        before = self._versions()
        for aggregate in AGGREGATES:
            self._count(aggregate)
        if self._versions() != before:
            return None
        found = [self._intake(aggregate) for aggregate in AGGREGATES]
        self._note(found)
        return found

    def _count(self, aggregate: Aggregate) -> None:
        name = aggregate.table.name
        error = self._tried(aggregate)
        if error is not None and not _commits_are_gone(error):
            # A source that got a column since the query was planned is read well the second time.
            note_java(error)
            log.warning("%s will be tried again: %s", name, error_text(error))
            error = self._tried(aggregate)
        if error is not None and _commits_are_gone(error):
            log.warning(
                "%s is counted anew: its sources no longer hold the commits since the last run",
                name,
            )
            self._forget(self._checkpoint_of(aggregate))
            error = self._tried(aggregate)
        if error is not None:
            note_java(error)
            raise LakehouseError(
                f"{name} could not be counted on from where the last run ended: "
                f"{error_text(error)}; without {self._checkpoint_of(aggregate)} all is counted anew"
            ) from error

    def _tried(self, aggregate: Aggregate) -> Exception | None:
        """Count on; gives what Spark ended it with. Raises what ended a commit."""
        from pyspark.errors import PySparkException

        self._failure = None
        try:
            _finish(self._started(aggregate))
        except PySparkException as error:
            if self._failure is not None:
                raise self._failure from error
            return error
        return None

    def _forget(self, checkpoint: str) -> None:
        """Remove it; a kill in between leaves it whole or gone, on a disk."""
        files, here = hadoop_files(self._spark, checkpoint)
        _, aside = hadoop_files(self._spark, f"{checkpoint}.gone")
        files.delete(aside, True)
        files.rename(here, aside)
        files.delete(aside, True)

    def _started(self, aggregate: Aggregate) -> Any:
        rows = aggregate.rows_of(
            {source.name: self._stream(source) for source in aggregate.sources}
        )
        counts = aggregate.counts_of(rows.withWatermark(EVENT_TIME, f"{self._watermark_s} seconds"))
        return (
            counts.writeStream.queryName(aggregate.table.name)
            .outputMode("update")
            # Each run ends with a batch without rows: it writes down how far the watermark is, else
            # the next run would begin with an older one.
            .foreachBatch(lambda batch, _: self._put(aggregate.table, batch))
            .option("checkpointLocation", self._checkpoint_of(aggregate))
            .trigger(availableNow=True)
            .start()
        )

    def _checkpoint_of(self, aggregate: Aggregate) -> str:
        tables = (aggregate.table, *aggregate.sources)
        ids = " ".join(str(open_table(self._lake, one).metadata().id) for one in tables)
        of_these = hashlib.sha256(ids.encode()).hexdigest()[:ID_CHARS]
        return f"{self._checkpoint}/{aggregate.table.name}.{of_these}"

    def _stream(self, source: Any) -> Any:
        from pyspark.sql import functions as f

        found = (
            self._spark.readStream.format("delta")
            .option("skipChangeCommits", "true")
            .option("maxFilesPerTrigger", FILES_PER_BATCH)
            .load(self._lake.spark_uri(source))
        )
        return found.where(f.col("cluster_id") == f.lit(self._lake.cluster_id))

    def _put(self, table: GoldTableSpec, batch: Any) -> None:
        # Gathered once: they are windows, not events, and a MERGE in Spark would count the whole
        # batch twice.
        rows = batch.toArrow().to_pylist()
        if rows:
            try:
                self._commit(table, rows)
            except LakehouseError as error:
                self._failure = error
                raise

    def _commit(self, table: GoldTableSpec, rows: list[dict[str, Any]]) -> None:
        with self._locks.held(table.name):
            self._require_alone()
            self._merge(self._lake, table, rows)

    def _versions(self) -> list[int]:
        sources = [source for aggregate in AGGREGATES for source in aggregate.sources]
        return [open_table(self._lake, source).version() for source in sources]

    def _intake(self, aggregate: Aggregate) -> Intake:
        received = sum(count_rows(self._lake, source) for source in aggregate.sources)
        counted = pc.sum(read(self._lake, aggregate.table, columns=["rows"])["rows"]).as_py() or 0
        return Intake(aggregate.table.name, received, counted, max(0, received - counted))

    def _note(self, found: Sequence[Intake]) -> None:
        rows = [
            {
                "cluster_id": self._lake.cluster_id,
                "aggregate": one.aggregate,
                "received": one.received,
                "counted": one.counted,
                "late": one.late,
                "watermark_s": self._watermark_s,
            }
            for one in found
        ]
        if rows != sorted(
            read(self._lake, AGGREGATE_INPUTS).to_pylist(), key=lambda row: row["aggregate"]
        ):
            self._commit(AGGREGATE_INPUTS, rows)


def _commits_are_gone(error: Exception) -> bool:
    text = str(error)
    return any(one in text for one in COMMITS_GONE)


def _finish(query: Any) -> None:
    """Wait until the query has taken in all there is.

    Raises what it failed with, and `LakehouseError` when it finished no batch within STALLED_S: a
    query that hangs would hold the lake's aggregates for ever; the next step begins where the last
    finished batch ended.
    """
    done = -1
    while not query.awaitTermination(STALLED_S):
        progress = query.lastProgress
        batch = -1 if progress is None else int(progress["batchId"])
        if batch == done:
            query.stop()
            raise LakehouseError(
                f"{query.name} finished no batch within {STALLED_S} s and was ended: run it again"
            )
        done = batch
