"""A process that asks controllers for a decision all the time and writes down every call, as
`sender` does.

It asks one controller until a call fails, then the next one; a repeated question keeps its command
id. The decision is harmless: the registration of a broker that nobody elects, each with another end
offset, so that it changes the state and is a record of the log (1003); the first is the application
for its id (1013).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
import uuid
from pathlib import Path

from brokers.membership.controller_messages import (
    Introduction,
    LogPosition,
    apply_broker_id,
    register_broker,
)
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from infra.workload.process import stop_on_signals

TIMEOUT_MS = 500
PACE_S = 0.02
RETRY_PAUSE_S = 0.01
CHECK_CODE = "127.0.0.1:1;bench"
WALL_MS = 1_700_000_000_000


def applicant() -> Introduction:
    """A broker in a set of its own."""
    return Introduction(
        "regent", f"bench-asked-{uuid.uuid4().hex[:8]}", "127.0.0.1:1", "127.0.0.1:2", "bench"
    )


def question(me: Introduction, number: int, command_id: str) -> RemotingCommand:
    """The question of that number, from 0: each is a record that changes the state."""
    if number == 0:
        return apply_broker_id(me, 1, CHECK_CODE, command_id)
    return register_broker(me, 1, LogPosition(-1, number, 0), True, command_id, WALL_MS)


class Asker:
    """One question at a time, again until it is answered."""

    def __init__(self, controllers: list[str], out: Path) -> None:
        self._controllers = controllers
        self._at = 0
        self._file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._client = RemotingClient(connect_timeout_ms=TIMEOUT_MS)

    async def run(self, stop: asyncio.Event) -> None:
        sequence, me = 0, applicant()
        while not stop.is_set():
            request = question(me, sequence, uuid.uuid4().hex)
            while not await self._ask(sequence, request) and not stop.is_set():
                self._at = (self._at + 1) % len(self._controllers)
                await asyncio.sleep(RETRY_PAUSE_S)
            sequence += 1
            await asyncio.sleep(PACE_S)
        await self._client.close()

    async def _ask(self, sequence: int, request: RemotingCommand) -> bool:
        address = self._controllers[self._at]
        os.write(self._file, b"S %d 0 %d\n" % (sequence, time.monotonic_ns()))
        try:
            answer = await self._client.call(address, request, TIMEOUT_MS)
            reason = "" if answer.code == 0 else f"code {answer.code} {answer.remark or ''}"
        except (RemotingError, OSError) as error:
            reason = f"{type(error).__name__}: {error}"
        if reason:
            line = f"U {sequence} {time.monotonic_ns()} {address}: {' '.join(reason.split())}"
            os.write(self._file, f"{line[:200]}\n".encode())
            return False
        os.write(self._file, b"A %d 0 0 %d\n" % (sequence, time.monotonic_ns()))
        return True


async def run(arguments: list[str]) -> int:
    flags = argparse.ArgumentParser(
        description=("Ask controllers for decisions and write down the times of every call.")
    )
    flags.add_argument("--controller", action="append", required=True, metavar="HOST:PORT")
    flags.add_argument("--out", type=Path, required=True)
    given = flags.parse_args(arguments)
    stop = stop_on_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    await Asker(given.controller, given.out).run(stop)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1:])))
