"""The demo of a set that replicates by majority: its leader is killed, stands still, is left with a
minority; a follower loses its disk; all are killed. Then all is read back, and the logs are
compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brokers.majority.store.folder import folder_name
from infra.cluster import entry_logs
from infra.cluster.data_folder import DataFolder
from infra.cluster.majority_running import MajorityCluster
from infra.demo import faults, majority_blows, majority_report, read_back
from infra.demo.console import Console
from infra.demo.load import Load
from infra.demo.run import DemoRun
from infra.problems import Problem

CALM_LIMIT_S, COPIED_WITHIN_S = 90.0, 60.0


class MajorityDemo(DemoRun):
    """`replicas`: members of the one set."""

    def __init__(
        self, folder: DataFolder, console: Console, *, keep: bool, replicas: int = 3
    ) -> None:
        super().__init__(folder, console, keep=keep)
        self._cluster = MajorityCluster(folder, console.tick)
        self._replicas = replicas
        self._load: Load | None = None

    def steps(self) -> None:
        """From the start to the logs."""
        self.step(
            f"1  start: a name server, {self._replicas} brokers that replicate by majority",
            self._start,
        )
        self.step(
            "2  workload: 500 messages/s of 1 KiB over 4 queues, and a consumer", self._start_load
        )
        self._hit()
        self.step("4  read everything back, compare the logs", self._read_back)

    def end_load(self) -> None:
        """Producer and consumer."""
        if self._load is not None:
            self._load.stop_all()

    # -- 1, 2 --------------------------------------------------------------------------------------

    def _start(self) -> None:
        # one that stands still is a step of this demo, and not to be ended
        words = ("--replication", "majority", "--replicas", str(self._replicas))
        self.start_cluster(*words, "--watchdog-ms", "0")

    def _start_load(self) -> None:
        self._load = Load(self.folder, self.folder.running_cluster()["name_servers"])
        self._load.start()
        self.console.live = self._live
        faults.wait_calm(self._cluster, self._load, CALM_LIMIT_S)

    def _live(self) -> str:
        """sent, acknowledged, consumed, who leads"""
        assert self._load is not None
        produced, consumed = self._load.produced(), self._load.consumption()
        now = self._cluster.look()
        leads = "nobody leads" if now["leader"] is None else f"{now['leader']} leads {now['term']}"
        return (
            f"sent {produced.get('calls', 0)}  acknowledged {produced.get('acknowledged', 0)}  "
            f"consumed {consumed.get('consumed', 0)}  {leads}"
            f"{'  OUTAGE' if produced.get('outage') else ''}"
        )

    # -- 3 -----------------------------------------------------------------------------------------

    def _hit(self) -> None:
        self._blow("3a", "kill -9 the leader", majority_blows.kill_leader)
        self._blow("3b", "pause the leader (SIGSTOP)", majority_blows.pause_leader)
        self._blow(
            "3c", "leave the leader alone with a minority", majority_blows.leave_leader_alone
        )
        self._blow("3d", "a follower loses its disk", majority_blows.empty_follower)
        self._blow("3e", "kill -9 all members at once", majority_blows.kill_all)

    def _blow(
        self, number: str, title: str, work: Callable[[MajorityCluster, Load, str], dict[str, Any]]
    ) -> None:
        load = self._load
        assert load is not None
        line = majority_report.step_line
        self.blow(number, title, lambda label: work(self._cluster, load, label), line)
        faults.wait_calm(self._cluster, load, CALM_LIMIT_S)

    # -- 4 -----------------------------------------------------------------------------------------

    def _read_back(self) -> None:
        load = self._load
        assert load is not None
        self.document["load"] = load.stop("producer")
        self.drain(self._cluster, load)
        load.stop("consumer")
        self.console.live = None
        self.document["messages"] = read_back.check_messages(load)
        self.document["set"] = majority_blows.led(self._cluster)
        self.document["logs"] = self._logs()

    def _logs(self) -> dict[str, Any]:
        """Of all members, once nobody lacks anything."""
        ends: set[tuple[int, int]] = set()

        def are_level() -> bool:
            now = self._cluster.look()
            ends.clear()
            ends.update((one["log_end"], one["committed"]) for one in now["members"])
            (end, committed) = max(ends)
            return now["answering"] == now["size"] and len(ends) == 1 and end == committed

        self._cluster.wait("one log at every member", are_level, COPIED_WITHIN_S)
        folders = {
            one["name"]: Path(one["store_dir"]) / folder_name(f"n{number}") / "data"
            for number, one in enumerate(self._cluster.processes("broker"))
        }
        try:
            return asdict(entry_logs.compare(folders, max(ends)[0]))
        except (OSError, ValueError) as error:
            raise Problem(f"the logs cannot be compared: {error}", "") from error
