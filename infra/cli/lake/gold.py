"""`regent lake gold`: the tables that answer questions, brought up to what has landed, once or
every some seconds.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from infra.cli.lake.arguments import WAY_OUT_WHEN_BEHIND, add_lake_arguments, lake_of
from infra.cli.lake.spark import spark_for
from infra.cli.stop_signals import told_to_stop
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

if TYPE_CHECKING:
    from lakehouse.gold.job import GoldJob
    from lakehouse.tables.lake import Lake


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, how often, and whether from the beginning and by Spark."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--every",
        type=float,
        metavar="S",
        help=("again and again until told to stop (default: once)"),
    )
    parser.add_argument(
        "--from-start",
        action="store_true",
        help=("throw the cluster's gold away first and build it from all that has landed"),
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help=(
            "let Spark merge the rows: for gold tables that are too big for one machine's memory"
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when gold holds all that has landed, or on a stop. Problem with the way out."""
    from lakehouse.errors import LakehouseError

    if arguments.every is not None and arguments.every <= 0:
        raise Problem(
            f"--every {arguments.every:g} is not above 0",
            "Name the seconds between two runs.",
            EXIT_USAGE,
        )
    lake = lake_of(arguments)
    try:
        with _job(lake, by_spark=arguments.spark) as job:
            if arguments.from_start:
                job.forget()
            _runs(job, arguments, lambda done: _tell(lake, done, arguments.json))
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT_WHEN_BEHIND) from error
    return EXIT_DONE


@contextmanager
def _job(lake: Lake, *, by_spark: bool) -> Iterator[GoldJob]:
    from lakehouse.gold.job import WRITTEN, GoldJob
    from lakehouse.gold.merge import merge_rows
    from lakehouse.gold.merge_spark import merge_in
    from lakehouse.tables.commit_lock import CommitLocks

    with ExitStack() as held:
        locks = CommitLocks(lake.folder, [table.name for table in WRITTEN])
        held.callback(locks.close)
        spark = (
            held.enter_context(
                spark_for("gold", locks.open_files, object_store=lake.folder is None)
            )
            if by_spark
            else None
        )
        merge = merge_rows if spark is None else merge_in(spark)
        job = GoldJob(lake, locks, merge)
        held.callback(job.close)
        yield job


def _runs(
    job: GoldJob, arguments: argparse.Namespace, tell: Callable[[dict[str, int]], None]
) -> None:
    with told_to_stop() as stop:
        tell(_bring_up(job, stop))
        while arguments.every is not None and not stop.wait(arguments.every):
            done = _bring_up(job, stop)
            if done["rows"]:
                tell(done)


def _bring_up(job: GoldJob, stop: threading.Event) -> dict[str, int]:
    done = {"commands": 0, "rows": 0}
    while not stop.is_set():
        step = job.step()
        done["commands"] += step.commands
        done["rows"] += step.rows
        if not step.commands:
            break
    return done


def _tell(lake: Lake, done: dict[str, int], as_json: bool) -> None:
    from lakehouse.gold.reader import gold_standing

    standing = gold_standing(lake)
    model: dict[str, Any] = {"cluster_id": lake.cluster_id, **done, **standing.as_dict()}
    told = (
        f"cluster {lake.cluster_id}: {done['commands']} commands folded, {done['rows']} rows "
        f"merged; {standing.text()}"
    )
    print(json.dumps(model) if as_json else told, flush=True)
