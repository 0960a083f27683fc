"""One remoting connection, the same on both sides: it serves requests, makes calls, and bounds what
the peer can cost.

Responsible for: pipelining, matching responses to calls, batching writes, limits and silence.
Refuses to know: what a request means; how connections are opened and counted (server.py,
client.py).
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import logging
import struct
import termios
from collections import deque
from collections.abc import Awaitable, Callable, Container, Mapping

from brokers.remoting.addresses import address_text, split_address
from brokers.remoting.calls import (
    CallTimeout,
    ConnectFailed,
    ConnectionClosed,
    PendingCalls,
    RemotingError,
)
from brokers.remoting.codec import TLS_ALERT, FrameDecoder, TlsRefused, encode, encode_start
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, RemotingCommand
from brokers.remoting.headers import FrameError
from brokers.remoting.limits import Limits
from brokers.remoting.outbox import Outbox

Answer = RemotingCommand | Awaitable[RemotingCommand | None] | None
Handler = Callable[["Connection", RemotingCommand], Answer]
# True: `answer_express` will follow. False: nothing was done, the handler is to be asked.
TakeExpress = Callable[["Connection", RemotingCommand], bool]


class Express:
    """A handler with a short way for its usual requests that want an answer: many of them are
    taken, and answered, together.
    """

    def __init__(self, handler: Handler, take: TakeExpress) -> None:
        self._handler, self.take = handler, take

    def __call__(self, connection: Connection, request: RemotingCommand) -> Answer:
        return self._handler(connection, request)


# What callers need to use a connection, whichever module it lives in.
__all__ = [
    "Answer",
    "CallTimeout",
    "ConnectFailed",
    "Connection",
    "ConnectionClosed",
    "Express",
    "Handler",
    "Limits",
    "RemotingError",
    "TakeExpress",
    "split_address",
]

_log = logging.getLogger("regent.remoting")
_ids = itertools.count(1)
_NUMBER_TAKEN = "a request of this number is under way on this connection"
_BUSY = "[OVERLOAD]system busy, too many requests in flight"
_OLD = "this process stood still, and the request may be older than that: send it again"
REMARK_CHARACTERS_MAX = 4_096


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
        on_read: Callable[[float], None] | None = None,
    ) -> None:
        """`on_read(now)`: before bytes are served, in s of the loop."""
        self.id = next(_ids)
        self.peer = self.local = ""
        self.attributes: dict[str, object] = {}
        self.closed, self.close_reason = False, ""
        self._handler, self._limits = handler, limits
        self._express: Mapping[int, TakeExpress] = getattr(handler, "express", {})
        self._in_express = 0  # held too, but not by number
        self._on_open, self._on_close = on_open, on_close
        self._on_read = on_read
        self._never_old: Container[int] = getattr(handler, "never_old", ())
        # Bytes still to be read that may have come while this process stood still.
        self._old_bytes = self._old_marks = 0
        # Only one side may stop reading when the other does not: two that do wait for each other
        # for ever.
        self._pauses_reading = pauses_reading
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(limits.frame_bytes)
        self._calls = PendingCalls(self.peer)
        self._held: dict[int, int] = {}
        self._held_bytes = 0
        self._tasks: set[asyncio.Future[RemotingCommand | None]] = set()
        self._outbox = Outbox(limits, self.abort)
        # Requests of one read that wait because the peer does not take the answers to those before
        # them.
        self._waiting: deque[RemotingCommand] = deque()
        self._lost = self._loop.create_future()
        self._last_read = self._frame_started = self._ended = self._loop.time()

    # -- sending -----------------------------------------------------------------------------------

    def send(self, command: RemotingCommand) -> None:
        """Write now, wait for nothing; nothing when closed: responses (with the request's opaque)
        and one-way requests.
        """
        if self.closed:
            return
        if command.flag & FLAG_RESPONSE:
            if self._held:
                self._held_bytes -= self._held.pop(command.opaque, 0)
            self._outbox.write(encode_start(command), command.body)
        else:
            self._outbox.write(
                encode(command, opaque=self._calls.next_opaque(), flag=command.flag | FLAG_ONEWAY)
            )

    def answer_express(self, frames: list[bytes], body_bytes: int) -> None:
        """The whole responses to as many requests that were taken, with the bytes of those
        requests' bodies.
        """
        if not self.closed:
            self._in_express -= len(frames)
            self._held_bytes -= body_bytes
            self._outbox.write_together(frames)

    def leave_express(self, request: RemotingCommand) -> None:
        """A request that was taken will be answered through `send` after all."""
        if not self.closed:
            self._in_express -= 1
            self._held[request.opaque] = self._held.get(request.opaque, 0) + len(request.body)

    async def call(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """The response. The command is not changed: its opaque is chosen here, so a received
        request can be passed on.

        Raises CallTimeout and ConnectionClosed (in both cases the effect is unknown).
        """
        if self.closed:
            raise ConnectionClosed(f"{self.peer}: {self.close_reason}")
        if len(self._calls) >= self._limits.calls:
            raise RemotingError(f"{self.peer}: {self._limits.calls} calls wait already")
        opaque = self._calls.next_opaque()
        frame = encode(command, opaque=opaque, flag=command.flag & ~(FLAG_ONEWAY | FLAG_RESPONSE))
        answer, timer = self._calls.open(opaque, command.code, timeout_ms)
        try:
            if self._outbox.paused:
                await self._outbox.until_writable(answer)
            if not self.closed:
                self._outbox.write(frame)
            return await answer
        finally:
            timer.cancel()
            self._calls.forget(opaque)

    def close(self, reason: str) -> None:
        """End the connection after what was sent; `reason` is one line."""
        if self.closed:
            return
        self._outbox.flush()
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
        return self._outbox.unsent_bytes

    def check_silence(self, now: float) -> None:
        """Close when half a frame, or nothing at all, came for too long. `now` is the loop's time
        in seconds. A closed connection whose peer does not take the rest is cut off.
        """
        limits = self._limits
        if self.closed:
            if (now - self._ended) * 1000 > limits.close_ms and self._transport is not None:
                self._transport.abort()
        elif limits.partial_frame_ms and self.partial_bytes:
            if (now - self._frame_started) * 1000 > limits.partial_frame_ms:
                self.abort(f"half a frame for more than {limits.partial_frame_ms} ms")
        elif limits.idle_ms and (now - self._last_read) * 1000 > limits.idle_ms:
            self.close(f"idle for more than {limits.idle_ms} ms")

    # -- receiving ---------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._last_read = self._loop.time()
        if self._on_read is not None:
            marks = self._old_marks
            self._on_read(self._last_read)
            if self._old_marks != marks:  # these bytes have left the socket
                self._old_bytes += len(data)
        self._outbox.collect()
        try:
            commands = self._decoder.feed(data)
        except FrameError as error:
            self._refuse(error)
            return
        if commands or self._decoder.partial_bytes <= len(data):
            self._frame_started = self._last_read
        old = self._old_bytes > 0 and self._read_old(len(data))
        for command in commands:
            if command.flag & FLAG_RESPONSE:
                self._calls.resolve(command)
            elif old and command.code in self._never_old:
                self._refuse_old(command)
            elif self._pauses_reading and self._outbox.paused:
                self._waiting.append(command)
            elif command.flag or not self._offer_express(command):
                self._take_request(command)
        if self._decoder.failure is not None:
            self._refuse(self._decoder.failure)
        if not self.closed:
            self._outbox.flush()

    def may_be_old(self) -> None:
        """This process stood still until now: what the socket holds may have come meanwhile, and a
        frame of which a part was read is as old.
        """
        transport = self._transport
        found = transport.get_extra_info("socket") if transport is not None else None
        if self.closed or found is None:
            return
        there = fcntl.ioctl(found.fileno(), termios.FIONREAD, struct.pack("i", 0))
        self._old_marks += 1
        self._old_bytes = max(struct.unpack("i", there)[0], 1 if self._decoder.partial_bytes else 0)
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if request.code in self._never_old:
                self._refuse_old(request)
            else:
                self._waiting.append(request)

    def _read_old(self, count: int) -> bool:
        """That many bytes were read. A frame that began among old ones is old as a whole."""
        left = self._old_bytes - count
        self._old_bytes = max(left, 1 if self._decoder.partial_bytes else 0)
        return True

    def _refuse_old(self, request: RemotingCommand) -> None:
        if not request.flag & FLAG_ONEWAY:
            self._outbox.write(
                encode_start(request.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=_OLD))
            )

    def _refuse(self, error: FrameError) -> None:
        if isinstance(error, TlsRefused) and self._transport is not None and not self.closed:
            self._transport.write(TLS_ALERT)
        _log.info("connection %d from %s closed: %s", self.id, self.peer, error.reason)
        self.close(error.reason)

    def _offer_express(self, request: RemotingCommand) -> bool:
        """The short way."""
        take = self._express.get(request.code)
        if take is None or self._full() or self.closed:
            return False
        try:
            if not take(self, request):
                return False
        except Exception as error:
            self._answer_failure(request, error)
            return True
        self._in_express += 1
        self._held_bytes += len(request.body)
        return True

    def _full(self) -> bool:
        limits = self._limits
        return (
            len(self._held) + self._in_express >= limits.in_flight_requests
            or self._held_bytes > limits.in_flight_bytes
        )

    def _take_request(self, request: RemotingCommand) -> None:
        if self.closed:
            return
        if self._full():
            self._answer(request, request.reply(ResponseCode.SYSTEM_BUSY, remark=_BUSY))
            return
        if not request.flag & FLAG_ONEWAY:
            if request.opaque in self._held:
                # Not through `send`: the request that has this number is still to be answered.
                self._outbox.write(
                    encode_start(request.reply(ResponseCode.SYSTEM_ERROR, remark=_NUMBER_TAKEN))
                )
                return
            # Before the handler runs: it may answer through `send` and return None.
            self._held_bytes += len(request.body)
            self._held[request.opaque] = len(request.body)
        try:
            answer = self._handler(self, request)
            if type(answer) is RemotingCommand:
                self._answer(request, answer)
            elif answer is not None:
                future = asyncio.ensure_future(answer)  # type: ignore[arg-type]  # `is` above is fast.
                self._tasks.add(future)
                if request.flag & FLAG_ONEWAY:  # it has no number that an answer would free
                    self._in_express += 1
                    self._held_bytes += len(request.body)
                future.add_done_callback(lambda done: self._answer_later(request, done))
        except Exception as error:
            self._answer_failure(request, error)

    def _answer(self, request: RemotingCommand, response: RemotingCommand) -> None:
        if not request.flag & FLAG_ONEWAY:
            response.opaque = request.opaque
            try:
                self.send(response)
            except (ValueError, TypeError) as error:
                self._answer_failure(request, error)

    def _answer_failure(self, request: RemotingCommand, error: BaseException) -> None:
        _log.exception("request %d from %s failed", request.code, self.peer, exc_info=error)
        remark = f"{type(error).__name__}: {error}"[:REMARK_CHARACTERS_MAX]
        self._answer(request, request.reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    def _answer_later(
        self, request: RemotingCommand, done: asyncio.Future[RemotingCommand | None]
    ) -> None:
        self._tasks.discard(done)
        if request.flag & FLAG_ONEWAY and not self.closed:
            self._in_express -= 1
            self._held_bytes -= len(request.body)
        if done.cancelled():
            self._answer(
                request,
                request.reply(ResponseCode.SYSTEM_ERROR, remark=("CancelledError: given up")),
            )
        elif (error := done.exception()) is not None:
            self._answer_failure(request, error)
        elif (response := done.result()) is not None:
            self._answer(request, response)

    # -- the transport's side ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._outbox.attach(transport)  # type: ignore[arg-type]
        self.peer = self._calls.peer = address_text(transport.get_extra_info("peername"))
        self.local = address_text(transport.get_extra_info("sockname"))
        self._on_open(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(f"connection lost: {error}" if error else "closed by the peer")
        # Handlers that still run go on: what they began for this peer may matter to others.
        if not self._lost.done():
            self._lost.set_result(None)
        self._on_close(self)

    def pause_writing(self) -> None:
        self._outbox.pause()
        if self._pauses_reading and self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._outbox.resume()
        while self._waiting and not self._outbox.paused:
            self._take_request(self._waiting.popleft())
        if (
            self._pauses_reading
            and not self._outbox.paused
            and self._transport is not None
            and not self.closed
        ):
            self._transport.resume_reading()

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed, self.close_reason, self._ended = True, reason, self._loop.time()
        self._calls.end_all(reason)
        self._held.clear()
        self._held_bytes = self._in_express = 0
        self._outbox.clear()
        self._waiting.clear()
