"""The workload's producer as a process beside a local cluster, and everything read back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brokers.remoting.codes import RequestCode
from infra import children
from infra.workload.client import CallFailed, WorkloadClient
from infra.workload.ledger import LedgerContent, read_ledger
from infra.workload.message import sequence_of
from infra.workload.process import read_status
from tests.support.local_cluster import ROOT, wait_until

STOP_GRACE_S = 25.0
READ_TIMEOUT_MS = 5_000
READ_TRIES = 50
CORRUPT = -1


class Workload:
    """One producer. `timeout_ms` bounds one call: what is not answered by then counts as failed."""

    def __init__(
        self, home: Path, name_servers: Sequence[str], *, rate: float, topic: str = "T", queues: int = 4,
        timeout_ms: int = 500,
    ) -> None:  # fmt: skip
        home.mkdir(parents=True, exist_ok=True)
        self.topic, self.queues = topic, queues
        self.ledger_path, self._status, self._output = home / "ledger", home / "status.json", home / "producer.out"
        self._name_servers = list(name_servers)
        self._flags = ["--topic", topic, "--queues", str(queues), "--rate", str(rate), "--timeout-ms", str(timeout_ms)]
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

    def figures(self) -> dict[str, Any]:
        """The producer's last figures; fails when it ended by itself."""
        if self._process is not None:
            code = self._process.poll()
            assert code is None, f"the producer ended with {code}: {children.last_lines(self._output, 5)}"
        return read_status(self._status)

    def flows(self, messages: int, what: str) -> None:
        """Wait until so many more are acknowledged and no outage is open."""
        goal = self.acknowledged + messages
        wait_until(lambda: self.acknowledged >= goal and not self.figures().get("outage", True), what)

    def stop(self) -> LedgerContent:
        """End the producer; what it sent and what was acknowledged."""
        self.end()
        return read_ledger(self.ledger_path)

    def end(self) -> None:
        if self._process is not None:
            children.stop(self._process, STOP_GRACE_S)
            self._process = None

    def read_back(self) -> list[tuple[int, int, int]]:
        """(queue, queue offset, sequence) of everything stored, in each queue's order; -1 for a body that is not as sent."""
        return asyncio.run(self._read_back())

    async def _read_back(self) -> list[tuple[int, int, int]]:
        async with WorkloadClient(
            self._name_servers, self.topic, "check", timeout_ms=READ_TIMEOUT_MS, queues=self.queues
        ) as client:
            queues = await asyncio.gather(*(_read_queue(client, queue) for queue in range(self.queues)))
        return [one for queue in queues for one in queue]


async def _read_queue(client: WorkloadClient, queue: int) -> list[tuple[int, int, int]]:
    end = await client.offset(RequestCode.GET_MAX_OFFSET, queue)
    found: list[tuple[int, int, int]] = []
    at = failures = 0
    while at < end:
        try:
            pulled = await client.pull(queue, at, suspend_ms=0)
        except CallFailed:
            failures += 1
            if failures > READ_TRIES:
                raise
            await client.refresh()
            continue
        assert pulled.messages or pulled.next_offset > at, f"queue {queue} has nothing at {at} although it ends at {end}"
        for message in pulled.messages:
            sequence = sequence_of(message.fields.body)
            found.append((queue, message.queue_offset, CORRUPT if sequence is None else sequence))
        at = pulled.next_offset
    return found
