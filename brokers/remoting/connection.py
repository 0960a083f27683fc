"""One remoting connection, the same on both sides: it serves requests, makes calls, and bounds what the peer can cost.

Responsible for: pipelining, matching responses to calls, batching writes, limits and silence.
Refuses to know: what a request means; how connections are opened and counted (server.py, client.py).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from brokers.remoting.codec import FRAME_BYTES_MAX, FrameDecoder, FrameError, TlsRefused, encode
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, RemotingCommand

_log = logging.getLogger(__name__)
_ids = itertools.count(1)
# TLS alert, fatal, handshake failure: a TLS client reports it at once instead of waiting.
_TLS_ALERT = bytes.fromhex("15030100020228")


class RemotingError(Exception):
    """A call did not end with a response."""


class CallTimeout(RemotingError):
    """No response in time. Whether the peer acted is unknown."""


class ConnectionClosed(RemotingError):
    """The connection ended before the response. Whether the peer acted is unknown."""


class ConnectFailed(ConnectionClosed):
    """No connection was made, so nothing was sent. `refused`: the peer's machine said that nobody listens."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Limits:
    """What one peer may cost. Times in ms, 0 = no limit in time."""

    frame_bytes: int = FRAME_BYTES_MAX
    # Not sent because the peer does not read: reading its requests stops at the first, the connection ends at the second.
    write_pause_bytes: int = 1_048_576
    write_buffer_bytes: int = 67_108_864
    # Requests taken and not answered yet, and the bytes of their bodies; more is answered with SYSTEM_BUSY.
    in_flight_requests: int = 16_384
    in_flight_bytes: int = 134_217_728
    # Calls of ours that wait for a response.
    calls: int = 65_536
    partial_frame_ms: int = 30_000
    idle_ms: int = 120_000
    # Server only.
    connections: int = 8_192
    partial_bytes_of_all: int = 268_435_456


Answer = RemotingCommand | Awaitable[RemotingCommand | None] | None
Handler = Callable[["Connection", RemotingCommand], Answer]


