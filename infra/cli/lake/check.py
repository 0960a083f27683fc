"""`regent lake check`: gaps in offsets and broken invariants, from the Delta tables alone; what
stands is kept as alarms.
"""

from __future__ import annotations

import argparse
import json

from infra.cli.lake.arguments import add_lake_arguments, lake_of
from infra.problems import Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, how much of them, and how to tell."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--from-start",
        action="store_true",
        help=("judge all of history again, instead of what came since the last check"),
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when everything is there and holds, 1 while an alarm stands."""
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
    print(json.dumps(report.as_dict(), indent=1) if arguments.json else report.text())
    return report.exit_code
