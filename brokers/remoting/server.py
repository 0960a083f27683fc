"""The listening side of remoting.

Responsible for: accepting connections within named limits, closing all of them at the end.
Refuses to know: what a handler does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from brokers.remoting.connection import Connection, Handler
from brokers.remoting.descriptors import connections_within
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.limits import CLOSE_WAIT_MS, Limits
from brokers.remoting.silence import SilenceSweeper
from brokers.remoting.standstill import Standstill

__all__ = ["Dispatcher", "RemotingServer"]

_log = logging.getLogger("regent.remoting")
ACCEPT_BACKLOG = 1_024
ACCEPT_TURNS = 3


class RemotingServer:
    """Serves one address. Responses keep no order; one-way requests are never answered.

    The handler returns the response, an awaitable of it, or None when the answer comes later
    through `send`. `on_open(connection)` and `on_close(connection)` run once each;
    `connection.close_reason` says why.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        on_open: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        idle_timeout_ms: int = 120_000,
        limits: Limits | None = None,
        has_place: Callable[[str], bool] | None = None,
    ) -> None:
        """`has_place(peer)`: whether that address may use the reserve of connections."""
        self._handler = handler
        self._host = host
        self._port = port
        self._on_open, self._on_close = on_open, on_close
        self._has_place = has_place or (lambda peer: False)
        limits = limits or Limits()
        self._limits = replace(
            limits, idle_ms=idle_timeout_ms, connections=connections_within(limits.connections)
        )
        self._connections: dict[int, Connection] = {}
        self._server: asyncio.Server | None = None
        self._sweeper: SilenceSweeper | None = None
        self._standstill: Standstill | None = None
        self._stopping = False

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        loop = asyncio.get_running_loop()
        self._standstill = Standstill(self._connections.values)
        self._server = await loop.create_server(
            self._protocol, self._host, self._port, backlog=ACCEPT_BACKLOG
        )
        self._sweeper = SilenceSweeper(self._limits, lambda: self._connections.values())

    @property
    def port(self) -> int:
        """The port that is listened on, also when 0 was asked for."""
        if self._server is None or not self._server.sockets:
            raise RuntimeError("the server is not started")
        return self._server.sockets[0].getsockname()[1]

    @property
    def connections(self) -> Iterator[Connection]:
        return iter(tuple(self._connections.values()))

    async def close(self) -> None:
        """Stop listening, close every connection, and wait for them a bounded time."""
        self._stopping = True
        if self._server is not None:
            await self._accept_no_more(self._server)
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.stop()
        if self._standstill is not None:
            self._standstill.stop()
        open_ones = tuple(self._connections.values())
        for connection in open_ones:
            connection.close("the server is stopping")
        if open_ones:
            await asyncio.wait(
                [asyncio.ensure_future(connection.wait_closed()) for connection in open_ones],
                timeout=CLOSE_WAIT_MS / 1000,
            )
        for connection in tuple(self._connections.values()):
            connection.abort("the server is stopping")

    async def _accept_no_more(self, server: asyncio.Server) -> None:
        """asyncio makes a connection two turns of the loop after it was accepted, and drops it
        unclosed when the server is closed by then.
        """
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(ACCEPT_TURNS):
            await asyncio.sleep(0)

    def _protocol(self) -> Connection:
        assert self._standstill is not None
        return Connection(
            self._handler,
            self._limits,
            on_open=self._opened,
            on_close=self._closed,
            pauses_reading=True,
            on_read=self._standstill.reads,
        )

    def _opened(self, connection: Connection) -> None:
        if self._stopping:  # it was accepted already, and nobody would close it any more
            connection.abort("the server is stopping")
            return
        if not self._is_room_for(connection.peer):
            _log.warning(
                "%s refused: %d connections are open", connection.peer, len(self._connections)
            )
            connection.abort("too many connections")
            return
        self._connections[connection.id] = connection
        if self._standstill is not None:
            self._standstill.accepted(connection)
        if self._on_open is not None:
            self._on_open(connection)

    def _is_room_for(self, peer: str) -> bool:
        room = self._limits.connections - len(self._connections)
        return room > 0 or (room > -self._limits.reserved_connections and self._has_place(peer))

    def _closed(self, connection: Connection) -> None:
        if self._connections.pop(connection.id, None) is not None and self._on_close is not None:
            self._on_close(connection)
