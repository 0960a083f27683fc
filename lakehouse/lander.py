"""
Batches of the log appended to the tables.

Responsible for the order of appends, for marks and for stopping at the first error. What is appended is
decided in `landing`; when a batch comes, by the queries that `landing_job` runs. Refuses to know what records mean.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakehouse import landing
from lakehouse.commit_lock import CommitLocks
from lakehouse.errors import LakehouseError
from lakehouse.high_water import HighWater, next_offsets
from lakehouse.lake import Lake
from lakehouse.status import StatusFile
from lakehouse.tables import BRONZE, BY_NAME, DECISIONS, DETAIL_TABLES, UNREADABLE, TableSpec

log = logging.getLogger(__name__)

# Names of the two queries, and of their checkpoints.
FIRST, DETAILS = "first", "details"
DETAIL_APPENDS_AT_ONCE = 1
STOP_WAIT_S = 60.0


class Lander:
    """
    Appends the batches of one cluster's log to the tables; one per process.

    Invariants: a mark is raised only after its append is committed; after any error nothing is
    appended any more, because an append whose answer was lost may have happened.
    """

    def __init__(
        self, lake: Lake, marks: Mapping[str, HighWater], status: StatusFile, locks: CommitLocks
    ) -> None:
        if lake.cluster_id is None:
            raise LakehouseError("landing needs to know whose log it is")
        self._lake, self._cluster_id = lake, lake.cluster_id
        self._marks = marks
        self._locks = locks
        self._status = status
        # One pool each: a decision must not queue behind the appends of broker events.
        self._appends = {
            FIRST: ThreadPoolExecutor(2, thread_name_prefix="append-first"),
            DETAILS: ThreadPoolExecutor(DETAIL_APPENDS_AT_ONCE, thread_name_prefix="append"),
        }
        self._gates = {FIRST: threading.Lock(), DETAILS: threading.Lock()}
        self.closed = False
        self.failure: BaseException | None = None

    def land_first(self, batch: Any, batch_id: int) -> None:
        """Take one micro-batch into bronze and decisions."""
        self._land(FIRST, batch, batch_id)

    def land_details(self, batch: Any, batch_id: int) -> None:
        """Take one micro-batch into all other silver tables."""
        self._land(DETAILS, batch, batch_id)

    def close(self) -> None:
        """Wait for batches at work; later ones are refused and come again after a restart."""
        held = [gate for gate in self._gates.values() if gate.acquire(timeout=STOP_WAIT_S)]
        self.closed = True
        for gate in held:
            gate.release()
        for pool in self._appends.values():
            pool.shutdown()

    def _land(self, query: str, batch: Any, batch_id: int) -> None:
        with self._gates[query]:
            try:
                if self.closed or self.failure is not None:
                    raise LakehouseError("the landing job is stopping")
                self._take(query, batch, batch_id)
            except BaseException as error:
                # Logged here: what Spark makes of an error in a callback can hide its cause.
                if not self.closed:
                    self.failure = self.failure or error
                    log.error("batch %d of %s failed: %s", batch_id, query, error)
                raise

    def _take(self, query: str, batch: Any, batch_id: int) -> None:
        began = time.monotonic()
        rows = landing.in_log_order(batch.select(*landing.BATCH_COLUMNS).toArrow())
        if query == FIRST:
            new = self._first_tables(rows, batch_id)
        else:
            new = landing.silver_tables(self._cluster_id, rows, DETAIL_TABLES, self._marks)
        self._append_all(query, batch.sparkSession, new)
        last = landing.last_positions(rows)
        for table in ((BRONZE, DECISIONS) if query == FIRST else DETAIL_TABLES):
            taken = (p for p in last.items() if table.topic in (None, p[0][0]))
            self._marks[table.name].raise_to(taken)
        count = sum(table.num_rows for table in new.values())
        taken_ms = round((time.monotonic() - began) * 1000)
        which = "landed" if query == FIRST else "detailed"
        self._status.batch_done(which, next_offsets(last), count, taken_ms)
        for table in (t for t in (UNREADABLE,) if t.name in new):
            log.warning("%d records are unreadable, see %s", new[table.name].num_rows, table.name)
        log.debug("%s batch %d: %d rows in %d ms", query, batch_id, count, taken_ms)

    def _first_tables(self, rows: pa.Table, batch_id: int) -> dict[str, pa.Table]:
        mark = self._marks[BRONZE.name]
        bronze = landing.bronze_rows(self._cluster_id, rows, mark, batch_id, datetime.now(UTC))
        new = landing.silver_tables(self._cluster_id, rows, (DECISIONS,), self._marks)
        return {BRONZE.name: bronze, **new} if bronze.num_rows else new

    def _append_all(self, query: str, spark: Any, new: Mapping[str, pa.Table]) -> None:
        """Append to several tables at a time: most of an append is waiting for its commit."""
        jobs = [
            self._appends[query].submit(self._append, spark, BY_NAME[name], rows)
            for name, rows in new.items()
        ]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        if errors:
            raise errors[0]

    def _append(self, spark: Any, table: TableSpec, rows: pa.Table) -> None:
        with self._locks.held(table.name):
            append(spark, self._lake, table, rows)


def append(spark: Any, lake: Lake, table: TableSpec, rows: pa.Table) -> None:
    """Append rows to one table, in one commit with one file per partition."""
    frame = spark.createDataFrame(rows).coalesce(1)
    frame.write.format("delta").mode("append").partitionBy(*table.partition_by).save(lake.spark_uri(table))
