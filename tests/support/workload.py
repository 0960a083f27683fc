"""The workload's producer as a process beside a local cluster, and everything read back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra.processes import children
from infra.workload.ledger import LedgerContent, read_ledger
from infra.workload.process import read_status
from infra.workload.read_back import read_topic
from tests.support.local_cluster import ROOT, wait_until

STOP_GRACE_S = 25.0
STOOD_STILL = "this process stood still"


class Workload:
    """One producer. `timeout_ms` bounds one call: what is not answered by then counts as failed."""

    def __init__(
        self,
        home: Path,
        name_servers: Sequence[str],
        *,
        rate: float,
        topic: str = "T",
        queues: int = 4,
        timeout_ms: int = 500,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.topic, self.queues = topic, queues
        self.ledger_path, self._status, self._output = (
            home / "ledger",
            home / "status.json",
            home / "producer.out",
        )
        self._name_servers = list(name_servers)
        self._flags = [
            "--topic",
            topic,
            "--queues",
            str(queues),
            "--rate",
            str(rate),
            "--timeout-ms",
            str(timeout_ms),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "infra.workload.producer", *self._flags]
        for address in self._name_servers:
            command += ["--name-server", address]
        command += ["--out", str(self.ledger_path), "--status", str(self._status)]
        self._process = children.spawn(command, self._output, cwd=ROOT)

    @property
    def acknowledged(self) -> int:
        return int(self.figures().get("acknowledged", 0))

    @property
    def outages(self) -> list[dict[str, Any]]:
        """Those that are over."""
        return list(self.figures().get("outages", []))

    def failed(self, since_ms: int = 0) -> list[dict[str, Any]]:
        """Outages that began at that time of the wall clock or later, but not those of a broker
        that this machine let stand still for a second: it refuses what lay in its sockets then, and
        it is sent again.
        """
        return [
            one
            for one in self.outages
            if one["started_wall_ms"] >= since_ms and STOOD_STILL not in one["first_error"]
        ]

    def figures(self) -> dict[str, Any]:
        """The producer's last figures; fails when it ended by itself."""
        if self._process is not None:
            code = self._process.poll()
            assert code is None, (
                f"the producer ended with {code}: {children.last_lines(self._output, 5)}"
            )
        return read_status(self._status)

    def flows(self, messages: int, what: str) -> None:
        """Wait until so many more are acknowledged and no outage is open."""
        goal = self.acknowledged + messages
        wait_until(
            lambda: self.acknowledged >= goal and not self.figures().get("outage", True), what
        )

    def stop(self) -> LedgerContent:
        """End the producer; what it sent and what was acknowledged."""
        self.end()
        return read_ledger(self.ledger_path)

    def end(self) -> None:
        if self._process is not None:
            children.stop(self._process, STOP_GRACE_S)
            self._process = None

    def read_back(self) -> list[tuple[int, int, int]]:
        """(queue, queue offset, sequence) of everything stored, in each queue's order; -1 for a
        body that is not as sent.
        """
        queues = asyncio.run(read_topic(self._name_servers, self.topic, "check", self.queues))
        for number, queue in enumerate(queues):
            assert queue.stopped_at >= queue.end, (
                f"queue {number} has nothing at {queue.stopped_at} although it ends at {queue.end}"
            )
        return [record for queue in queues for record in queue.records]
