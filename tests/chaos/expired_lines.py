"""An idle queue whose messages have all expired when its master fails: its offsets go on where they
were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from infra.workload.client import CallFailed, Stored, WorkloadClient
from tests.chaos import damage
from tests.chaos.armed import Armed
from tests.chaos.broker_stage import BrokerStage
from tests.chaos.disk_lines import SMALL_FILES, lead
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.line import Line
from tests.support.local_cluster import wait_until

AS_IF_FULL: Mapping[str, Any] = {
    **SMALL_FILES,
    "disk_max_used_percent": 10,
    "disk_clean_forcibly_percent": 10,
    "disk_full_percent": 100,
}
"""The disk counts as used beyond the limit: the oldest files go every ten seconds, at any age."""
IDLE = 20
GROUP = "chaos-idle"
EXPIRED_WITHIN_S = 120.0
ANSWERED_WITHIN_S = 30.0


class _IdleQueue:
    """Queue 0 of a topic of its own; what was acknowledged there, by its number."""

    def __init__(self, stage: BrokerStage, topic: str) -> None:
        self._stage, self._topic = stage, topic
        self._sent = 0
        self.acknowledged: dict[int, Stored] = {}

    def _client(self) -> WorkloadClient:
        return WorkloadClient(
            self._stage.cluster.name_servers, self._topic, GROUP, timeout_ms=2_000, queues=1
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            wait_until(
                lambda: asyncio.run(self._one()),
                "the idle queue takes a message",
                ANSWERED_WITHIN_S,
            )

    async def _one(self) -> bool:
        self._sent += 1
        number = self._sent
        try:
            async with self._client() as client:
                self.acknowledged[number] = await client.send(str(number), b"idle %d" % number, 0)
        except CallFailed:
            return False
        return True

    async def commit(self) -> None:
        """The group has read everything."""
        async with self._client() as client:
            await client.commit_offset(
                0, max(one.queue_offset for one in self.acknowledged.values()) + 1
            )

    async def read(self, offset: int, address: str | None = None) -> dict[int, bytes]:
        """Queue offset -> body, from there on."""
        found: dict[int, bytes] = {}
        async with self._client() as client:
            while True:
                pulled = await client.pull(0, offset, suspend_ms=0, address=address)
                found |= {one.queue_offset: one.fields.body for one in pulled.messages}
                if not pulled.messages:
                    return found
                offset = pulled.next_offset


def idle_queue_expired(stage: BrokerStage) -> str:
    """Its master dies, the next one is restarted, and a third one is made master: each gives the
    next offsets.
    """
    armed = Armed(stage)
    queue = _IdleQueue(stage, f"chaos-idle-{armed.seed}-{stage.number}")
    queue.send(IDLE)
    asyncio.run(queue.commit())
    begun = max(one.queue_offset for one in queue.acknowledged.values()) + 1
    end = max(damage.log_end(armed.store(name)) for name in stage.brokers)
    wait_until(
        lambda: _expired(armed, end),
        "no replica holds a message of the idle queue",
        EXPIRED_WITHIN_S,
    )
    with armed.killed(first := stage.master()):
        stage.new_master(first)
        queue.send(2)
    stage.cluster.whole()
    second = stage.master()
    with stage.held(second):
        queue.send(2)
    stage.cluster.whole()
    lead(stage, next(name for name in stage.brokers if name not in (first, second)))
    queue.send(2)
    _judge(queue, begun)
    return (
        f"{IDLE} messages of a queue expired everywhere; {first}, {second} and the third one went "
        f"on at {begun}"
    )


def _expired(armed: Armed, end: int) -> bool:
    return all(
        int(damage.log_files(armed.store(name))[0].name) >= end for name in armed.stage.brokers
    )


def _judge(queue: _IdleQueue, begun: int) -> None:
    """One whom the group's offset leads reads everything that came since, each where its answer
    said.
    """
    later = {number: one for number, one in queue.acknowledged.items() if number > IDLE}
    places = [one.queue_offset for one in later.values()]
    if min(places) < begun or len(set(places)) != len(places) or places != sorted(places):
        raise NotAsItShouldBe(f"offsets {places} were given to a queue that had come to {begun}")
    read = asyncio.run(queue.read(begun))
    wrong = [
        one.queue_offset
        for number, one in later.items()
        if read.get(one.queue_offset) != b"idle %d" % number
    ]
    if wrong:
        raise NotAsItShouldBe(f"what was acknowledged at {wrong} is not read there: {sorted(read)}")


LINES = (
    Line(
        "idle-expired",
        "all messages of an idle queue have expired before its master fails",
        idle_queue_expired,
        armed=True,
        settings=AS_IF_FULL,
        may_lose=("what has expired: the oldest files of the log go all the time"),
    ),
)
