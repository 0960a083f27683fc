"""`regent demo`: the main job on real parts. Start a cluster, load it, hit it, read all back, ask
the history.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from infra.cli import down, up
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.cluster.plan import BROKER_SET
from infra.cluster.running import DemoCluster
from infra.demo import asked, faults, read_back, report
from infra.demo.console import Console
from infra.demo.load import Load
from infra.problems import EXIT_DONE, EXIT_FAILED, Problem
from infra.processes import children

EMPTY_REPLICA = 4
DRAIN_LIMIT_S = 60.0
WARM_UP_LIMIT_S = 60.0
STOP_GRACE_S = 60.0


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent demo`."""
    add_dir(parser)
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
    demo = Demo(folder, console, keep=arguments.keep)
    document = demo.run()
    for line in report.render(document):
        console.say(line)
    if arguments.json:
        print(json.dumps(document, indent=1))
    return EXIT_FAILED if report.verdict(document) else EXIT_DONE


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


class Demo:
    """One run; collects the document of the report as it goes."""

    def __init__(self, folder: DataFolder, console: Console, *, keep: bool) -> None:
        self._folder = folder
        self._console = console
        self._keep = keep
        self._began = time.monotonic()
        self._document: dict[str, Any] = {"steps": [], "problems": []}
        self._cluster = DemoCluster(folder, console.tick)
        self._load: Load | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None

    def run(self) -> dict[str, Any]:
        """All steps; whatever happens, what was started is stopped."""
        try:
            self._step(
                "1  start: Kafka, name server, two controllers, three brokers, landing job",
                self._start,
            )
            self._step(
                "2  workload: 500 messages/s of 1 KiB over 4 queues, and a consumer",
                self._start_load,
            )
            self._blows()
            self._step("4  read everything back", self._read_back)
            self._step("5  ask the history, from the Delta tables", self._ask)
        except Problem as problem:
            self._document["problems"].append(problem.line())
            self._console.live = None
            self._console.say(f"    problem: {problem.line()}")
        finally:
            self._stop()
        self._document["seconds"] = round(time.monotonic() - self._began, 1)
        return self._document

    def _step(self, title: str, work: Callable[[], Any]) -> Any:
        self._console.say(f"[{time.monotonic() - self._began:5.1f} s] {title}")
        began = time.monotonic()
        result = work()
        self._document.setdefault("durations_s", {})[title.split(":")[0].strip()] = round(
            time.monotonic() - began, 2
        )
        return result

    # -- 1, 2 --------------------------------------------------------------------------------------

    def _start(self) -> None:
        words = ["--dir", str(self._folder.root), "--purpose", "demo"]
        self._supervisor = up.detach(
            self._folder, words, lambda line: self._console.say(f"    {line}"), tied=not self._keep
        )

    def _start_load(self) -> None:
        self._load = Load(self._folder, self._folder.running_cluster()["name_servers"])
        self._load.start()
        self._console.live = self._live
        faults.wait_calm(self._cluster, self._load, WARM_UP_LIMIT_S)

    def _live(self) -> str:
        """sent, acknowledged, consumed, master, epoch, SyncStateSet, landed offset"""
        assert self._load is not None
        produced, consumed, view = (
            self._load.produced(),
            self._load.consumption(),
            self._cluster.last_view,
        )
        landing = self._cluster.landed() or {}
        offset = landing.get("landed", {}).get("regent.commands-0", 0)
        text = (
            f"sent {produced.get('calls', 0)}  acknowledged {produced.get('acknowledged', 0)}  "
            f"consumed {consumed.get('consumed', 0)}"
        )
        if view is not None:
            text += (
                f"  master {view.master_id}  epoch {view.master_epoch}  in sync "
                f"{list(view.in_sync)}"
            )
        return f"{text}  landed {offset}{'  OUTAGE' if produced.get('outage') else ''}"

    # -- 3 -----------------------------------------------------------------------------------------

    def _blows(self) -> None:
        assert self._load is not None
        cluster, load = self._cluster, self._load
        first = self._blow(
            "3a", "kill -9 the master", lambda label: faults.kill_master(cluster, load, label)
        )
        self._blow(
            "3b",
            "a proposal of the old epoch arrives late",
            lambda label: faults.late_proposal(cluster, first, label),
        )
        faults.wait_calm(cluster, load)
        self._blow(
            "3c",
            "kill -9 the active controller",
            lambda label: faults.kill_controller(cluster, load, label),
        )
        self._blow(
            "3d",
            "kill -9 the new master while the former standby leads",
            lambda label: faults.kill_master(cluster, load, label),
        )
        faults.wait_calm(cluster, load)
        self._blow(
            "3e", "pause a slave (SIGSTOP)", lambda label: faults.pause_slave(cluster, load, label)
        )
        faults.wait_calm(cluster, load)
        self._blow(
            "3f",
            "start a slave with an empty disk",
            lambda label: faults.add_empty_replica(cluster, EMPTY_REPLICA, label),
        )
        faults.wait_calm(cluster, load)

    def _blow(
        self, number: str, title: str, work: Callable[[str], dict[str, Any]]
    ) -> dict[str, Any]:
        result: dict[str, Any] = self._step(f"{number} {title}", lambda: work(title))
        self._document["steps"].append(result)
        self._console.say(f"    {report.step_line(result)}")
        return result

    # -- 4 -----------------------------------------------------------------------------------------

    def _read_back(self) -> None:
        assert self._load is not None
        load = self._load
        self._document["load"] = load.stop("producer")
        self._drain(load)
        load.stop("consumer")
        self._console.live = None
        self._document["messages"] = read_back.check_messages(load)
        self._document["replicas"] = read_back.check_replicas(self._cluster)
        self._document["set"] = faults.final_view(self._cluster)

    def _drain(self, load: Load) -> None:
        """Let the consumer come to the end: it has, when it stands still with all that was
        acknowledged.
        """
        wanted = self._document["load"].get("acknowledged", 0)
        try:
            self._cluster.wait(
                "the consumer's end",
                lambda: load.consumption().get("consumed", 0) >= wanted,
                DRAIN_LIMIT_S,
            )
        except Problem as problem:
            self._document["problems"].append(problem.line())
        load.wait_settled()

    # -- 5 -----------------------------------------------------------------------------------------

    def _ask(self) -> None:
        seconds = asked.wait_landed(self._folder)
        self._console.say(f"    all of the log stands in the tables after {seconds:.1f} s")
        for step in self._document["steps"]:
            if step["kind"] == "master":
                step["phases"] = asked.phases_after(
                    self._folder, step["epoch_after"], step["at_ms"]
                )
        answers = []
        offsets = asked.election_offsets(self._folder)
        at = str(offsets[1] if len(offsets) > 1 else 0)
        for words in (
            ("explain", BROKER_SET),
            ("history", BROKER_SET),
            ("state", "--at", at),
            ("verify",),
        ):
            answer = asked.ask(self._folder, *words)
            answers.append(answer)
            self._console.say(f"\n$ {answer.command}   ({answer.seconds:.1f} s)")
            for line in answer.text.splitlines():
                self._console.say(f"  {line}")
        self._document["history"] = {
            "landed_after_s": round(seconds, 2),
            "asked": [asdict(one) for one in answers],
            **asked.counted(self._folder),
            "state": asked.last_state(self._folder),
        }

    # -- 6 -----------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._console.live = None
        if self._load is not None:
            self._load.stop_all()
        if self._keep and self._folder.is_running():
            self._console.say(
                f"the cluster is left up; 'regent down --dir {self._folder.root}' stops it"
            )
            return
        began = time.monotonic()
        if self._folder.is_running():
            down.stop_cluster(self._folder)
        if self._supervisor is not None:
            children.stop(self._supervisor, STOP_GRACE_S)
        self._console.say(
            f"[{time.monotonic() - self._began:5.1f} s] 6  stopped everything in "
            f"{time.monotonic() - began:.1f} s"
        )
