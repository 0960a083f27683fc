"""Holding back for who comes back (PROTOCOL 7.3).

Responsible for: how long a slave that acts delivers nothing after a broker with a smaller id, most
often the master, said that it copies its tables next. Refuses to know: who that is, and whether it
may.

What the slave delivered behind that copy would be delivered once more.
"""

from __future__ import annotations

HOLD_MS = 30_000
"""After each word: RocketMQ's master waits for a link for up to 10 s, one member after the other,
and is heard by the name servers' answers a second after it registered.
"""
HOLD_MAX_MS = 120_000
"""In all, until nothing was said for HOLD_MS: one that tries to come back for ever must not keep
what is due from leaving.
"""


class Yielding:
    """Times in ms of a clock that only grows."""

    def __init__(self) -> None:
        self._first_ms: int | None = None
        self._last_ms = 0

    @property
    def heard_of(self) -> bool:
        """Whether anybody ever said so."""
        return self._first_ms is not None

    def heard(self, now_ms: int) -> None:
        """Somebody said that it comes back."""
        if self._first_ms is None or now_ms - self._last_ms > HOLD_MS:
            self._first_ms = now_ms
        self._last_ms = now_ms

    def holds(self, now_ms: int) -> bool:
        """Whether nothing is to be delivered now."""
        return (
            self._first_ms is not None
            and now_ms - self._last_ms <= HOLD_MS
            and now_ms - self._first_ms <= HOLD_MAX_MS
        )
