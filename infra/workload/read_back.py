"""Read a topic back: every queue from its first message to the end it had when asked.

What "nothing acknowledged is lost" is judged by, in the demo, the benchmarks and the tests alike.
Refuses to know what was sent, and what becomes of what it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from brokers.remoting.codes import RequestCode
from infra.workload.client import CallFailed, WorkloadClient
from infra.workload.consumer import CORRUPT
from infra.workload.message import sequence_of

READ_TIMEOUT_MS = 5_000
# failed pulls of one queue; each is followed by a fresh route
READ_TRIES = 50


class QueueRead(NamedTuple):
    """(queue, queue offset, sequence) of each message, CORRUPT for a body that is not as sent.
    `stopped_at` is below `end` when the queue said that there is nothing more although it ends
    later.
    """

    records: list[tuple[int, int, int]]
    stopped_at: int
    end: int


async def read_queue(client: WorkloadClient, queue: int) -> QueueRead:
    """Everything in one queue. CallFailed when it cannot be read in READ_TRIES."""
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
        for message in pulled.messages:
            sequence = sequence_of(bytes(message.fields.body))
            found.append((queue, message.queue_offset, CORRUPT if sequence is None else sequence))
        if pulled.next_offset <= at:
            break
        at = pulled.next_offset
    return QueueRead(found, at, end)


async def read_topic(
    name_servers: Sequence[str], topic: str, group: str, queues: int
) -> list[QueueRead]:
    """Every queue of a topic, by queue id; errors as `read_queue`."""
    async with WorkloadClient(
        list(name_servers), topic, group, timeout_ms=READ_TIMEOUT_MS, queues=queues
    ) as client:
        return await asyncio.gather(*(read_queue(client, queue) for queue in range(queues)))
