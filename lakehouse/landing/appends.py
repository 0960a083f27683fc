"""Batches of the log appended to the tables.

Responsible for the order of appends, for marks and for stopping at the first error. What is
appended is decided in `landing`; when a batch comes, by the queries that `landing.job` runs.
Refuses to know what records mean.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakehouse.errors import LakehouseError
from lakehouse.landing import batch_reading, batches
from lakehouse.landing.column_workers import ColumnWorkers
from lakehouse.landing.finished import DETAILS, FIRST, Finished
from lakehouse.landing.kinds import Catalogue
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.landing.log_losses import Gap, to_note
from lakehouse.landing.quarantine import Quarantine
from lakehouse.landing.refill import batches_of_bronze, unknown_stretches
from lakehouse.landing.shared_batches import SharedBatches
from lakehouse.landing.status import StatusFile
from lakehouse.tables import delta
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.high_water import HighWater, Partition, next_offsets
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import NOTHING_LOST, Loss, Losses, loss_rows, read_losses
from lakehouse.tables.specs import BRONZE, LOSSES, TABLES, UNREADABLE, TableSpec
from lakehouse.troubles import error_text

log = logging.getLogger("regent.lake.landing")

DETAIL_APPENDS_AT_ONCE = 1
STOP_WAIT_S = 60.0
SHARED_WITHIN_S = 5.0
"""How long `details` waits for the first query to land what both take; then it reads itself."""


class _Marks(dict[str, HighWater]):
    """How far each table is; that of a table which nobody knew at the start is read when it is
    first asked for.
    """

    def __init__(self, look: Callable[[str], HighWater]) -> None:
        super().__init__()
        self._look = look

    def __missing__(self, name: str) -> HighWater:
        self[name] = found = self._look(name)
        return found


class Lander:
    """Appends the batches of one cluster's log to the tables; one per process.

    Invariants: a mark is raised only after its append is committed; after any error nothing is
    appended any more, because an append whose answer was lost may have happened.
    """

    def __init__(
        self,
        lake: Lake,
        status: StatusFile,
        locks: CommitLocks,
        late: LateSchemas,
        finished: Finished | None = None,
        workers: int = 1,
        planned: Callable[[int], Mapping[Partition, int]] = lambda batch_id: {},
    ) -> None:
        """`finished`: what the queries' checkpoints say, if they say anything. `workers`: processes
        that make rows. `planned`: next offsets behind a batch of `details`, before it is read.
        """
        if lake.cluster_id is None:
            raise LakehouseError("landing needs to know whose log it is")
        self._lake, self._cluster_id = lake, lake.cluster_id
        self._open = delta.OpenTables(lake)
        self._status, self._locks = status, locks
        self._late, self._read_with = late, late.version
        self._catalogue = Catalogue(late.of)
        self._finished, self._waiting = finished or Finished(), False
        self._workers, self._planned = ColumnWorkers(workers), planned
        self._shared = SharedBatches(lambda place: self._finished.of(FIRST, place) + 1)
        self._ready: dict[str, TableSpec] = {}
        self._marks = _Marks(self._mark_of)
        self._noted = NOTHING_LOST
        # One pool each: a decision must not queue behind the appends of broker events.
        self._appends = {
            FIRST: ThreadPoolExecutor(2, thread_name_prefix="append-first"),
            DETAILS: ThreadPoolExecutor(DETAIL_APPENDS_AT_ONCE, thread_name_prefix="append"),
        }
        self._gates = {FIRST: threading.Lock(), DETAILS: threading.Lock()}
        self.closed = False
        self.failure: BaseException | None = None

    def prepare(self) -> int:
        """Make what tables are missing and see how far each one is; the number of tables made."""
        made = sum(self._fit(table) for table in TABLES)
        self._locks.also(LOSSES.name)
        with self._locks.held(LOSSES.name):
            made += delta.ensure_table(self._lake, LOSSES)[0]
        for table in TABLES:
            self._marks[table.name] = self._mark_of(table.name)
        self._take_noted(read_losses(self._lake))
        return made

    @property
    def landed(self) -> HighWater:
        """How far bronze is."""
        return self._marks[BRONZE.name]

    def note_losses(
        self, spark: Any, begins: Mapping[Partition, int], accepted: Collection[Gap] = ()
    ) -> None:
        """Write down what never landed and the log no longer holds: it begins at these offsets.
        Raises `LandingGap` where that may not be lost.
        """
        now_ms = time.time_ns() // 1_000_000
        new = to_note(begins, self.landed, self._noted, accepted, now_ms)
        if new:
            self._land(FIRST, lambda: self._note(spark, new), "noting what the log has dropped")

    def stands_at(self, query: str, begins: Mapping[Partition, int]) -> dict[Partition, int]:
        """The next offset that the query needs of each partition of a log that begins at these."""
        return {
            place: max(first, self._finished.of(query, place) + 1)
            for place, first in begins.items()
        }

    def finished(self, query: str, place: Partition) -> int:
        """The last offset that the query has finished, -1 if none."""
        return self._finished.of(query, place)

    def land_first(self, batch: Any, batch_id: int) -> None:
        """Take one micro-batch into bronze and decisions."""
        self._land(
            FIRST, lambda: self._take(FIRST, batch, batch_id), f"batch {batch_id} of {FIRST}"
        )

    def land_details(self, batch: Any, batch_id: int) -> None:
        """Take one micro-batch into all other silver tables."""
        self._land(
            DETAILS, lambda: self._take(DETAILS, batch, batch_id), f"batch {batch_id} of {DETAILS}"
        )

    def refill(self, spark: Any, begins: Mapping[Partition, int]) -> None:
        """Take from bronze what no checkpoint vouches for and the log no longer holds: it begins at
        these offsets.
        """
        stretches = unknown_stretches(begins, self._finished)
        for rows in batches_of_bronze(self._lake, stretches):
            self._land(DETAILS, partial(self._refill, spark, rows), "reading bronze again")
        for query in (FIRST, DETAILS):
            self._finished.raise_to(
                query, {place: end - 1 for place, (_, end) in stretches.items()}
            )

    def read_again(self, spark: Any) -> None:
        """Append what became no row when it came, and can be read by what is known now. Its row in
        `silver/unreadable` stays.
        """
        self._land(DETAILS, lambda: self._read_again(spark), "reading unreadable records again")

    def read_again_if_learned(self, spark: Any) -> None:
        """The same, if files of schemas have changed since they were looked at last, or if
        something had to wait.
        """
        self._late.look_again()
        is_due = self._waiting or self._read_with != self._late.version
        if is_due and self.failure is None:
            self.read_again(spark)

    def close(self) -> None:
        """Wait for batches at work; later ones are refused and come again after a restart."""
        held = [gate for gate in self._gates.values() if gate.acquire(timeout=STOP_WAIT_S)]
        self.closed = True
        for gate in held:
            gate.release()
        for pool in self._appends.values():
            pool.shutdown()
        self._workers.close()

    def _land(self, query: str, work: Callable[[], None], what: str) -> None:
        with self._gates[query]:
            try:
                if self.closed or self.failure is not None:
                    raise LakehouseError("the landing job is stopping")
                work()
            except BaseException as error:
                # Logged here: what Spark makes of an error in a callback can hide its cause.
                if not self.closed:
                    self.failure = self.failure or error
                    log.error("%s failed: %s", what, error_text(error))
                raise

    def _take(self, query: str, batch: Any, batch_id: int) -> None:
        for rows in self._pieces(query, batch, batch_id):
            self._take_piece(query, rows, batch.sparkSession, batch_id)

    def _pieces(self, query: str, batch: Any, batch_id: int) -> Iterable[pa.Table]:
        """The records of a batch in log order. Those that the first query has read are not read
        again.
        """
        if query == DETAILS:
            wanted = {
                place: (start, end)
                for place, end in self._planned(batch_id).items()
                if (start := self._finished.of(DETAILS, place) + 1) < end
            }
            known = (
                self._shared.take(wanted, SHARED_WITHIN_S, self._is_stopping) if wanted else None
            )
            if known is not None:
                return batch_reading.cut(known)
        return batch_reading.pieces(batch)

    def _take_piece(self, query: str, rows: pa.Table, spark: Any, batch_id: int) -> None:
        began = time.monotonic()
        share = batches.DECIDED if query == FIRST else batches.DETAILED
        if query == DETAILS:
            self._finished.require_no_hole(query, batches.positions(rows))
        new = self._silver(rows, share)
        if query == FIRST:
            new = self._with_bronze(new, rows, batch_id)
        self._append_all(query, spark, new)
        last = batches.last_positions(rows)
        self._raise_marks(query, share, last)
        if query == FIRST:
            begun = {place: self._finished.of(FIRST, place) + 1 for place in last}
            self._shared.put(
                rows,
                {place: (start, max(start, last[place] + 1)) for place, start in begun.items()},
            )
        self._finished.raise_to(query, last)
        if query == DETAILS:
            self._shared.forget(lambda place: self._finished.of(DETAILS, place))
        count = sum(table.num_rows for table in new.values())
        taken_ms = round((time.monotonic() - began) * 1000)
        which = "landed" if query == FIRST else "detailed"
        self._status.batch_done(which, next_offsets(last), count, taken_ms)
        for table in (t for t in (UNREADABLE,) if t.name in new):
            log.warning("%d records are unreadable, see %s", new[table.name].num_rows, table.name)
        log.debug("%s batch %d: %d rows in %d ms", query, batch_id, count, taken_ms)

    def _silver(self, rows: pa.Table, share: batches.Share) -> dict[str, pa.Table]:
        return batches.silver_tables(
            self._cluster_id, rows, share, self._marks, self._catalogue, self._workers.typed
        )

    def _is_stopping(self) -> bool:
        return self.closed or self.failure is not None

    def _with_bronze(
        self, new: dict[str, pa.Table], rows: pa.Table, batch_id: int
    ) -> dict[str, pa.Table]:
        mark = self._marks[BRONZE.name]
        bronze = batches.bronze_rows(
            self._cluster_id, rows, mark, batch_id, datetime.now(UTC), self._noted
        )
        return {BRONZE.name: bronze, **new} if bronze.num_rows else new

    def _raise_marks(self, query: str, share: batches.Share, last: Mapping[Partition, int]) -> None:
        for name, mark in list(self._marks.items()):
            if name == BRONZE.name:
                taken = list(last.items()) if query == FIRST else []
            else:
                own = self._catalogue.tables[name].topic
                taken = [
                    place
                    for place in last.items()
                    if own in (None, place[0][0]) and share.takes(place[0][0], name)
                ]
            mark.raise_to(taken)

    def _append_all(self, query: str, spark: Any, new: Mapping[str, pa.Table]) -> None:
        """Append to several tables at a time: most of an append is waiting for its commit.
        Unreadable records go before all others.
        """
        for together in ({UNREADABLE.name} & set(new), set(new) - {UNREADABLE.name}):
            jobs = [
                self._appends[query].submit(self._append, spark, name, rows)
                for name, rows in new.items()
                if name in together
            ]
            errors = [error for job in jobs if (error := job.exception()) is not None]
            if errors:
                raise errors[0]

    def _append(self, spark: Any, name: str, rows: pa.Table) -> None:
        table = self._catalogue.tables[name]
        self._fit(table)
        with self._locks.held(name):
            append(spark, self._lake, table, rows, self._open)

    def _fit(self, table: TableSpec) -> bool:
        """Make the table if it is missing (True), give it the columns it lacks, take over those
        that it has more.
        """
        if self._ready.get(table.name) is table:
            return False
        self._locks.also(table.name)
        with self._locks.held(table.name):
            made, columns = delta.ensure_table(self._lake, table)
        self._catalogue.fit(table.name, columns)
        self._ready[table.name] = self._catalogue.tables[table.name]
        return made

    def _mark_of(self, name: str) -> HighWater:
        self._fit(self._catalogue.tables[name])
        return delta.high_water(self._lake, self._catalogue.tables[name])

    def _refill(self, spark: Any, rows: pa.Table) -> None:
        share = batches.EVERYTHING
        new = self._silver(rows, share)
        self._append_all(DETAILS, spark, new)
        self._raise_marks(DETAILS, share, batches.last_positions(rows))
        if new:
            count = sum(table.num_rows for table in new.values())
            log.info("%d rows that silver lacked were made from bronze", count)

    def _note(self, spark: Any, new: Sequence[Loss]) -> None:
        with self._locks.held(LOSSES.name):
            append(spark, self._lake, LOSSES, loss_rows(self._cluster_id, new), self._open)
        for one in new:
            log.warning("noted as lost: %s", one.said)
        self._take_noted(Losses((*self._noted.noted, *new)))

    def _take_noted(self, noted: Losses) -> None:
        self._noted = noted
        self._status.update(lost_records=noted.records())

    def _read_again(self, spark: Any) -> None:
        self._late.look_again()
        self._read_with = self._late.version
        quarantine = Quarantine(self._lake, self._catalogue, self._finished, self._places_in)
        for new in quarantine.readable():
            for name, rows in new.items():
                self._append(spark, name, rows)
                log.info(
                    "%d records that were unreadable when they came are in %s now",
                    rows.num_rows,
                    name,
                )
        self._waiting = quarantine.waiting > 0

    def _places_in(self, name: str) -> set[tuple[str, int, int]]:
        table = self._catalogue.tables[name]
        self._fit(table)
        columns = ["log_partition", "log_offset"]
        rows = delta.read(self._lake, table, columns=columns).to_pydict()
        return {
            (str(table.topic), *place)
            for place in zip(*(rows[column] for column in columns), strict=True)
        }


def append(
    spark: Any, lake: Lake, table: TableSpec, rows: pa.Table, tables: delta.OpenTables
) -> None:
    """Append rows to one table, in one commit with one file per partition; a field that the table
    lacks is added to it.

    In a folder it takes a sixth of the time without Spark, which needs a second for the first
    append to each table. Commits to an object store are Spark's: there it alone has what makes
    them atomic.
    """
    if lake.folder is not None:
        tables.append(table, rows)
        return
    frame = spark.createDataFrame(rows).coalesce(1)
    writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
    writer.partitionBy(*table.partition_by).save(lake.spark_uri(table))
