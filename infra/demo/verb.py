"""`regent demo`: the main job on real parts, of a set with controllers or of two without, step by
step, with a report.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys

from infra.cli import up
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.cluster.options import ACTING, CONTROLLED, MODES
from infra.demo import acting_report, report
from infra.demo.acting import ActingDemo
from infra.demo.console import Console
from infra.demo.controlled import Demo
from infra.demo.run import DemoRun
from infra.problems import EXIT_DONE, EXIT_FAILED, Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent demo`."""
    add_dir(parser)
    parser.add_argument(
        "--mode",
        choices=MODES,
        default=CONTROLLED,
        help=(
            "controllers (default): masters and controllers of one set are killed; acting: of two "
            "sets without controllers one loses its master while orders, delays, timers, "
            "transactions and pops are under way, and a slave acts until it is back"
        ),
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help=("the report as one JSON document; progress goes to stderr"),
    )
    parser.add_argument("--keep", action="store_true", help="leave the cluster up at the end")


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 only when the verdict is good."""
    console = Console(sys.stderr if arguments.json else sys.stdout)
    signal.signal(signal.SIGTERM, _interrupt)
    folder = DataFolder(arguments.dir.absolute())
    up.find_parts()  # what cannot start at all is one line, not a report
    make_room(folder)
    acts = arguments.mode == ACTING
    demo: DemoRun = (ActingDemo if acts else Demo)(folder, console, keep=arguments.keep)
    document = demo.run()
    told = acting_report if acts else report
    for line in told.render(document):
        console.say(line)
    if arguments.json:
        print(json.dumps(document, indent=1))
    return EXIT_FAILED if told.verdict(document) else EXIT_DONE


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def make_room(folder: DataFolder) -> None:
    """Remove the folder of an earlier demo. Problem when it is somebody's cluster, or one runs
    there.
    """
    identity = folder.identity()
    if identity is None:
        return
    if folder.is_running():
        folder.lock()  # says who holds it
    if identity["purpose"] != "demo":
        raise Problem(
            f"{folder.root} holds a cluster that is not a demo's", "Name another --dir.", 2
        )
    up.refuse_leftovers(folder)
    folder.remove()
