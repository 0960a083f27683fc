"""Three brokers of a majority group as processes, a name server, and a client as stock ones are: it
sends to the master of the last route it read, and reads on behind a leader that was killed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from infra.workload.client import CallFailed, WorkloadClient
from tests.support.brokers import until
from tests.support.majority_brokers import MajorityBrokers

pytestmark = pytest.mark.processes
eventually = partial(until, pause_s=0.05)
QUEUES = 4


class Client:
    """Sends each body until it is acknowledged, as a tuned client does."""

    def __init__(self, of: WorkloadClient) -> None:
        self.of, self.acknowledged = of, [[] for _ in range(QUEUES)]
        self.sent = 0

    async def send(self, count: int) -> None:
        for _ in range(count):
            body, queue = b"body-%05d;" % self.sent, self.sent % QUEUES
            self.sent += 1
            while True:
                try:
                    await self.of.send(str(self.sent), body, queue)
                    break
                except CallFailed:
                    await self.of.refresh()
                    await asyncio.sleep(0.02)
            self.acknowledged[queue].append(body)

    async def read(self) -> list[list[bytes]]:
        """Every queue, from where the route says."""
        found = []
        for queue in range(QUEUES):
            bodies, at = [], 0
            while True:
                pulled = await self.of.pull(queue, at)
                if not pulled.messages:
                    break
                bodies += [bytes(one.fields.body) for one in pulled.messages]
                at = pulled.next_offset
            found.append(list(dict.fromkeys(bodies)))
        return found


@pytest.fixture
async def brokers(tmp_path: Path, name_server: str) -> AsyncIterator[MajorityBrokers]:
    made = MajorityBrokers(tmp_path, name_server)
    await made.start()
    yield made
    await made.end()


async def test_a_client_sends_and_reads_on_behind_a_killed_leader(
    brokers: MajorityBrokers, name_server: str
) -> None:
    async with WorkloadClient([name_server], "T", "p", queues=QUEUES) as of:
        client = Client(of)
        await client.send(40)
        (first,) = await brokers.leading()
        await brokers.programs[first].end()
        await client.send(40)
        (second,) = await brokers.leading()
        assert second != first
        assert await client.read() == client.acknowledged
        await brokers.start(first)
        await client.send(40)
        assert await client.read() == client.acknowledged
    for one in brokers.programs.values():
        await one.end(signal.SIGTERM)
    logs = [brokers.log(name) for name in brokers.programs]
    same = min(map(len, logs))
    assert same > 120 and logs[0][:same] == logs[1][:same] == logs[2][:same]
