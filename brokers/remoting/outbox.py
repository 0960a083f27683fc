"""Frames on their way out of one connection.

Responsible for: one write per event of the loop, and the bound on what a peer may leave unread.
Refuses to know: what a frame holds, and when a connection ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from brokers.remoting.limits import Limits

# From this many bytes on, joining frames costs more than giving the system a list of them.
GATHER_BYTES = 16_384
GATHER_MAX = 512


class Outbox:
    """Collects frames and hands them to the transport together, so that what is made together
    leaves in one packet.
    """

    def __init__(self, limits: Limits, on_overflow: Callable[[str], None]) -> None:
        self._limits, self._on_overflow = limits, on_overflow
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self._bytes = 0
        self._flush_due = False
        self._writable: asyncio.Future[None] | None = None

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_pause_bytes)

    @property
    def paused(self) -> bool:
        """Whether the peer has left so much unread that no more should be made for it."""
        return self._writable is not None

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the peer's machine has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def collect(self) -> None:
        """Write nothing until `flush`, which the caller promises to call in the same event of the
        loop.
        """
        self._flush_due = True

    def write(self, frame: bytes, body: bytes = b"") -> None:
        """A frame, or its beginning and its body."""
        self._frames.append(frame)
        if body:
            self._frames.append(body)
        self._bytes += len(frame) + len(body)
        if self._bytes > self._limits.write_pause_bytes:
            self.flush()
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def write_together(self, frames: list[bytes]) -> None:
        """Frames that were made together: on their way now, unless a flush is due anyway."""
        self._frames += frames
        self._bytes += sum(map(len, frames))
        if not self._flush_due or self._bytes > self._limits.write_pause_bytes:
            self.flush()

    def flush(self) -> None:
        """Hand over what was collected."""
        self._flush_due = False
        frames = self._frames
        if not frames or self._transport is None:
            return
        rest = self._gathered(frames) if self._bytes >= GATHER_BYTES and len(frames) > 1 else frames
        if rest:
            self._transport.write(rest[0] if len(rest) == 1 else b"".join(rest))
        self.clear()
        if self._writable is not None and self.unsent_bytes > self._limits.write_buffer_bytes:
            self._on_overflow(
                f"the peer left more than {self._limits.write_buffer_bytes} bytes unread"
            )

    def _gathered(self, frames: list[bytes]) -> list[bytes]:
        """Gives the socket what it takes at once, as it is; returns the rest."""
        assert self._transport is not None
        socket = self._transport.get_extra_info("socket")
        if (
            socket is None
            or self._transport.is_closing()
            or self._transport.get_write_buffer_size()
        ):
            return frames
        try:
            sent = os.writev(socket.fileno(), frames[:GATHER_MAX])
        except OSError:  # full, or broken: the transport finds out the same and knows what to do
            return frames
        for number, frame in enumerate(frames):
            if sent < len(frame):
                return [frame[sent:], *frames[number + 1 :]]
            sent -= len(frame)
        return []

    def clear(self) -> None:
        """Forget what was not handed over."""
        self._frames.clear()
        self._bytes = 0

    def pause(self) -> None:
        self._writable = self._loop.create_future()

    def resume(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    async def until_writable(self, unless: asyncio.Future[Any]) -> None:
        """Until the peer reads again, or `unless` is done."""
        while self._writable is not None and not unless.done():
            await asyncio.wait((self._writable, unless), return_when=asyncio.FIRST_COMPLETED)
