"""The landing job: Kafka -> Spark Structured Streaming -> Delta.

Responsible for starting Spark, running two queries over all topics and stopping them: `first`
appends bronze and decisions, `details` all other silver tables, so that a burst of broker events
never delays the row a person waits for. Batches are appended by `lander`; what goes on beside them
is `landing.background`.
Refuses to know what records mean.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from events.topics import COMMANDS_TOPIC, TOPIC_NAMES
from lakehouse.care.maintain import lake_locks
from lakehouse.errors import LakehouseError
from lakehouse.landing import log_probe, writer_lock
from lakehouse.landing.appends import DETAILS, FIRST, Lander
from lakehouse.landing.background import beside
from lakehouse.landing.config import LandConfig
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.landing.source import finished_offsets, spark_options
from lakehouse.landing.status import StatusFile
from lakehouse.spark_session import build_session, java_errors, stop_session, wait_for_executors
from lakehouse.tables import delta
from lakehouse.tables.commit_lock import LOCK_FOLDER, CommitLocks
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, DECISIONS

log = logging.getLogger("regent.lake.landing")

OWN_LOCK = ".landing.lock"
"""In the job's local folder: the status file and the checkpoint are one job's."""
WATCH_S = 0.2
STATUS_EVERY_S = 2.0
ERROR_CHARS_MAX = 2_000


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
        .option("checkpointLocation", config.checkpoint_of(name))
        .trigger(processingTime=f"{trigger_ms} milliseconds")
        .start()
    )


async def run(config: LandConfig) -> int:
    """Land until a request to stop (SIGTERM, SIGINT: 0) or until something fails (1).

    What failed stands in the log and in the status file.
    """
    # Before any thread and the Java process: they inherit it.
    os.nice(config.niceness)
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
    status = StatusFile(config.local_dir)
    with ExitStack() as held:
        try:
            # Not before the lock: the status may be that of a job at work.
            own = _locked(held, config.local_dir / OWN_LOCK, str(config.local_dir), config)
        except (LakehouseError, OSError) as error:
            log.error("%s", error)
            return 1
        try:
            _land_alone(config, stop, status, held, own)
        except Exception as error:
            if stop.is_set():
                # A signal to the whole process group ends the Java process under our feet; appends
                # are whole or not there, so this is a clean stop too.
                log.info("ended while stopping: %s", type(error).__name__)
                status.update(ready=False, stage="stopped")
                return 0
            text = error_text(error)
            log.error("landing has stopped: %s", text)
            status.update(ready=False, stage="failed", error=text)
            return 1
    status.update(ready=False, stage="stopped")
    return 0


def _locked(held: ExitStack, path: Path, what: str, config: LandConfig) -> int:
    lock = writer_lock.acquire(path, config.lock_wait_ms, what)
    held.callback(writer_lock.release, lock)
    return lock


def _land_alone(
    config: LandConfig, stop: threading.Event, status: StatusFile, held: ExitStack, own: int
) -> None:
    """Land, as the only job that uses this configuration."""

    def tell(text: str) -> None:
        log.info("%s", text)
        status.update(stage=text)

    cluster_id = config.cluster_id or _cluster_of_log(config, stop, tell)
    if cluster_id is None:
        return
    lake, inherited = config.lake(cluster_id), [own]
    locks = lake_locks(lake)
    held.callback(locks.close)
    if lake.folder is not None:
        path = lake.folder / LOCK_FOLDER / f"land.{quote(cluster_id, safe='')}.lock"
        inherited += [
            _locked(held, path, f"cluster {cluster_id} in {lake.root}", config),
            *locks.open_files,
        ]
    _land_in(lake, locks, inherited, config, stop, status, tell)


def _land_in(
    lake: Lake,
    locks: CommitLocks,
    inherited: Sequence[int],
    config: LandConfig,
    stop: threading.Event,
    status: StatusFile,
    tell: Callable[[str], None],
) -> None:
    """Land, as the only job of this cluster in this lake."""
    began = time.monotonic()
    tell("starting Spark")
    scratch = config.local_dir / "scratch"
    # What a killed predecessor left behind.
    shutil.rmtree(scratch, ignore_errors=True)
    spark = build_session(config.spark_settings(scratch), "regent-land", inherited_fds=inherited)
    try:
        tell(f"Spark is up after {time.monotonic() - began:.1f} s")
        if config.spark_master is not None:
            if not wait_for_executors(spark, stop.is_set, tell):
                return
        elif lake.folder is None:
            # Executors elsewhere would not see the folder of a warm-up.
            tell("warming up")
            _warm_up(spark, scratch)
        if _cluster_of_log(config, stop, tell) is None:
            return
        lander = Lander(lake, status, locks, LateSchemas(config.schemas_dirs))
        tell(f"cluster {lake.cluster_id}: {lander.prepare()} new tables")
        _check_log(config, lake, lander.landed)
        lander.read_again(spark)
        status.update(
            landed=finished_offsets(config.checkpoint_of(FIRST)),
            detailed=finished_offsets(config.checkpoint_of(DETAILS)),
        )
        tell("starting queries")
        with beside(config, lake, locks, status):
            _run_queries(spark, config, lander, status, stop, began)
    except java_errors() as error:
        raise LakehouseError(str(error)) from error
    finally:
        tell("stopping Spark")
        stop_session(spark)


def _cluster_of_log(
    config: LandConfig, stop: threading.Event, tell: Callable[[str], None]
) -> str | None:
    """Whose log it is, once there is one; None when stopped before. Refuses a cluster that is not
    the configured one.
    """
    log_probe.wait_for_topics(config.kafka, TOPIC_NAMES, stopped=stop.is_set, tell=tell)
    return log_probe.wait_for_cluster(
        config.kafka, config.cluster_id, stopped=stop.is_set, tell=tell
    )


def _check_log(config: LandConfig, lake: Lake, mark: HighWater) -> None:
    log_probe.check_same_log(
        config.kafka, mark, lambda offset: delta.bronze_value(lake, BRONZE, COMMANDS_TOPIC, offset)
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
                lander.read_again_if_learned(spark)
    finally:
        lander.close()
        for query in queries:
            query.stop()


def _tell_ready(queries: list[Any], status: StatusFile, lander: Lander, began: float) -> None:
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
    """Make Spark load what an append needs, ten seconds of it, before anyone waits for a row; only
    where Spark appends (`appends.append`).
    """
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
    if os.strerror(errno.ENOSPC) in text:
        return (
            f"{os.strerror(errno.ENOSPC)}: the disk of the tables, of the checkpoint or of "
            "work_dir is full. Make room and begin again: landing goes on where the tables end. "
            f"Spark says: {text[:ERROR_CHARS_MAX]}"
        )
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return "Spark's Java process has ended; its own last lines stand in the log of this job"
    return f"{type(error).__name__}: {text}"[:ERROR_CHARS_MAX]
