"""What a slave tells its master waits until the bytes it speaks of are on this slave's disk.

Responsible for: the order of flush and acknowledgement, at most one flush under way and one packet
waiting.
Refuses to know: what packets say, how a flush is done, when it is wanted.

With synchronous flush on all members, whoever is elected holds on its disk all that was
acknowledged, whatever happened to the others since (S1, S5): an election shrinks the set to those
that seem alive, and they may lose their power a moment later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple


class Packet(NamedTuple):
    """To be sent once everything below `end_offset` is durable."""

    link_id: int
    data: bytes
    end_offset: int


class DurableAcks:
    """`flush(end offset, told)` makes bytes durable and calls `told(success)`, later or at once;
    `send(link id, data)` writes.
    """

    def __init__(
        self,
        flush: Callable[[int, Callable[[bool], None]], None],
        send: Callable[[int, bytes], None],
    ) -> None:
        self._flush, self._send = flush, send
        self._under_way: Packet | None = None
        self._next: Packet | None = None

    def send(self, link_id: int, data: bytes, end_offset: int) -> None:
        """Each packet covers all before it: one that still waits is replaced."""
        packet = Packet(link_id, data, end_offset)
        if self._under_way is not None:
            self._next = packet
            return
        self._begin(packet)

    def _begin(self, packet: Packet) -> None:
        self._under_way = packet
        self._flush(packet.end_offset, partial(self._flushed, packet))

    def _flushed(self, packet: Packet, durable: bool) -> None:
        """Bytes that were not flushed are not acknowledged; the next packet, at the latest the next
        heartbeat, tries again.
        """
        waiting, self._under_way, self._next = self._next, None, None
        if durable:
            self._send(packet.link_id, packet.data)
        if waiting is not None:
            self._begin(waiting)
