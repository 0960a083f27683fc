"""`regent lake maintain`: the care of all tables of a lake, once or again and again, and what it
did as text.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from infra.cli.lake.arguments import WAY_OUT_WITHOUT_TABLES, add_lake_arguments, place_of
from infra.cli.status import table
from infra.cli.stop_signals import told_to_stop
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem

if TYPE_CHECKING:
    from lakehouse.care.maintain import TableCare
    from lakehouse.tables.lake import Lake

HEAD = (
    "TABLE",
    "FILES BEFORE",
    "AFTER",
    "MIB",
    "OPENS IN",
    "BEFORE",
    "HELD FOR",
    "REMOVED",
    "NOTE",
)


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, for how long time travel must stay possible, and how often."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--window",
        type=float,
        metavar="DAYS",
        help=("days for which time travel stays possible (default 30, at least 1)"),
    )
    parser.add_argument(
        "--every",
        type=float,
        metavar="SECONDS",
        help=("again and again, until SIGTERM or Ctrl-C; default: once"),
    )
    parser.add_argument(
        "--statistics",
        action="store_true",
        help=(
            "only this: where Delta's log says of a file what the file does not hold, which "
            "'regent verify' tells, write down what it holds"
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when every table is well, 1 when one could not be cared for; with --every that is reported
    and tried again, and a stop is 0.
    """
    from lakehouse.care.maintain import WINDOW_DAYS, WINDOW_DAYS_MIN

    arguments.window = WINDOW_DAYS if arguments.window is None else arguments.window
    if arguments.window < WINDOW_DAYS_MIN:
        raise Problem(
            f"--window {arguments.window:g} is too short",
            f"Use {WINDOW_DAYS_MIN} day or more: files that somebody is just reading must stay.",
            EXIT_USAGE,
        )
    if arguments.every is not None and arguments.every <= 0:
        raise Problem(
            f"--every {arguments.every:g} is no pause",
            "Name the seconds between two rounds.",
            EXIT_USAGE,
        )
    place = place_of(arguments)
    if arguments.statistics:
        if arguments.every is not None:
            raise Problem("--statistics is done once", "Leave --every out.", EXIT_USAGE)
        return _statistics(place, as_json=arguments.json)
    if arguments.every is None:
        return _round(place, arguments, threading.Event())
    with told_to_stop() as stop:
        while not stop.is_set():
            _round(place, arguments, stop)
            stop.wait(arguments.every)
    return EXIT_DONE


def _round(place: Lake, arguments: argparse.Namespace, stop: threading.Event) -> int:
    from lakehouse.care.maintain import lake_locks, maintain
    from lakehouse.errors import LakehouseError

    locks = lake_locks(place)
    try:
        done = list(maintain(place, locks, arguments.window, stopped=stop.is_set))
    except LakehouseError as error:
        raise Problem(
            str(error),
            "Name an existing --dir or --tables; --storage-option says how to reach an object "
            "store.",
        ) from error
    finally:
        locks.close()
    if not done and not stop.is_set():
        raise Problem(f"no tables in {place.root}", WAY_OUT_WITHOUT_TABLES)
    print(
        json.dumps([one.as_dict() for one in done], indent=1)
        if arguments.json
        else "\n".join(told(done)),
        flush=True,
    )
    return EXIT_FAILED if any(one.problem for one in done) else EXIT_DONE


def _statistics(place: Lake, *, as_json: bool) -> int:
    from lakehouse.care.maintain import lake_locks
    from lakehouse.care.restate import restate
    from lakehouse.errors import LakehouseError
    from lakehouse.sql.named_tables import there

    locks = lake_locks(place)
    try:
        done = list(restate(place, locks, list(there(place).values())))
    except LakehouseError as error:
        raise Problem(str(error), "'regent verify' tells what is wrong with a table.") from error
    finally:
        locks.close()
    lines = [
        f"{one.table}: {one.files} files listed anew with what they hold (version {one.version})"
        for one in done
    ]
    print(
        json.dumps([asdict(one) for one in done], indent=1)
        if as_json
        else "\n".join([*lines, f"{len(done)} tables had false statistics"]),
        flush=True,
    )
    return EXIT_DONE


def told(done: Sequence[TableCare]) -> list[str]:
    """A line for each table, and the sum."""
    rows = [
        (
            one.table,
            str(one.files_before),
            str(one.files_after),
            f"{one.size_bytes / 2**20:.1f}",
            f"{one.open_ms_after:.0f} ms",
            f"{one.open_ms_before:.0f} ms",
            f"{one.longest_hold_ms:.0f} ms",
            str(one.files_vacuumed),
            one.problem or "",
        )
        for one in done
    ]
    before, after = sum(one.files_before for one in done), sum(one.files_after for one in done)
    bad = [one.table for one in done if one.problem]
    last = f"{len(done)} tables, {before} files before, {after} after"
    return [*table([HEAD, *rows]), f"{last}; NOT WELL: {', '.join(bad)}" if bad else last]
