"""The demo of two sets without controllers: a master is killed while orders, delays, timers,
transactions and pops are under way, a slave acts for it, it comes back, and history tells it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.cluster import replica_logs
from infra.cluster.acting_running import ActingCluster
from infra.cluster.data_folder import DataFolder, write_json
from infra.cluster.plan import ACTING_SETS
from infra.demo import acting_blows, acting_history, acting_report
from infra.demo.acting_load import ASKED_AFTER_MS, ASKED_EVERY_MS, ActingLoad
from infra.demo.console import Console
from infra.demo.run import DemoRun
from infra.features.counts import Blow, Counts
from infra.features.use import FeatureUse

ASKED_SOON = {
    "transaction_timeout_ms": ASKED_AFTER_MS,
    "transaction_check_interval_ms": ASKED_EVERY_MS,
}
"""What a producer left open is asked about within the run (RocketMQ: after 6 s, every 30 s)."""
COPIED_WITHIN_S = 60.0


class ActingDemo(DemoRun):
    """Two sets of a master and two slaves each, one name server, and a log for what they report."""

    def __init__(self, folder: DataFolder, console: Console, *, keep: bool) -> None:
        super().__init__(folder, console, keep=keep)
        self._cluster = ActingCluster(folder, console.tick)
        self._load: ActingLoad | None = None
        self._blows: list[Blow] = []

    def steps(self) -> None:
        """From the start to the questions."""
        self.step(
            "1  start: a name server, two sets of a master and two slaves; Kafka and the landing "
            "job for what they report",
            self._start,
        )
        self.step(
            "2  workload: orders, delays, timers, transactions and pops, in both sets",
            self._start_load,
        )
        self._hit()
        self.step("4  what became of every message", self._judge)
        self.step("5  ask the history, from the Delta tables", self._ask)

    def end_load(self) -> None:
        """All applications."""
        if self._load is not None:
            self._load.end()

    def _start(self) -> None:
        self.folder.require_room()
        self.folder.root.mkdir(parents=True, exist_ok=True)
        places = self.folder.starting_places(os.getpid())
        write_json(places, {"broker": {"config": ASKED_SOON}})
        # a busy machine, where a broker stands still for seconds, would hit some as well
        unwatched = ("--watchdog-ms", "0")
        try:
            self.start_cluster("--mode", "acting", "--land", "--places", str(places), *unwatched)
        finally:
            places.unlink(missing_ok=True)

    def _start_load(self) -> None:
        self._load = ActingLoad(self._cluster.name_servers)
        acting_blows.make_topics(self._cluster, self._load)
        self._load.start()
        self.console.live = self._live
        acting_blows.ready(self._cluster, self._load)

    def _live(self) -> str:
        """What each application has acknowledged, who leads."""
        assert self._load is not None
        counts = "  ".join(f"{name} {n}" for name, n in self._load.progress().items())
        topic = self._load.orders.topic
        leads = (f"{name} {_led(*self._cluster.leads(name, topic))}" for name in ACTING_SETS)
        return f"acknowledged: {counts}  |  {', '.join(leads)}"

    # -- 3 -----------------------------------------------------------------------------------------

    def _hit(self) -> None:
        assert self._load is not None
        cluster, load, line = self._cluster, self._load, acting_report.step_line
        away = self.blow(
            "3a",
            "kill -9 the master of one set, and leave it so",
            lambda label: acting_blows.master_dies(cluster, load, label),
            line,
        )
        back = self.blow(
            "3b",
            "start it again",
            lambda label: acting_blows.master_returns(cluster, load, away, label),
            line,
        )
        anew = self.blow(
            "3c",
            "kill -9 the master of the other set, which its supervisor starts anew",
            lambda label: acting_blows.other_master_dies(cluster, load, label),
            line,
        )
        self._blows = changes(away, back, anew)

    # -- 4 -----------------------------------------------------------------------------------------

    def _judge(self) -> None:
        assert self._load is not None
        load = self._load
        counts = load.finish(self._blows)
        found = [judged(use, one) for use, one in zip(load.uses, counts, strict=True)]
        self.console.live = None
        self.document["applications"] = found
        for one in found:
            self.console.say(f"    {acting_report.application_line(one)}")
        self.document["logs"] = [self._logs_of(name) for name in ACTING_SETS]

    def _logs_of(self, name: str) -> dict[str, Any]:
        """The logs of a set's replicas, byte for byte, once nobody lacks anything."""

        def ends() -> Sequence[int]:
            return [int(one["log_end"]) for one in self._cluster.sets()[name]["members"]]

        self._cluster.wait(
            f"a copy of all of {name} at every slave",
            lambda: len(set(ends())) == 1,
            COPIED_WITHIN_S,
        )
        folders = {
            one["name"]: Path(one["store_dir"]) / "commitlog"
            for one in self._cluster.processes("broker")
            if one["name"].startswith(f"{name}-")
        }
        result = replica_logs.compare(folders, min(ends()))
        return {
            "set": name,
            "replicas": list(result.replicas),
            "bytes": result.end - result.start,
            "equal": result.equal and result.end > result.start,
            "first_difference": result.first_difference,
        }

    # -- 5 -----------------------------------------------------------------------------------------

    def _ask(self) -> None:
        seconds = self.wait_landed()
        found = acting_history.read_periods(self.folder)
        for one in found:
            self.console.say(f"    {acting_report.period_line(one)}")
        answers = self.ask(QUESTIONS)
        self.document["history"] = {
            "landed_after_s": round(seconds, 2),
            "periods": found,
            "missing": acting_history.missing(found, self.document["steps"]),
            "asked": answers,
        }


QUESTIONS = (
    ("explain", acting_blows.SET),
    ("timeline", acting_blows.SET),
    ("availability", acting_blows.SET),
    ("lake", "check"),
)


def changes(*steps: dict[str, Any]) -> list[Blow]:
    """When who delivers changed: at a kill, from the word for it until it is done, and from a start
    until nobody acts any more. What is done within such a change may be done by both.
    """
    return [
        Blow(one["at_ms"], one.get("killed_ms", one["at_ms"]), one.get("ended_ms", 0))
        for one in steps
    ]


def judged(use: FeatureUse, counts: Counts) -> dict[str, Any]:
    """One application's part of the document. `crossed`: messages of one set that came through the
    other one; None where nothing is due later.
    """
    crossed = getattr(use, "crossed", None)
    return {
        **counts.document(),
        "unhit": len(counts.unhit),
        "crossed": None if crossed is None else len(crossed()),
    }


def _led(address: str | None, takes_sends: bool) -> str:
    if address is None:
        return "led by nobody"
    return f"led by {address}" if takes_sends else f"read from {address}"
