"""Connections that say nothing, or never finish what they began.

Responsible for: looking over all connections of a server or client at a steady pace, and bounding
what their unfinished frames, and what they do not read, hold together.
Refuses to know: when a single connection is silent for too long (connection.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from brokers.remoting.connection import Connection
from brokers.remoting.limits import Limits

PERIOD_MS_MIN = 20
PERIOD_MS_MAX = 250


class SilenceSweeper:
    """Looks over the connections at a steady pace; one timer for all instead of one per
    connection.
    """

    def __init__(self, limits: Limits, connections: Callable[[], Iterable[Connection]]) -> None:
        self._limits, self._connections = limits, connections
        # Four looks within the shortest time, but no more than fifty a second.
        shortest_ms = min(
            [
                PERIOD_MS_MAX * 4,
                *filter(None, (limits.idle_ms, limits.partial_frame_ms, limits.close_ms)),
            ]
        )
        self._period = max(PERIOD_MS_MIN, shortest_ms / 4) / 1000
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._period, self._sweep)

    def stop(self) -> None:
        self._timer.cancel()

    def _sweep(self) -> None:
        self._timer = self._loop.call_later(self._period, self._sweep)
        now = self._loop.time()
        held: list[Connection] = []
        slow: list[Connection] = []
        for connection in tuple(self._connections()):
            connection.check_silence(now)
            if connection.partial_bytes:
                held.append(connection)
            if connection.unsent_bytes:
                slow.append(connection)
        self._bound_partial_frames(held)
        self._bound_unread(slow)

    def _bound_partial_frames(self, held: list[Connection]) -> None:
        # Many peers with half a frame each: the largest go first, so that ordinary ones stay.
        total = sum(connection.partial_bytes for connection in held)
        for connection in sorted(held, key=lambda each: -each.partial_bytes):
            if total <= self._limits.partial_bytes_of_all:
                break
            total -= connection.partial_bytes
            connection.abort("all connections together hold too many bytes of unfinished frames")

    def _bound_unread(self, slow: list[Connection]) -> None:
        total = sum(connection.unsent_bytes for connection in slow)
        for connection in sorted(slow, key=lambda each: -each.unsent_bytes):
            if total <= self._limits.unsent_bytes_of_all:
                break
            total -= connection.unsent_bytes
            connection.abort("all connections together leave too many bytes unread")
