"""`regent lake aggregates`: failovers by the hour and lag of slaves by five minutes, with
Structured Streaming.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.lake.arguments import add_lake_arguments, check_seconds, lake_of
from infra.cli.lake.spark import spark_for
from infra.cli.stop_signals import told_to_stop
from infra.cluster.data_folder import DataFolder
from infra.problems import EXIT_DONE, Problem

if TYPE_CHECKING:
    from lakehouse.gold.aggregates_job import AggregatesJob, Intake
    from lakehouse.tables.lake import Lake

WATERMARK_S = 600
JAVA_LOG = "aggregates-java.log"
LOCK_WAIT_MS = 10_000
"""The Java process of a job that has just ended may commit for a moment."""


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, how often, and how late a row may be."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--every",
        type=float,
        metavar="S",
        help=("again and again until told to stop (default: once)"),
    )
    parser.add_argument(
        "--watermark",
        type=int,
        default=WATERMARK_S,
        metavar="S",
        help=(
            "how late a row may land and still be counted, seconds behind the "
            f"latest (default {WATERMARK_S})"
        ),
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER|URI",
        help=("where the queries keep their progress (default: in the lake)"),
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when all that has landed is counted, or on a stop. Problem with the way out."""
    from lakehouse.errors import LakehouseError
    from lakehouse.gold.aggregate_tables import AGGREGATE_TABLES
    from lakehouse.gold.aggregates_job import AggregatesJob
    from lakehouse.landing import writer_lock
    from lakehouse.spark_session import java_errors
    from lakehouse.tables.commit_lock import CommitLocks
    from lakehouse.troubles import error_text, java_words_go_to, note_java

    check_seconds("--every", arguments.every)
    check_seconds("--watermark", arguments.watermark)
    lake = lake_of(arguments)
    java_log = _java_log(arguments)
    try:
        with ExitStack() as held:
            locks = CommitLocks(lake.folder, [table.name for table in AGGREGATE_TABLES])
            held.callback(locks.close)
            alone = _alone(held, lake)
            java_words_go_to(java_log)
            spark = held.enter_context(
                spark_for(
                    "aggregates",
                    [*alone, *locks.open_files],
                    object_store=lake.folder is None,
                    java_log=java_log,
                )
            )
            job = AggregatesJob(
                spark,
                lake,
                locks,
                arguments.checkpoint,
                arguments.watermark,
                require_alone=partial(writer_lock.require_held, alone),
            )
            try:
                _runs(job, lake, arguments, java_log)
            except java_errors() as error:  # While Java lives: the words are its own.
                note_java(error)
                raise LakehouseError(error_text(error)) from error
    except LakehouseError as error:
        raise Problem(
            f"{error}. Java's own words are in {java_log}" if java_log.exists() else str(error),
            "'regent status' shows how far the landing job is.",
        ) from error
    return EXIT_DONE


def _java_log(arguments: argparse.Namespace) -> Path:
    """Where Java's words go: to the logs of the data folder; of tables elsewhere to the folder for
    what may be thrown away.
    """
    logs = DataFolder(arguments.dir.absolute()).logs
    if arguments.tables is None and logs.is_dir():
        return logs / JAVA_LOG
    return Path(tempfile.gettempdir()) / f"regent-{os.getuid()}-{JAVA_LOG}"


def _alone(held: ExitStack, lake: Lake) -> dict[int, Path]:
    """The open lock that keeps a second such job of this cluster away, with its place; none in an
    object store.
    """
    from lakehouse.landing import writer_lock

    if lake.folder is None or lake.cluster_id is None:
        return {}
    path = writer_lock.place_of(lake.folder, "aggregates", lake.cluster_id)
    what = f"aggregates of cluster {lake.cluster_id} in {lake.root}"
    lock = writer_lock.acquire(path, LOCK_WAIT_MS, what, "job of this kind")
    held.callback(writer_lock.release, lock)
    return {lock: path}


def _runs(job: AggregatesJob, lake: Lake, arguments: argparse.Namespace, java_log: Path) -> None:
    from lakehouse.troubles import keep_bounded

    told: list[Intake] | None = None
    with told_to_stop() as stop:
        while True:
            found = job.step()
            keep_bounded(java_log)
            if found is not None and found != told:
                told = found
                _tell(lake, found, arguments.json)
            if found is None and arguments.every is None:
                continue  # More landed meanwhile.
            if arguments.every is None or stop.wait(arguments.every):
                return


def _tell(lake: Lake, found: list[Intake], as_json: bool) -> None:
    import dataclasses

    model: dict[str, Any] = {
        "cluster_id": lake.cluster_id,
        "aggregates": [dataclasses.asdict(one) for one in found],
    }
    lines = [
        (f"{one.aggregate}: {one.counted} of {one.received} rows counted, {one.late} too late")
        for one in found
    ]
    print(json.dumps(model) if as_json else "\n".join(lines), flush=True)
