"""`regent lake snapshot`: the controllers' state of any moment, rebuilt from the tables, as a file
that a controller starts from.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from infra.cli.lake.arguments import add_lake_arguments, lake_of
from infra.cli.lake.decisions import moment_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which moment, and where to."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--at",
        metavar="OFFSET|TIME",
        help=(
            "offset of the last command in it, or ISO time in UTC (default: the last landed one)"
        ),
    )
    parser.add_argument(
        "--out",
        metavar="FILE|FOLDER",
        type=Path,
        required=True,
        help=("a file, or a folder, where it gets the name that a controller looks for"),
    )


def run(arguments: argparse.Namespace) -> int:
    """Fold, compare with what was published, write."""
    from lakehouse.answers.snapshot import write_snapshot
    from lakehouse.errors import LakehouseError

    moment = moment_of(arguments.at)
    out: Path = arguments.out
    if not out.is_dir() and not out.parent.is_dir():
        raise Problem(
            f"--out {out}: there is no folder {out.parent}",
            "Make it, or name another place.",
            EXIT_USAGE,
        )
    lake = lake_of(arguments)
    try:
        written = write_snapshot(lake, out, **moment)
    except LakehouseError as error:
        raise Problem(
            str(error),
            "'regent status' shows how far the landing job is, 'regent verify' where history does "
            "not fit.",
        ) from error
    print(json.dumps(dataclasses.asdict(written), indent=1) if arguments.json else written.text())
    return EXIT_DONE
