"""What a slave tells its master waits until the bytes it speaks of are on this slave's disk.

Responsible for: the order of flush and acknowledgement, at most one flush under way and one packet waiting.
Refuses to know: what packets say, how a flush is done, when it is wanted.

With synchronous flush on all members, whoever is elected holds on its disk all that was acknowledged, whatever happened to
the others since (S1, S5): an election shrinks the set to those that seem alive, and they may lose their power a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from brokers.log.flush_queue import Flushed


class Packet(NamedTuple):
    """To be sent once everything below `end_offset` is durable."""

    link_id: int
    data: bytes
    end_offset: int


class DurableAcks:
    """`flushed(end offset)` makes it so; `send(link id, data)` writes. Needs a running event loop."""

    def __init__(self, flushed: Callable[[int], asyncio.Future[Flushed]], send: Callable[[int, bytes], None]) -> None:
        self._flushed, self._send = flushed, send
        self._under_way: Packet | None = None
        self._next: Packet | None = None

    def send(self, link_id: int, data: bytes, end_offset: int) -> None:
        """Each packet tells all that the ones before it told: one that still waits is replaced."""
        packet = Packet(link_id, data, end_offset)
        if self._under_way is not None:
            self._next = packet
            return
        self._begin(packet)

    def _begin(self, packet: Packet) -> None:
        self._under_way = packet
        self._flushed(packet.end_offset).add_done_callback(partial(self._done, packet))

    def _done(self, packet: Packet, flush: asyncio.Future[Flushed]) -> None:
        """What was not flushed is not told; the next packet, if only the next sign of life, tries again."""
        waiting, self._under_way, self._next = self._next, None, None
        if not flush.cancelled() and flush.result() is Flushed.DURABLE:
            self._send(packet.link_id, packet.data)
        if waiting is not None:
            self._begin(waiting)