class Connection(asyncio.Protocol):
    """One socket. Made by RemotingServer and RemotingClient; handlers get it with each request."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        *,
        on_open: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
        pauses_reading: bool,
    ) -> None:
        self.id = next(_ids)
        self.peer = ""
        self.local = ""
        self.attributes: dict[str, object] = {}
        self.closed = False
        self.close_reason = ""
        self._handler, self._limits = handler, limits
        self._on_open, self._on_close = on_open, on_close
        # Only one side may stop reading when the other does not: two that do wait for each other for ever.
        self._pauses_reading = pauses_reading
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(limits.frame_bytes)
        self._opaques = itertools.count(1)
        self._calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._held: dict[int, int] = {}
        self._held_bytes = 0
        self._tasks: set[asyncio.Future[RemotingCommand | None]] = set()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flush_due = False
        # Requests of one read that wait because the peer does not take the answers to those before them.
        self._waiting: deque[RemotingCommand] = deque()
        self._writable: asyncio.Future[None] | None = None
        self._lost = self._loop.create_future()
        self._last_read = self._frame_started = self._loop.time()

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, command: RemotingCommand) -> None:
        """Write now, wait for nothing: responses (with the request's opaque) and one-way requests. Silent when closed."""
        if command.flag & FLAG_RESPONSE:
            if self._held:
                self._held_bytes -= self._held.pop(command.opaque, 0)
            self._write(encode(command))
        else:
            self._write(encode(command, opaque=next(self._opaques) & 0x7FFFFFFF, flag=command.flag | FLAG_ONEWAY))

    async def call(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """The response. The command is not changed: its opaque is chosen here, so a received request can be passed on.

        Raises CallTimeout and ConnectionClosed (in both cases the effect is unknown).
        """
        if self.closed:
            raise ConnectionClosed(f"{self.peer}: {self.close_reason}")
        if len(self._calls) >= self._limits.calls:
            raise RemotingError(f"{self.peer}: {self._limits.calls} calls wait already")
        opaque = next(self._opaques) & 0x7FFFFFFF
        frame = encode(command, opaque=opaque, flag=command.flag & ~(FLAG_ONEWAY | FLAG_RESPONSE))
        answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self._calls[opaque] = answer
        timer = self._loop.call_later(timeout_ms / 1000, self._expire, opaque, command.code, timeout_ms)
        try:
            if self._writable is not None:
                await self._until_writable(answer)
            self._write(frame)
            return await answer
        finally:
            timer.cancel()
            self._calls.pop(opaque, None)

    def close(self, reason: str) -> None:
        """End the connection after what was sent; `reason` is one line."""
        if self.closed:
            return
        self._flush()
        self._end(reason)
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """End the connection at once, dropping what the peer has not read."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Until the socket is gone and on_close has run."""
        await asyncio.shield(self._lost)

    @property
    def partial_bytes(self) -> int:
        """Bytes held of a frame that is not complete."""
        return self._decoder.partial_bytes

    @property
    def calls_waiting(self) -> int:
        """Calls of ours without an answer so far."""
        return len(self._calls)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the peer has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def check_silence(self, now: float) -> None:
        """Close when half a frame, or nothing at all, came for too long. `now` is the loop's time in seconds."""
        limits = self._limits
        if limits.partial_frame_ms and self.partial_bytes:
            if (now - self._frame_started) * 1000 > limits.partial_frame_ms:
                self.abort(f"half a frame for more than {limits.partial_frame_ms} ms")
        elif limits.idle_ms and (now - self._last_read) * 1000 > limits.idle_ms:
            self.close(f"idle for more than {limits.idle_ms} ms")

    def _write(self, frame: bytes) -> None:
        if self.closed:
            return
        # One write per event of the loop: responses made together leave in one packet.
        self._out.append(frame)
        self._out_bytes += len(frame)
        if self._out_bytes > self._limits.write_pause_bytes:
            self._flush()
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        out = self._out
        if not out or self.closed or self._transport is None:
            return
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()
        self._out_bytes = 0
        if self._writable is not None and self.unsent_bytes > self._limits.write_buffer_bytes:
            self.abort(f"the peer left more than {self._limits.write_buffer_bytes} bytes unread")

    def _expire(self, opaque: int, code: int, timeout_ms: int) -> None:
        answer = self._calls.pop(opaque, None)
        if answer is not None and not answer.done():
            answer.set_exception(CallTimeout(f"{self.peer}: no answer to {code} within {timeout_ms} ms"))

    async def _until_writable(self, answer: asyncio.Future[RemotingCommand]) -> None:
        while self._writable is not None and not answer.done():
            await asyncio.wait((self._writable, answer), return_when=asyncio.FIRST_COMPLETED)

    # -- receiving -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._last_read = self._loop.time()
        self._flush_due = True
        try:
            commands = self._decoder.feed(data)
        except FrameError as error:
            self._refuse(error)
            return
        if commands or self._decoder.partial_bytes <= len(data):
            self._frame_started = self._last_read
        for command in commands:
            if command.flag & FLAG_RESPONSE:
                self._take_response(command)
            elif self._pauses_reading and self._writable is not None:
                self._waiting.append(command)
            else:
                self._take_request(command)
        if self._decoder.failure is not None:
            self._refuse(self._decoder.failure)
        self._flush()

    def _refuse(self, error: FrameError) -> None:
        if isinstance(error, TlsRefused) and self._transport is not None and not self.closed:
            self._transport.write(_TLS_ALERT)
        _log.info("connection %d from %s closed: %s", self.id, self.peer, error.reason)
        self.close(error.reason)

    def _take_response(self, response: RemotingCommand) -> None:
        answer = self._calls.pop(response.opaque, None)
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _take_request(self, request: RemotingCommand) -> None:
        if self.closed:
            return
        if len(self._held) >= self._limits.in_flight_requests or self._held_bytes > self._limits.in_flight_bytes:
            self._answer(request, request.reply(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]system busy, too many requests in flight"))
            return
        try:
            answer = self._handler(self, request)
        except Exception as error:
            self._answer_failure(request, error)
            return
        if type(answer) is RemotingCommand:
            self._answer(request, answer)
            return
        if not request.flag & FLAG_ONEWAY and not self.closed:
            self._hold(request)
        if answer is not None:
            future = asyncio.ensure_future(answer)
            self._tasks.add(future)
            future.add_done_callback(lambda done: self._answer_later(request, done))

    def _hold(self, request: RemotingCommand) -> None:
        self._held_bytes += len(request.body) - self._held.get(request.opaque, 0)
        self._held[request.opaque] = len(request.body)

    def _answer(self, request: RemotingCommand, response: RemotingCommand) -> None:
        if not request.flag & FLAG_ONEWAY:
            response.opaque = request.opaque
            try:
                self.send(response)
            except (ValueError, TypeError) as error:
                self._answer_failure(request, error)

    def _answer_failure(self, request: RemotingCommand, error: BaseException) -> None:
        _log.exception("request %d from %s failed", request.code, self.peer, exc_info=error)
        self._answer(request, request.reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}"[:4096]))

    def _answer_later(self, request: RemotingCommand, done: asyncio.Future[RemotingCommand | None]) -> None:
        self._tasks.discard(done)
        if done.cancelled():
            self._answer_failure(request, asyncio.CancelledError("the server is stopping"))
        elif (error := done.exception()) is not None:
            self._answer_failure(request, error)
        elif (response := done.result()) is not None:
            self._answer(request, response)

    # -- the transport's side --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        transport.set_write_buffer_limits(high=self._limits.write_pause_bytes)  # type: ignore[attr-defined]
        self._on_open(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"connection lost: {error}" if error else "closed by the peer")
        for task in tuple(self._tasks):
            task.cancel()
        if not self._lost.done():
            self._lost.set_result(None)
        self._on_close(self)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()
        if self._pauses_reading and self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None
        while self._waiting and self._writable is None:
            self._take_request(self._waiting.popleft())
        if self._pauses_reading and self._writable is None and self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed, self.close_reason = True, reason
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(ConnectionClosed(f"{self.peer}: {reason}"))
        self._calls.clear()
        self._held.clear()
        self._held_bytes = 0
        self._out.clear()
        self._waiting.clear()


def _address(name: object) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else str(name or "")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" ("[::1]:9876" too). Raises ValueError."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)
