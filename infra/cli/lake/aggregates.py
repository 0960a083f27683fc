"""`regent lake aggregates`: failovers by the hour and lag of slaves by five minutes, with
Structured Streaming.
"""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from infra.cli.lake.arguments import add_lake_arguments, lake_of
from infra.cli.lake.spark import spark_for
from infra.cli.stop_signals import told_to_stop
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

if TYPE_CHECKING:
    from lakehouse.gold.aggregates_job import AggregatesJob, Intake
    from lakehouse.tables.lake import Lake

WATERMARK_S = 600


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
    from lakehouse.tables.commit_lock import CommitLocks

    for flag, value in (("--every", arguments.every), ("--watermark", arguments.watermark)):
        if value is not None and value <= 0:
            raise Problem(f"{flag} {value:g} is not above 0", "Name seconds.", EXIT_USAGE)
    lake = lake_of(arguments)
    try:
        with ExitStack() as held:
            locks = CommitLocks(lake.folder, [table.name for table in AGGREGATE_TABLES])
            held.callback(locks.close)
            spark = held.enter_context(
                spark_for("aggregates", locks.open_files, object_store=lake.folder is None)
            )
            _runs(
                AggregatesJob(spark, lake, locks, arguments.checkpoint, arguments.watermark),
                lake,
                arguments,
            )
    except LakehouseError as error:
        raise Problem(
            str(error),
            "'regent status' shows how far the landing job is; without its checkpoint the job "
            "counts all anew.",
        ) from error
    return EXIT_DONE


def _runs(job: AggregatesJob, lake: Lake, arguments: argparse.Namespace) -> None:
    told: list[Intake] | None = None
    with told_to_stop() as stop:
        while True:
            found = job.step()
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
