"""A producer process: messages at a rate over several queues, a ledger on disk, every outage
measured.

One message is under way per queue, and it is sent again until it is acknowledged: so each queue's
order is the order of sequence numbers, and what comes twice is a retry.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.workload import process
from infra.workload.client import CallFailed, WorkloadClient
from infra.workload.ledger import Ledger
from infra.workload.message import BODY_BYTES, body_of
from infra.workload.outages import OutageMeter

RETRY_PAUSE_S = 0.02
# after a stop was asked for, a message still under way may try this long
FAREWELL_S = 15.0
LATENCIES_KEPT = 200_000


class Producer:
    """Sends until stopped. `rate` is messages per second over all queues."""

    def __init__(
        self, client: WorkloadClient, ledger: Ledger, queues: int, rate: float, size: int
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._queues = queues
        self._rate = rate
        self._size = size
        self._latencies_us: list[int] = []
        self.meter = OutageMeter()
        self.done = 0
        self.last_error = ""

    async def run(self, stop: asyncio.Event) -> None:
        """One lane per queue; returns when all lanes have ended after a stop."""
        began = time.monotonic()
        await asyncio.gather(*(self._lane(queue, began, stop) for queue in range(self._queues)))

    async def _lane(self, queue: int, began: float, stop: asyncio.Event) -> None:
        sequence = queue
        while not stop.is_set():
            wait = began + sequence / self._rate - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            if not await self._deliver(sequence, queue, stop):
                return
            sequence += self._queues

    async def _deliver(self, sequence: int, queue: int, stop: asyncio.Event) -> bool:
        body = body_of(sequence, self._size)
        give_up = None
        while True:
            if await self._call(sequence, queue, body):
                return True
            if stop.is_set():
                give_up = give_up or time.monotonic() + FAREWELL_S
                if time.monotonic() > give_up:
                    return False
            before = self._client.route
            await self._client.refresh()
            if self._client.route == before:
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _call(self, sequence: int, queue: int, body: bytes) -> bool:
        invoked_ns, invoked_wall_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        self._ledger.call(sequence, queue)
        try:
            stored = await self._client.send(str(sequence), body, queue)
        except CallFailed as failed:
            self._ledger.leave_open(sequence, failed.reason)
            self.meter.failed(invoked_ns, invoked_wall_ms, failed.address, failed.reason)
            self.last_error = failed.reason
            return False
        now_ns = time.monotonic_ns()
        self._ledger.acknowledge(sequence, stored.queue, stored.queue_offset)
        self.meter.succeeded(now_ns, stored.address)
        self.done += 1
        if len(self._latencies_us) < LATENCIES_KEPT:
            self._latencies_us.append((now_ns - invoked_ns) // 1000)
        return True

    def figures(self) -> dict[str, Any]:
        """For the live line and the report."""
        sample = sorted(self._latencies_us)
        return {
            "calls": self._ledger.sent,
            "acknowledged": self._ledger.acknowledged,
            "unknown": self._ledger.unknown,
            "outage": self.meter.is_open,
            "outages": [asdict(one) for one in self.meter.finished],
            "longest_gap_ms": round(self.meter.longest_gap_ms, 1),
            "latency_p50_ms": sample[len(sample) // 2] / 1000 if sample else None,
            "latency_p99_ms": sample[len(sample) * 99 // 100] / 1000 if sample else None,
            "last_error": self.last_error,
        }


async def run(flags: Any) -> int:
    """The process: send, keep the status file fresh, stop cleanly on SIGTERM."""
    stop = process.stop_on_signals()
    ledger = Ledger(flags.out)
    async with WorkloadClient(
        flags.name_server,
        flags.topic,
        "regent-demo-producer",
        poll_ms=flags.poll_ms,
        timeout_ms=flags.timeout_ms,
        queues=flags.queues,
    ) as client:
        producer = Producer(client, ledger, flags.queues, flags.rate, flags.size)
        writer = asyncio.create_task(_keep_status(flags.status, producer))
        try:
            await producer.run(stop)
        finally:
            writer.cancel()
            ledger.close()
            process.write_status(flags.status, {**producer.figures(), "ended": True})
    return 0


async def _keep_status(path: Path, producer: Producer) -> None:
    while True:
        process.write_status(path, producer.figures())
        await asyncio.sleep(process.STATUS_INTERVAL_S)


def main(arguments: list[str]) -> int:
    """`python -m infra.workload.producer --name-server ... --out LEDGER --status FILE`."""
    flags = process.parser("Send messages at a rate and keep a ledger of what was acknowledged.")
    flags.add_argument(
        "--rate", type=float, default=500.0, help=("messages per second over all queues")
    )
    flags.add_argument("--size", type=int, default=BODY_BYTES, help="bytes of one body")
    return asyncio.run(run(flags.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
