"""The HTTP port of a process: metrics, health, and whatever else has a route.

Responsible for: listening, finding the route, bounding what a stranger can hold, and one answer for
what is not there.
Refuses to know: what the routes say. They answer bytes, or a file that is sent piece by piece.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

_log = logging.getLogger("regent.http")

OPEN_MAX = 64
"""Requests under way at once; more are turned away with 503."""
CONNECTIONS_MAX = 256
QUIET_S = 30.0
"""A connection that brings no whole request for this long is ended."""
CLOSE_WAIT_S = 1.0
ANSWER_MAX_S = 180.0
"""A reader that takes nothing for this long loses its place."""
CHUNK_BYTES = 1 << 20
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`body` is sent as it is, or read from the file."""

    status: int
    content_type: str
    body: bytes | Path
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Mapping[str, str]], Awaitable[HttpAnswer]]
"""Gets the query's fields; of a repeated one the last counts."""


def text(status: int, line: str) -> HttpAnswer:
    """One line of plain text."""
    return HttpAnswer(status, TEXT, f"{line}\n".encode())


class HttpFront:
    """`routes`: `/path` is asked with GET or HEAD; `PUT /path` is for changes, and POST goes there
    too.
    """

    def __init__(
        self, host: str, port: int, routes: Mapping[str, Route], quiet_s: float = QUIET_S
    ) -> None:
        self._host = host
        self._port = port
        self._quiet_s = quiet_s
        self._routes = dict(routes)
        self._paths = sorted({name.rpartition(" ")[2] for name in routes})
        self._open = 0
        self._heard: dict[asyncio.BaseProtocol, int] = {}
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        loop = asyncio.get_running_loop()
        self._server = web.Server(self._take, access_log=None, keepalive_timeout=self._quiet_s)
        self._listener = await loop.create_server(self._protocol, self._host, self._port)

    @property
    def port(self) -> int:
        """The port that is listened on, also when 0 was asked for."""
        if self._listener is None or not self._listener.sockets:
            raise RuntimeError("the HTTP port is not open")
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def watched(self) -> int:
        """How many connections are looked after; those that ended are forgotten after a while."""
        return len(self._heard)

    async def close(self) -> None:
        """Stop listening and end what is under way; does nothing when it never started."""
        if self._listener is not None and self._server is not None:
            self._listener.close()
            await self._server.shutdown(CLOSE_WAIT_S)
            # transports close in the loop's next turn
            await asyncio.sleep(0)

    def _protocol(self) -> asyncio.BaseProtocol:
        assert self._server is not None
        if len(self._server.connections) >= CONNECTIONS_MAX:
            return _Refusal()
        made = self._server()
        self._heard[made] = 0
        self._watch(made)
        return made

    def _watch(self, protocol: asyncio.BaseProtocol) -> None:
        """Ends the connection unless another request has come by then, whole."""
        asyncio.get_running_loop().call_later(
            self._quiet_s, self._end_quiet, protocol, self._heard[protocol]
        )

    def _end_quiet(self, protocol: asyncio.BaseProtocol, heard: int) -> None:
        if self._heard.get(protocol) == heard:
            del self._heard[protocol]
            transport = getattr(protocol, "transport", None)  # None: it is gone already
            if transport is not None:
                transport.abort()

    async def _take(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol: asyncio.BaseProtocol = request.protocol
        self._heard[protocol] = self._heard.get(protocol, 0) + 1
        if self._open >= OPEN_MAX:
            self._watch(protocol)
            return _whole(request, text(503, "too many requests at once"))
        self._open += 1
        try:
            async with asyncio.timeout(ANSWER_MAX_S):
                return await self._answer(request)
        finally:
            self._open -= 1
            self._watch(protocol)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path not in self._paths:
            return _whole(
                request, text(404, f"there is no {request.path}; there are {' '.join(self._paths)}")
            )
        method = {"HEAD": "GET", "POST": "PUT"}.get(request.method, request.method)
        route = self._routes.get(request.path if method == "GET" else f"{method} {request.path}")
        if route is None:
            return _whole(request, text(405, f"{request.path} is not for {request.method}"))
        try:
            answer = await route(dict(request.query))
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return _whole(request, text(500, "an error of its own; see the log"))
        if isinstance(answer.body, bytes):
            return _whole(request, answer)
        return await _from_file(request, answer, answer.body)


class _Refusal(asyncio.Protocol):
    """For one connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


def _whole(request: web.BaseRequest, answer: HttpAnswer) -> web.Response:
    assert isinstance(answer.body, bytes)
    headers = {"Content-Type": answer.content_type, **answer.headers}
    return web.Response(status=answer.status, body=answer.body, headers=headers)


async def _from_file(
    request: web.BaseRequest, answer: HttpAnswer, path: Path
) -> web.StreamResponse:
    """The file as it is when it is opened: a file that is replaced or removed meanwhile is sent to
    its end.
    """
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except OSError:
        return _whole(request, text(404, "it is gone; ask again"))
    with file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        response = web.StreamResponse(
            status=answer.status, headers={"Content-Type": answer.content_type, **answer.headers}
        )
        response.content_length = size
        await response.prepare(request)
        left = 0 if request.method == "HEAD" else size
        while left and (part := await asyncio.to_thread(file.read, min(CHUNK_BYTES, left))):
            await response.write(part)
            left -= len(part)
        await response.write_eof()
    return response
