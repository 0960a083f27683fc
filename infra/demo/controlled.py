"""The demo of a set with controllers: start a cluster, load it, hit it, read all back, ask the
history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infra.cluster.data_folder import DataFolder
from infra.cluster.plan import BROKER_SET
from infra.cluster.running import DemoCluster
from infra.demo import asked, faults, read_back, report
from infra.demo.console import Console
from infra.demo.load import Load
from infra.demo.run import DemoRun

EMPTY_REPLICA = 4
WARM_UP_LIMIT_S = 60.0


class Demo(DemoRun):
    """The set of three with its controllers."""

    def __init__(self, folder: DataFolder, console: Console, *, keep: bool) -> None:
        super().__init__(folder, console, keep=keep)
        self._cluster = DemoCluster(folder, console.tick)
        self._load: Load | None = None

    def steps(self) -> None:
        """From the start to the questions."""
        self.step(
            "1  start: Kafka, name server, two controllers, three brokers, landing job",
            self.start_cluster,
        )
        self.step(
            "2  workload: 500 messages/s of 1 KiB over 4 queues, and a consumer", self._start_load
        )
        self._blows()
        self.step("4  read everything back", self._read_back)
        self.step("5  ask the history, from the Delta tables", self._ask)

    def end_load(self) -> None:
        """Producer and consumer."""
        if self._load is not None:
            self._load.stop_all()

    # -- 1, 2 --------------------------------------------------------------------------------------

    def _start_load(self) -> None:
        self._load = Load(self.folder, self.folder.running_cluster()["name_servers"])
        self._load.start()
        self.console.live = self._live
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
        return self.blow(number, title, work, report.step_line)

    # -- 4 -----------------------------------------------------------------------------------------

    def _read_back(self) -> None:
        assert self._load is not None
        load = self._load
        self.document["load"] = load.stop("producer")
        self.drain(self._cluster, load)
        load.stop("consumer")
        self.console.live = None
        self.document["messages"] = read_back.check_messages(load)
        self.document["replicas"] = read_back.check_replicas(self._cluster)
        self.document["set"] = faults.final_view(self._cluster)

    # -- 5 -----------------------------------------------------------------------------------------

    def _ask(self) -> None:
        seconds = self.wait_landed()
        for step in self.document["steps"]:
            if step["kind"] == "master":
                step["phases"] = asked.phases_after(self.folder, step["epoch_after"], step["at_ms"])
        offsets = asked.election_offsets(self.folder)
        at = str(offsets[1] if len(offsets) > 1 else 0)
        answers = self.ask(
            (("explain", BROKER_SET), ("history", BROKER_SET), ("state", "--at", at), ("verify",))
        )
        self.document["history"] = {
            "landed_after_s": round(seconds, 2),
            "asked": answers,
            **asked.counted(self.folder),
            "state": asked.last_state(self.folder),
        }
