"""Holding back for another one that delivers, or is about to (PROTOCOL 7.2, 7.3).

Responsible for: how long a slave that acts delivers nothing after a broker with a smaller id, most
often the master, said that it copies its tables next; which signs of life of a master count that do
not come from name servers, and for how long. Refuses to know: who speaks, and whether it may;
sockets.

What the slave delivered behind that copy would be delivered once more. Name servers that disagree,
or that the master does not reach, name nobody but the slave, though the master delivers: its link
says so before the slave acts, and its own word says so to one that does. So does the log: a slave
that acts writes nothing into it, so what comes is of a master that serves, and delivers it.
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


class MasterSigns:
    """`silent_ms`: after it a master is taken for dead. Times in ms of a clock that only grows."""

    def __init__(self, silent_ms: int) -> None:
        self._silent_ms = silent_ms
        self._linked_ms: int | None = None
        self._delivers_ms: int | None = None
        self._wrote_ms: int | None = None

    def link(self, transfers: bool, heard_ms: int) -> None:
        """The own link to it, and when something came over it last."""
        self._linked_ms = heard_ms if transfers else None

    def says(self, now_ms: int, *, delivers: bool) -> None:
        """It answered a question."""
        self._delivers_ms = now_ms if delivers else None

    def wrote(self, now_ms: int) -> None:
        """The own log grew, and this broker writes nothing into it."""
        self._wrote_ms = now_ms

    def forget(self) -> None:
        """Another role begins."""
        self._linked_ms = self._delivers_ms = self._wrote_ms = None

    def speaks(self, now_ms: int) -> bool:
        """Whether it lives, by its link."""
        return self._linked_ms is not None and now_ms - self._linked_ms <= self._silent_ms

    def delivers(self, now_ms: int) -> bool:
        """Whether it delivers, by its own word, or by what it writes while its link is up."""
        says, wrote = self._delivers_ms, self._wrote_ms
        serves = wrote is not None and now_ms - wrote <= self._silent_ms and self.speaks(now_ms)
        return serves or (says is not None and now_ms - says <= self._silent_ms)
