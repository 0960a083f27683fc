"""The demo's workload: producer and consumer processes, their figures, their end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.cluster.data_folder import DataFolder
from infra.problems import Problem
from infra.processes import children
from infra.workload.process import read_status

RATE = 500
QUEUES = 4
TOPIC = "regent-demo"
STOP_GRACE_S = 25.0


class Load:
    """Producer and consumer of one run."""

    def __init__(self, folder: DataFolder, name_servers: Sequence[str]) -> None:
        self._home = folder.data_of("workload")
        self._home.mkdir(parents=True, exist_ok=True)
        self._logs = folder.logs
        self._name_servers = list(name_servers)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def ledger(self) -> Path:
        return self._home / "ledger.txt"

    @property
    def consumed(self) -> Path:
        return self._home / "consumed.txt"

    @property
    def name_servers(self) -> list[str]:
        return self._name_servers

    def start(self) -> None:
        """Both processes; they end with this one."""
        self._start("producer", self.ledger, ["--rate", str(RATE)])
        self._start("consumer", self.consumed, [])

    def _start(self, name: str, out: Path, more: list[str]) -> None:
        command = [
            sys.executable,
            "-m",
            f"infra.workload.{name}",
            "--topic",
            TOPIC,
            "--queues",
            str(QUEUES),
        ]
        for address in self._name_servers:
            command += ["--name-server", address]
        command += ["--out", str(out), "--status", str(self._status(name)), *more]
        self._children[name] = children.spawn(command, self._logs / f"{name}.out")

    def _status(self, name: str) -> Path:
        return self._home / f"{name}.json"

    def check(self) -> None:
        """Problem when a workload process has ended by itself."""
        for name, child in self._children.items():
            if child.poll() is not None:
                tail = " | ".join(children.last_lines(self._logs / f"{name}.out", 3))
                raise Problem(f"the {name} ended with exit code {child.returncode}: {tail}", "")

    def produced(self) -> dict[str, Any]:
        return read_status(self._status("producer"))

    def consumption(self) -> dict[str, Any]:
        return read_status(self._status("consumer"))

    def stop(self, name: str) -> dict[str, Any]:
        """End one process and give its last figures."""
        child = self._children.pop(name, None)
        if child is not None:
            children.stop(child, STOP_GRACE_S)
        return read_status(self._status(name))

    def stop_all(self) -> None:
        for name in list(self._children):
            self.stop(name)

    def wait_settled(self, seconds: float = 0.3) -> None:
        """Let the status files catch up with the processes."""
        time.sleep(seconds)
