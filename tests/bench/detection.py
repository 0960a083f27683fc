"""The bare path of a recovery: a server dies by `kill -9`, its client sees the connection close and
asks another one.

Nothing is elected, replicated or looked up; the same remoting, the same machine, the same moment.
It is the least that any failover behind TCP can take here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from multiprocessing.connection import Connection as Pipe

from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from tests.bench.apart import SPAWN

TIMEOUT_MS = 500
PACE_S = 0.002
CALLS_BEFORE = 50


def _serve(link: Pipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def answer(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.reply(0)

    async def run() -> None:
        server = RemotingServer(answer)
        await server.start()
        link.send((os.getpid(), server.port))
        await asyncio.Event().wait()

    asyncio.run(run())


async def _recover(first: str, pid: int, second: str) -> float:
    """Seconds from the invocation of the first failed call to the first answer of the other
    server.
    """
    client, at = RemotingClient(connect_timeout_ms=TIMEOUT_MS), first
    failed_at, done = 0.0, 0
    try:
        while True:
            invoked = time.perf_counter()
            try:
                await client.call(at, RemotingCommand.request(0), TIMEOUT_MS)
            except RemotingError:
                failed_at, at = failed_at or invoked, second
                continue
            if failed_at:
                return time.perf_counter() - failed_at
            done += 1
            if done == CALLS_BEFORE:
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(PACE_S)
    finally:
        await client.close()


def bare_recoveries(count: int) -> list[float]:
    """That many recoveries, in s."""
    times = []
    for _ in range(count):
        pipes = [SPAWN.Pipe() for _ in range(2)]
        servers = [SPAWN.Process(target=_serve, args=(theirs,), daemon=True) for _, theirs in pipes]
        try:
            for server in servers:
                server.start()
            (pid, first), (_, second) = (ours.recv() for ours, _ in pipes)
            times.append(
                round(asyncio.run(_recover(f"127.0.0.1:{first}", pid, f"127.0.0.1:{second}")), 4)
            )
        finally:
            for server in servers:
                server.kill()
                server.join()
    return times
