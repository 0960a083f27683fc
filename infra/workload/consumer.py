"""A consumer process: reads every queue by long polling and writes down what it got, in order.

Lines of its file: `queue queue_offset sequence` (-1 for a body whose bytes are not as sent).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.workload import process
from infra.workload.client import HEARTBEAT_MS, CallFailed, WorkloadClient
from infra.workload.message import sequence_of

RETRY_PAUSE_S = 0.02
COMMIT_INTERVAL_S = 1.0
CORRUPT = -1


class Consumer:
    """Reads until stopped. Its own memory says where it is; the broker gets it now and then."""

    def __init__(self, client: WorkloadClient, out: Path, queues: int) -> None:
        self._client = client
        self._out = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.offsets = dict.fromkeys(range(queues), 0)
        self.consumed = 0
        self.corrupt = 0
        self.moved = 0
        self.last_error = ""

    async def read_queue(self, queue: int) -> None:
        """Endless; a failed pull is tried again on a fresh route."""
        committed_at = 0.0
        while True:
            try:
                await self._pull(queue)
            except CallFailed as failed:
                self.last_error = failed.reason
                await self._client.refresh()
                await asyncio.sleep(RETRY_PAUSE_S)
            if time.monotonic() - committed_at > COMMIT_INTERVAL_S:
                committed_at = time.monotonic()
                await self._client.commit_offset(queue, self.offsets[queue])

    async def _pull(self, queue: int) -> None:
        pulled = await self._client.pull(queue, self.offsets[queue])
        lines = []
        for message in pulled.messages:
            sequence = sequence_of(bytes(message.fields.body))
            self.corrupt += sequence is None
            lines.append(
                b"%d %d %d\n"
                % (queue, message.queue_offset, CORRUPT if sequence is None else sequence)
            )
        if lines:
            os.write(self._out, b"".join(lines))
            self.consumed += len(lines)
        elif pulled.next_offset < self.offsets[queue]:
            self.moved += 1  # never for what was confirmed: the report shows it
        self.offsets[queue] = pulled.next_offset

    async def keep_known(self) -> None:
        """Heartbeats, so that the broker knows the group."""
        while True:
            try:
                await self._client.heartbeat(f"regent-demo@{os.getpid()}", consumer=True)
            except CallFailed as failed:
                self.last_error = failed.reason
            await asyncio.sleep(HEARTBEAT_MS / 1000)

    def figures(self) -> dict[str, Any]:
        return {
            "consumed": self.consumed,
            "corrupt": self.corrupt,
            "moved": self.moved,
            "last_error": self.last_error,
            "offsets": self.offsets,
        }


def read_records(path: Path) -> Iterator[tuple[int, int, int]]:
    """(queue, queue offset, sequence) as consumed; a torn last line is left out."""
    for line in path.read_bytes().split(b"\n")[:-1]:
        queue, queue_offset, sequence = line.split()
        yield int(queue), int(queue_offset), int(sequence)


async def run(flags: Any) -> int:
    """The process: consume, keep the status file fresh, stop on SIGTERM."""
    stop = process.stop_on_signals()
    async with WorkloadClient(
        flags.name_server,
        flags.topic,
        "regent-demo-consumer",
        poll_ms=flags.poll_ms,
        timeout_ms=flags.timeout_ms,
        queues=flags.queues,
    ) as client:
        consumer = Consumer(client, flags.out, flags.queues)
        tasks = [asyncio.create_task(consumer.read_queue(queue)) for queue in consumer.offsets]
        tasks.append(asyncio.create_task(consumer.keep_known()))
        while not stop.is_set():
            process.write_status(flags.status, consumer.figures())
            broken = [task for task in tasks if task.done()]
            if broken:
                broken[0].result()  # a defect of ours: end with its traceback
            await asyncio.wait(
                [asyncio.ensure_future(stop.wait())], timeout=process.STATUS_INTERVAL_S
            )
        for task in tasks:
            task.cancel()
        process.write_status(flags.status, {**consumer.figures(), "ended": True})
    return 0


def main(arguments: list[str]) -> int:
    """`python -m infra.workload.consumer --name-server ... --out FILE --status FILE`."""
    flags = process.parser("Consume every queue and write down what came.")
    return asyncio.run(run(flags.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
