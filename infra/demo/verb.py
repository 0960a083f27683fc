"""`regent demo`: the main job on real parts, of a set with controllers, of two without, or of one
that replicates by majority, step by step, with a report.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys

from infra.cli import up
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.cluster.options import (
    ACTING,
    CONTROLLED,
    IN_SYNC_SET,
    MAJORITY,
    MAJORITY_REPLICAS,
    MODES,
    REPLICATIONS,
)
from infra.demo import acting_report, majority_report, report
from infra.demo.acting import ActingDemo
from infra.demo.console import Console
from infra.demo.controlled import Demo
from infra.demo.majority import MajorityDemo
from infra.demo.run import DemoRun
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem


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
        "--replication",
        choices=REPLICATIONS,
        default=IN_SYNC_SET,
        help=(
            "majority: the leader of a set that replicates by majority is killed, stands still and "
            "is left with a minority, a follower loses its disk, all are killed"
        ),
    )
    parser.add_argument(
        "--replicas",
        type=int,
        choices=MAJORITY_REPLICAS,
        default=MAJORITY_REPLICAS[0],
        help="majority: members of the set (default 3)",
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
    by_majority, acts = arguments.replication == MAJORITY, arguments.mode == ACTING
    if by_majority and acts:
        raise Problem(
            "--mode acting does not go with --replication majority: a set replicates in one way",
            "Leave one of the two out.",
            EXIT_USAGE,
        )
    if not by_majority:
        up.find_parts()  # what cannot start at all is one line, not a report
    make_room(folder)
    demo: DemoRun
    if by_majority:
        demo = MajorityDemo(folder, console, keep=arguments.keep, replicas=arguments.replicas)
        render, verdict = majority_report.render, majority_report.verdict
    elif acts:
        demo = ActingDemo(folder, console, keep=arguments.keep)
        render, verdict = acting_report.render, acting_report.verdict
    else:
        demo = Demo(folder, console, keep=arguments.keep)
        render, verdict = report.render, report.verdict
    document = demo.run()
    for line in render(document):
        console.say(line)
    if arguments.json:
        print(json.dumps(document, indent=1))
    return EXIT_FAILED if verdict(document) else EXIT_DONE


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
