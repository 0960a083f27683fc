"""
The landing job: Kafka -> Spark Structured Streaming -> Delta.

Responsible for starting Spark, running two queries over all topics and stopping them:
`first` appends bronze and decisions, `details` all other silver tables, so that a burst of broker
events never delays the row a person waits for. What is appended is decided in `landing`.
Refuses to know what records mean.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from events.topics import TOPICS
from lakehouse import delta_tables, landing, log_probe, writer_lock
from lakehouse.checkpoint import finished_offsets
from lakehouse.config import LandConfig
from lakehouse.errors import LakehouseError
from lakehouse.high_water import HighWater, next_offsets
from lakehouse.kafka_settings import spark_options
from lakehouse.session import build_session, stop_session
from lakehouse.status import StatusFile
from lakehouse.tables import (
    BRONZE,
    BY_NAME,
    DECISIONS,
    DETAIL_TABLES,
    TABLES,
    UNREADABLE,
    TableSpec,
)

log = logging.getLogger(__name__)

# Names of the two queries, and of their checkpoints.
FIRST, DETAILS = "first", "details"
TOPIC_NAMES = tuple(spec.name for spec in TOPICS)
DETAIL_APPENDS_AT_ONCE = 1
WATCH_S = 0.2
STATUS_EVERY_S = 2.0
STOP_WAIT_S = 60.0
ERROR_CHARS_MAX = 2_000


class Lander:
    """
    Appends batches to the tables; one per process.

    Invariants: a mark is raised only after its append is committed; after any error nothing is
    appended any more, because an append whose answer was lost may have happened.
    """

    def __init__(self, tables_dir: Path, marks: Mapping[str, HighWater], status: StatusFile) -> None:
        self._tables_dir = tables_dir
        self._marks = marks
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
            new = landing.silver_tables(rows, DETAIL_TABLES, self._marks)
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
        bronze = landing.bronze_rows(rows, mark, batch_id, datetime.now(UTC))
        new = landing.silver_tables(rows, (DECISIONS,), self._marks)
        return {BRONZE.name: bronze, **new} if bronze.num_rows else new

    def _append_all(self, query: str, spark: Any, new: Mapping[str, pa.Table]) -> None:
        """Append to several tables at a time: most of an append is waiting for its commit."""
        jobs = [
            self._appends[query].submit(append, spark, self._tables_dir, BY_NAME[name], rows)
            for name, rows in new.items()
        ]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        if errors:
            raise errors[0]


def append(spark: Any, tables_dir: Path, table: TableSpec, rows: pa.Table) -> None:
    """Append rows to one table, in one commit with one file per partition."""
    path = str(delta_tables.table_path(tables_dir, table))
    frame = spark.createDataFrame(rows).coalesce(1)
    frame.write.format("delta").mode("append").partitionBy(*table.partition_by).save(path)


def start_query(spark: Any, config: LandConfig, name: str, take: Any, trigger_ms: int) -> Any:
    """Start one streaming query over all topics; `take(batch, batch_id)` gets each batch."""
    source = (
        spark.readStream.format("kafka")
        .options(**spark_options(config.kafka))
        .option("subscribe", ",".join(TOPIC_NAMES))
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", config.offsets_per_batch)
        .load()
    )
    return (
        source.writeStream.queryName(name)
        .foreachBatch(take)
        .option("checkpointLocation", str((config.checkpoint_dir / name).resolve()))
        .trigger(processingTime=f"{trigger_ms} milliseconds")
        .start()
    )


async def run(config: LandConfig) -> int:
    """
    Land until told to stop (SIGTERM, SIGINT: 0) or until something fails (1).

    What failed stands in the log and in the status file.
    """
    stop = threading.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        return await asyncio.to_thread(land, config, stop)
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def land(config: LandConfig, stop: threading.Event) -> int:
    """The same without asyncio: land until `stop` is set."""
    status = StatusFile(config.tables_dir)
    try:
        # Not before the lock: the status may be that of a job at work.
        lock = writer_lock.acquire(config.tables_dir / ".writer.lock", config.lock_wait_ms)
    except LakehouseError as error:
        log.error("%s", error)
        return 1
    try:
        _land_locked(config, stop, status, lock)
    except Exception as error:
        if stop.is_set():
            # Who stops a whole process group ends the Java process under our feet; appends are
            # whole or not there, so this is a clean stop too.
            log.info("ended while stopping: %s", type(error).__name__)
            status.update(ready=False, stage="stopped")
            return 0
        text = error_text(error)
        log.error("landing has stopped: %s", text)
        status.update(ready=False, stage="failed", error=text)
        return 1
    finally:
        writer_lock.release(lock)
    status.update(ready=False, stage="stopped")
    return 0


def _land_locked(
    config: LandConfig, stop: threading.Event, status: StatusFile, lock: int
) -> None:
    def tell(text: str) -> None:
        log.info("%s", text)
        status.update(stage=text)

    began = time.monotonic()
    tell("starting Spark")
    scratch = config.checkpoint_dir / "scratch"
    # What a killed predecessor left behind.
    shutil.rmtree(scratch, ignore_errors=True)
    spark = build_session(config.spark_settings(scratch), "regent-land", inherited_fds=[lock])
    try:
        tell(f"Spark is up after {time.monotonic() - began:.1f} s, warming up")
        _warm_up(spark, scratch)
        log_probe.wait_for_topics(config.kafka, TOPIC_NAMES, stopped=stop.is_set, tell=tell)
        if stop.is_set():
            return
        made = delta_tables.ensure_tables(config.tables_dir)
        marks = delta_tables.high_waters(config.tables_dir, TABLES)
        _check_log(config, marks[BRONZE.name])
        status.update(
            landed=finished_offsets(config.checkpoint_dir / FIRST),
            detailed=finished_offsets(config.checkpoint_dir / DETAILS),
        )
        tell(f"{len(TABLES)} tables, {made} of them new; starting queries")
        _run_queries(spark, config, Lander(config.tables_dir, marks, status), status, stop, began)
    finally:
        tell("stopping Spark")
        stop_session(spark)


def _check_log(config: LandConfig, mark: HighWater) -> None:
    log_probe.check_same_log(
        config.kafka,
        mark,
        lambda offset: delta_tables.bronze_value(
            config.tables_dir, BRONZE, log_probe.COMMANDS_TOPIC, offset
        ),
    )


def _run_queries(
    spark: Any,
    config: LandConfig,
    lander: Lander,
    status: StatusFile,
    stop: threading.Event,
    began: float,
) -> None:
    queries = [
        start_query(spark, config, FIRST, lander.land_first, config.decisions_trigger_ms),
        start_query(spark, config, DETAILS, lander.land_details, config.details_trigger_ms),
    ]
    caught_up = threading.Thread(
        target=_tell_ready, args=(queries, status, lander, began), daemon=True, name="catch-up"
    )
    caught_up.start()
    told_at = time.monotonic()
    try:
        while not stop.wait(WATCH_S):
            for query in queries:
                if not query.isActive:
                    raise lander.failure or query.exception() or LakehouseError("a query ended")
            if time.monotonic() - told_at > STATUS_EVERY_S:
                told_at = time.monotonic()
                status.update()
    finally:
        lander.close()
        for query in queries:
            query.stop()


def _tell_ready(
    queries: list[Any], status: StatusFile, lander: Lander, began: float
) -> None:
    """Say that the job is ready once everything that was there at its start has landed."""
    try:
        for query in queries:
            query.processAllAvailable()
    except Exception:  # The watching thread sees the same error and reports it.
        log.debug("a query ended before it had caught up")
        return
    if not lander.closed:
        status.update(ready=True, stage="landing")
        log.info("ready after %.1f s", time.monotonic() - began)


def _warm_up(spark: Any, scratch_dir: Path) -> None:
    """Make Spark load what an append needs, ten seconds of it, before anyone waits for a row."""
    path = str((scratch_dir / f"warm-up-{time.time_ns()}").resolve())
    rows = DECISIONS.schema.empty_table()
    for _ in range(2):
        spark.createDataFrame(rows).coalesce(1).write.format("delta").mode("append").save(path)


def error_text(error: BaseException) -> str:
    """One paragraph on what went wrong, with the way out where Spark's text has none."""
    text = str(error)
    if "data loss" in text.lower() or "OffsetOutOfRange" in text or "failOnDataLoss" in text:
        return (
            "the log no longer holds records that have not landed. Restore them, or keep these "
            f"tables and land into a new folder. Spark says: {text[:ERROR_CHARS_MAX]}"
        )
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return "Spark's Java process has ended; its own last lines stand in the log of this job"
    return f"{type(error).__name__}: {text}"[:ERROR_CHARS_MAX]
