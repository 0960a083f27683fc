"""The landing job: Kafka -> Spark Structured Streaming -> Delta.

Responsible for starting Spark, running two queries over all topics and stopping them: `first`
appends bronze and decisions, `details` all other silver tables, so that a burst of broker events
never delays the row a person waits for. Batches are appended by `lander`; what goes on beside them
is `landing.background`.
Refuses to know what records mean.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from events.topics import TOPIC_NAMES
from lakehouse.care.maintain import lake_locks
from lakehouse.errors import LakehouseError
from lakehouse.landing import log_probe, writer_lock
from lakehouse.landing.appends import Lander
from lakehouse.landing.background import beside
from lakehouse.landing.config import LandConfig
from lakehouse.landing.finished import DETAILS, FIRST, Finished
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.landing.source import (
    finished_offsets,
    forget_checkpoint,
    must_begin_anew,
    planned_offsets,
    spark_options,
    starting_offsets,
)
from lakehouse.landing.status import StatusFile
from lakehouse.spark_session import build_session, java_errors, stop_session, wait_for_executors
from lakehouse.tables import delta
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.high_water import HighWater, Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, DECISIONS
from lakehouse.troubles import SparkFailed, error_text, java_words_go_to, keep_bounded, note_java

log = logging.getLogger("regent.lake.landing")

OWN_LOCK = ".landing.lock"
"""In the job's local folder: the status file and the checkpoint are one job's."""
WATCH_S = 0.2
STATUS_EVERY_S = 2.0


def start_query(
    spark: Any, config: LandConfig, name: str, take: Any, trigger_ms: int, at: str
) -> Any:
    """Start one streaming query over all topics; `take(batch, batch_id)` gets each batch. `at`:
    where it begins without a checkpoint, see `source.starting_offsets`.
    """
    source = (
        spark.readStream.format("kafka")
        .options(**spark_options(config.kafka))
        .option("subscribe", ",".join(TOPIC_NAMES))
        .option("startingOffsets", at)
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
            text = error_text(error, config.java_log)
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
    lake, alone = config.lake(cluster_id), {own: config.local_dir / OWN_LOCK}
    locks = lake_locks(lake)
    held.callback(locks.close)
    if lake.folder is not None:
        path = writer_lock.place_of(lake.folder, "land", cluster_id)
        alone[_locked(held, path, f"cluster {cluster_id} in {lake.root}", config)] = path
    _land_in(lake, locks, alone, config, stop, status, tell)


def _land_in(
    lake: Lake,
    locks: CommitLocks,
    alone: Mapping[int, Path],
    config: LandConfig,
    stop: threading.Event,
    status: StatusFile,
    tell: Callable[[str], None],
) -> None:
    """Land, as the only job of this cluster in this lake, which these open locks say."""
    began = time.monotonic()
    tell("starting Spark")
    java_words_go_to(config.java_log)
    scratch = config.local_dir / "scratch"
    # What a killed predecessor left behind.
    shutil.rmtree(scratch, ignore_errors=True)
    inherited = (*alone, *locks.open_files)
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
        Landing(spark, config, lake, locks, status, tell).until_stopped(stop, began, alone)
    except java_errors() as error:
        # While Java still holds its words.
        note_java(error)
        raise SparkFailed(str(error)) from error
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
        config.kafka,
        config.cluster_id,
        stopped=stop.is_set,
        tell=tell,
        may_be_unformed=config.without_controllers,
    )


class Landing:
    """Both queries of one cluster within one Spark session."""

    def __init__(
        self,
        spark: Any,
        config: LandConfig,
        lake: Lake,
        locks: CommitLocks,
        status: StatusFile,
        tell: Callable[[str], None],
    ) -> None:
        self._spark, self._config = spark, config
        self._lake, self._locks = lake, locks
        self._status, self._tell = status, tell
        self._schemas = LateSchemas(config.schemas_dirs)
        self._lander: Lander
        self._starts: dict[str, dict[Partition, int]] = {}
        """By query: where it would begin without a checkpoint."""

    def until_stopped(self, stop: threading.Event, began: float, alone: Mapping[int, Path]) -> None:
        """Land, with all that goes on beside it; `began`: when the job was started, `alone`: the
        locks it holds. Raises what ends it.
        """
        self._prepare()
        with beside(self._config, self._lake, self._locks, self._status):
            while not self._run(stop, began, alone):
                self._tell("the log has dropped records that had not landed: looking again")
                self._prepare()

    def _prepare(self) -> None:
        """See how far the tables are and where the log begins, note what lies between, and bring
        silver up to bronze. Raises `LandingGap`, `LakehouseError`.
        """
        spark, config = self._spark, self._config
        told = {
            name: finished_offsets(config.checkpoint_of(name), spark) for name in (FIRST, DETAILS)
        }
        lander = Lander(
            self._lake,
            self._status,
            self._locks,
            self._schemas,
            Finished(told),
            min(config.spark_cores, os.cpu_count() or 1),
            partial(planned_offsets, config.checkpoint_of(DETAILS)),
        )
        self._lander = lander
        self._tell(f"cluster {self._lake.cluster_id}: {lander.prepare()} new tables")
        _check_log(config, self._lake, lander.landed)
        begins = self._log_begins()
        lander.note_losses(spark, begins, config.accepted_gaps)
        lander.refill(spark, begins)
        lander.read_again(spark)
        for name, ends in told.items():
            self._starts[name] = lander.stands_at(name, begins)
            if must_begin_anew(ends, begins):
                forget_checkpoint(config.checkpoint_of(name), spark)
        self._status.update(landed=told[FIRST], detailed=told[DETAILS])

    def _run(self, stop: threading.Event, began: float, alone: Mapping[int, Path]) -> bool:
        """Land until stopped (True), or until the log has dropped what a query needs next (False).
        Raises what else ends a query.
        """
        self._tell("starting queries")
        lander, config = self._lander, self._config
        takes = {
            FIRST: (lander.land_first, config.decisions_trigger_ms),
            DETAILS: (lander.land_details, config.details_trigger_ms),
        }
        queries: list[Any] = []
        try:
            for name, (take, trigger_ms) in takes.items():
                at = starting_offsets(self._starts[name])
                queries.append(start_query(self._spark, config, name, take, trigger_ms, at))
            ready = (queries, self._status, lander, began)
            threading.Thread(target=_tell_ready, args=ready, daemon=True, name="catch-up").start()
            self._watch(queries, stop, alone)
        except Exception as error:
            if stop.is_set() or not self._is_overtaken():
                raise
            note_java(error)
            log.info("a query ended: %s", error_text(error))
            self._status.update(ready=False)
            return False
        finally:
            lander.close()
            for query in queries:
                query.stop()
        return True

    def _watch(self, queries: list[Any], stop: threading.Event, alone: Mapping[int, Path]) -> None:
        told_at = time.monotonic()
        while not stop.wait(WATCH_S):
            for query in queries:
                if not query.isActive:
                    failure = self._lander.failure or query.exception()
                    raise failure or LakehouseError("a query ended")
            writer_lock.require_held(alone)
            if time.monotonic() - told_at > STATUS_EVERY_S:
                told_at = time.monotonic()
                keep_bounded(self._config.java_log)
                self._status.update()
                self._lander.read_again_if_learned(self._spark)

    def _is_overtaken(self) -> bool:
        """Whether the log begins by now behind what a query needs next: it did not when the query
        began.
        """
        try:
            begins = self._log_begins()
        except LakehouseError:
            return False
        return any(
            first > max(self._starts[name].get(place, 0), self._lander.finished(name, place) + 1)
            for name in (FIRST, DETAILS)
            for place, first in begins.items()
        )

    def _log_begins(self) -> dict[Partition, int]:
        ends = log_probe.log_ends(self._config.kafka, TOPIC_NAMES)
        return {place: one.first for place, one in ends.items()}


def _check_log(config: LandConfig, lake: Lake, mark: HighWater) -> None:
    opened = delta.open_table(lake, BRONZE)
    log_probe.check_same_log(
        config.kafka, mark, partial(delta.bronze_value, lake, BRONZE, opened=opened)
    )


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
