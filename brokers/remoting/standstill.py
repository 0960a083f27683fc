"""A process that stood still: stopped, swapped out, or held up by its disk.

What peers sent meanwhile lies in its sockets. They may have given up on it long ago and sent newer
requests to somebody else, so that a request that changes something is refused when it may be that
old (`Connection.may_be_old`).

Responsible for: noticing the gap before the first byte behind it is served, telling all
connections. Refuses to know: which requests are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

GAP_MS = 1_000
"""No client gives up on a request sooner than this."""
TICK_MS = 100
ACCEPTED_MS = 1_000
"""Connections that are accepted within this time behind a gap may have waited through it."""

_log = logging.getLogger("regent.remoting")


class Held(Protocol):
    """A connection, as far as it matters here."""

    def may_be_old(self) -> None:
        """What its socket holds now may have come during the gap."""


class Standstill:
    """One of a server, in a running loop. `connections()`: those that are open. `reads` is called
    before bytes are taken.
    """

    def __init__(self, connections: Callable[[], Iterable[Held]], gap_ms: int = GAP_MS) -> None:
        self._connections = connections
        self._gap_s = gap_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._seen = self._loop.time()
        self._accepts_old_until = 0.0
        self._timer = self._loop.call_later(TICK_MS / 1000, self._tick)
        self.gaps = 0

    def stop(self) -> None:
        self._timer.cancel()

    def reads(self, now: float) -> None:
        """`now`: the loop's time in s."""
        if now - self._seen > self._gap_s:
            self._behind_gap(now)

    def accepted(self, connection: Held) -> None:
        """A new connection; call it before its first byte is read."""
        now = self._loop.time()
        self.reads(now)
        if now < self._accepts_old_until:
            connection.may_be_old()

    def _tick(self) -> None:
        now = self._loop.time()
        self.reads(now)
        self._seen = now
        self._timer = self._loop.call_later(TICK_MS / 1000, self._tick)

    def _behind_gap(self, now: float) -> None:
        _log.warning(
            "stood still for %.1f s: what was sent meanwhile is refused where it would change "
            "something",
            now - self._seen,
        )
        self._seen, self._accepts_old_until = now, now + ACCEPTED_MS / 1000
        self.gaps += 1
        for connection in tuple(self._connections()):
            connection.may_be_old()
