"""A remoting server in a thread of its own, for tests of callers that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer

LIMIT_S = 10


@contextmanager
def serving(
    handler: Callable[[Connection, RemotingCommand], RemotingCommand | None],
) -> Iterator[str]:
    """Serve until the end of the block; gives the address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = RemotingServer(handler)
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(LIMIT_S)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(LIMIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()
