"""The calling side of remoting: one shared connection per address.

Responsible for: opening a connection once however many ask for it, and the calls over it.
Refuses to know: retries, who leads, what an answer means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from brokers.remoting.addresses import split_address
from brokers.remoting.calls import ConnectFailed
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection, Handler
from brokers.remoting.dispatcher import not_supported
from brokers.remoting.limits import CLOSE_WAIT_MS, Limits
from brokers.remoting.silence import SilenceSweeper

CONNECT_TIMEOUT_MS = 3_000


class RemotingClient:
    """Calls to any number of addresses. Requests that peers send back over these connections go to
    `handler`.
    """

    def __init__(
        self,
        handler: Handler | None = None,
        on_close: Callable[[Connection], None] | None = None,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        limits: Limits | None = None,
    ) -> None:
        self._handler = handler or not_supported
        self._on_close = on_close
        self._connect_timeout_ms = connect_timeout_ms
        # The caller decides how long a quiet connection is kept; servers close idle ones.
        self._limits = replace(limits or Limits(), idle_ms=0)
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._sweeper: SilenceSweeper | None = None
        self._closed = False

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: int
    ) -> RemotingCommand:
        """The response, within `timeout_ms` including the time to connect.

        Raises ConnectFailed (nothing was sent), CallTimeout or ConnectionClosed (the effect is
        unknown).
        """
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            loop = asyncio.get_running_loop()
            started = loop.time()
            connection = await self.connect(address, timeout_ms)
            timeout_ms = max(1, timeout_ms - int((loop.time() - started) * 1000))
        return await connection.call(command, timeout_ms)

    async def send_oneway(self, address: str, command: RemotingCommand) -> None:
        """Send and expect nothing. Raises ConnectFailed."""
        (await self.connect(address)).send(command)

    def connection(self, address: str) -> Connection | None:
        """The open connection to the address, if there is one."""
        connection = self._connections.get(address)
        return None if connection is None or connection.closed else connection

    async def connect(self, address: str, timeout_ms: int | None = None) -> Connection:
        """The open connection, made when there is none. Raises ConnectFailed."""
        connection = self.connection(address)
        if connection is not None:
            return connection
        if self._closed:
            raise ConnectFailed("the client is closed")
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.ensure_future(self._open(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._opened(address, done))
        limit_ms = self._connect_timeout_ms if timeout_ms is None else timeout_ms
        done, _ = await asyncio.wait((task,), timeout=limit_ms / 1000)
        if not done:
            raise ConnectFailed(f"{address}: no connection within {limit_ms} ms")
        if task.cancelled():
            raise ConnectFailed(f"{address}: the client is closed")
        return task.result()

    def close_connection(self, address: str, reason: str = "closed by this side") -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close(reason)

    async def close(self) -> None:
        """Close every connection; calls under way end with ConnectionClosed."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.stop()
        for task in tuple(self._connecting.values()):
            task.cancel()
        open_ones = tuple(self._connections.values())
        for connection in open_ones:
            connection.close("the client is closed")
        if open_ones:
            waits = [asyncio.ensure_future(connection.wait_closed()) for connection in open_ones]
            await asyncio.wait(waits, timeout=CLOSE_WAIT_MS / 1000)
        for connection in open_ones:
            connection.abort("the client is closed")

    async def _open(self, address: str) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            host, port = split_address(address)
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: self._protocol(address), host, port
                )
        except TimeoutError:
            raise ConnectFailed(
                f"{address}: no connection within {self._connect_timeout_ms} ms"
            ) from None
        except (OSError, ValueError) as error:
            raise ConnectFailed(
                f"{address}: {error}", refused=isinstance(error, ConnectionRefusedError)
            ) from None
        if connection.closed:
            raise ConnectFailed(f"{address}: {connection.close_reason}")
        return connection

    def _opened(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            # Callers that gave up waiting leave nobody to fetch the failure.
            task.exception()

    def _protocol(self, address: str) -> Connection:
        def opened(connection: Connection) -> None:
            self._connections[address] = connection
            if self._sweeper is None:
                self._sweeper = SilenceSweeper(self._limits, self._connections.values)

        def lost(connection: Connection) -> None:
            if self._connections.get(address) is connection:
                del self._connections[address]
            if self._on_close is not None:
                self._on_close(connection)

        return Connection(
            self._handler, self._limits, on_open=opened, on_close=lost, pauses_reading=False
        )
