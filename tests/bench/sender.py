"""A sending process whose every call is written down with its times: ledger and clock in one file.

It is the workload's own client (poll and timeout as given): one message under way per queue, sent
again until it is acknowledged, the route asked for again after each failure. Lines, all times
monotonic ns:

    S seq queue invoked            before the call
    A seq queue queue_offset ended the answer had code 0
    U seq ended reason             anything else: stored or not
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from infra.workload.client import CallFailed, WorkloadClient
from infra.workload.message import BODY_BYTES, body_of
from infra.workload.process import parser, stop_on_signals, write_status
from tests.bench.calls import Call

RETRY_PAUSE_S = 0.02
FAREWELL_S = 15.0


class Sender:
    """Sends at a rate over all queues until stopped."""

    def __init__(self, client: WorkloadClient, out: Path, queues: int, rate: float) -> None:
        self._client = client
        self._file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._queues = queues
        self._rate = rate

    async def run(self, stop: asyncio.Event) -> None:
        began = time.monotonic()
        await asyncio.gather(*(self._lane(queue, began, stop) for queue in range(self._queues)))
        os.close(self._file)

    async def _lane(self, queue: int, began: float, stop: asyncio.Event) -> None:
        sequence = queue
        while not stop.is_set():
            wait = began + sequence / self._rate - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            await self._deliver(sequence, queue, stop)
            sequence += self._queues

    async def _deliver(self, sequence: int, queue: int, stop: asyncio.Event) -> None:
        body, give_up = body_of(sequence, BODY_BYTES), 0.0
        while not await self._call(sequence, queue, body):
            if stop.is_set():
                give_up = give_up or time.monotonic() + FAREWELL_S
                if time.monotonic() > give_up:
                    return
            before = self._client.route
            await self._client.refresh()
            if self._client.route == before:
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _call(self, sequence: int, queue: int, body: bytes) -> bool:
        os.write(self._file, b"S %d %d %d\n" % (sequence, queue, time.monotonic_ns()))
        try:
            stored = await self._client.send(str(sequence), body, queue)
        except CallFailed as failed:
            reason = " ".join(f"{failed.address}: {failed.reason}".split())[:160]
            os.write(self._file, f"U {sequence} {time.monotonic_ns()} {reason}\n".encode())
            return False
        os.write(
            self._file,
            b"A %d %d %d %d\n" % (sequence, stored.queue, stored.queue_offset, time.monotonic_ns()),
        )
        return True


class CallLog:
    """Reads such a file while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._open: dict[int, int] = {}
        self._calls: list[Call] = []

    def calls(self) -> list[Call]:
        """All calls that have ended, in the order of their ends."""
        if self._path.exists():
            with self._path.open("rb") as source:
                source.seek(self._read)
                data = source.read()
            whole = data.rfind(b"\n") + 1
            self._read += whole
            for line in data[:whole].splitlines():
                self._take(line.split(b" ", 4))
        return self._calls

    def _take(self, words: list[bytes]) -> None:
        sequence = int(words[1])
        if words[0] == b"S":
            self._open[sequence] = int(words[3])
        elif words[0] == b"A":
            self._calls.append(Call(self._open.pop(sequence), int(words[4]), True))
        elif words[0] == b"U":
            reason = b" ".join(words[3:]).decode("utf-8", "replace")
            self._calls.append(Call(self._open.pop(sequence), int(words[2]), False, reason))


async def run(arguments: list[str]) -> int:
    flags = parser("Send messages at a rate and write down the times of every call.")
    flags.add_argument("--rate", type=float, default=500.0)
    given = flags.parse_args(arguments)
    stop = stop_on_signals()
    # Ctrl-C is for the benchmark, which stops this process itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    async with WorkloadClient(
        given.name_server,
        given.topic,
        "regent-bench-producer",
        poll_ms=given.poll_ms,
        timeout_ms=given.timeout_ms,
        queues=given.queues,
    ) as client:
        await Sender(client, given.out, given.queues, given.rate).run(stop)
    write_status(given.status, {"ended": True})
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1:])))
