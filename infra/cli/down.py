"""`regent down`: stop the cluster of a data folder, or end what a crashed supervisor left
behind.
"""

from __future__ import annotations

import argparse
import signal
import time

from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.problems import EXIT_DONE, Problem
from infra.processes import children

STOP_TIMEOUT_S = 90.0
POLL_S = 0.05


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent down`."""
    add_dir(parser)


def run(arguments: argparse.Namespace) -> int:
    """Stop it; a cluster that does not run is no error."""
    folder = DataFolder(arguments.dir.absolute())
    folder.require()
    began = time.monotonic()
    if folder.is_running():
        try:
            stop_cluster(folder)
            print(f"stopped after {time.monotonic() - began:.1f} s")
            return EXIT_DONE
        except Problem:
            if folder.is_running():
                raise  # else it was killed meanwhile, and what it left is ended
    left = folder.leftovers()
    for one in left:
        children.kill_group(one["pid"], signal.SIGCONT)
        children.kill_group(one["pid"])
    print(
        (f"ended what a crash had left: {', '.join(one['name'] for one in left)}")
        if left
        else "nothing runs here"
    )
    return EXIT_DONE


def stop_cluster(folder: DataFolder) -> None:
    """Ask the running supervisor to stop all and wait until it has. Problem when it does not."""
    folder.ask({"action": "down"}, timeout_s=30.0)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while folder.is_running():
        if time.monotonic() > deadline:
            raise Problem(
                f"the cluster does not stop within {STOP_TIMEOUT_S:.0f} s", f"See {folder.logs}."
            )
        time.sleep(POLL_S)
