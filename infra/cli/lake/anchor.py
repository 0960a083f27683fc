"""`regent lake anchor`: what landed is told to places that the lake's writers do not reach."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from infra.cli.lake.arguments import WAY_OUT_WHEN_BEHIND, add_lake_arguments, check_seconds, lake_of
from infra.cli.stop_signals import told_to_stop
from infra.problems import EXIT_DONE, Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, and who is told."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--file",
        type=Path,
        metavar="FILE",
        required=True,
        help="gets a line of every thousandth record, and at most each hour one of the last one; "
        "says how far anchors went",
    )
    parser.add_argument(
        "--command",
        metavar="WORDS",
        help="a program that gets the same lines on standard input and ends with 0 when it has "
        "taken them",
    )
    parser.add_argument(
        "--every",
        type=float,
        metavar="S",
        help="again and again until told to stop (default: once)",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when all that has landed is anchored, or on a stop. Problem with the way out."""
    from lakehouse.errors import LakehouseError
    from lakehouse.landing.anchoring import Anchoring, Sink, ToCommand

    check_seconds("--every", arguments.every)
    words = tuple(shlex.split(arguments.command or ""))
    lake = lake_of(arguments)
    if lake.cluster_id is None:
        raise Problem(f"nothing has landed in {lake.root} yet", WAY_OUT_WHEN_BEHIND)
    sinks: list[Sink] = [ToCommand(words)] if words else []
    try:
        anchoring = Anchoring(lake, arguments.file, sinks)
        with told_to_stop() as stop:
            while True:
                given = anchoring.step(stop.is_set)
                if given or arguments.every is None:
                    _tell(given, arguments)
                if arguments.every is None or stop.wait(arguments.every):
                    return EXIT_DONE
    except LakehouseError as error:
        raise Problem(
            str(error), "What was not taken is given again by the next round or run."
        ) from error


def _tell(given: int, arguments: argparse.Namespace) -> None:
    model = {"anchors": given, "file": str(arguments.file)}
    text = f"{given} anchors written to {arguments.file}"
    print(json.dumps(model) if arguments.json else text, flush=True)
