"""`regent lake check`: gaps in offsets and broken invariants, from the Delta tables alone; what
stands is kept as alarms.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from infra.cli.lake.arguments import add_lake_arguments, lake_of
from infra.cluster.data_folder import DataFolder
from infra.problems import Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, how much of them, and how to tell."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--from-start",
        action="store_true",
        help=("judge all of history again, instead of what came since the last check"),
    )
    parser.add_argument(
        "--work-dir",
        metavar="FOLDER",
        type=Path,
        help="where the landing job of these tables keeps its status (without --tables: that of "
        "--dir): whether it lands is told beside the check",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when everything is there and holds, 1 while an alarm stands; a noted loss and a landing job
    that is dead are told, and are no alarm.
    """
    from lakehouse.errors import LakehouseError
    from lakehouse.proof.witnesses import checked

    lake = lake_of(arguments)
    try:
        report = checked(lake, from_start=arguments.from_start)
    except LakehouseError as error:
        raise Problem(
            str(error),
            "'regent status' shows how far the landing job is; 'regent verify' names damaged "
            "files.",
        ) from error
    told = _landing(arguments)
    if arguments.json:
        print(json.dumps({**report.as_dict(), "landing": told}, indent=1))
    else:
        print("\n".join([report.text(), *([f"  nothing lands: {told}"] if told else [])]))
    return report.exit_code


def _landing(arguments: argparse.Namespace) -> str | None:
    """Why the job that is known lands nothing; None while it does what it should."""
    from infra.cluster.view import landing_standstill

    place = arguments.work_dir
    if place is None and arguments.tables is None:
        place = DataFolder(arguments.dir.absolute()).landing
    stands = None if place is None else landing_standstill(place)
    if stands is None:
        return None
    return f"{stands.text}. {stands.way_out}" if stands.is_certain else stands.text
