"""Clients that wait for their entry to be committed.

Responsible for: who waits for which index and until when; each hears one answer. Refuses to know:
when an index is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct


class Waiter(Struct, frozen=True):
    """One append."""

    token: object
    index: int
    until_ms: int


class Waiters:
    """In the order of their indexes, which is the order of their times."""

    def __init__(self) -> None:
        self._waiting: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, token: object, index: int, until_ms: int) -> None:
        """Before the entry can be seen by anybody."""
        self._waiting.append(Waiter(token, index, until_ms))

    def committed(self, index: int) -> list[Waiter]:
        """Those whose entry is, taken out."""
        return self._take(lambda waiter: waiter.index <= index)

    def too_late(self, now_ms: int) -> list[Waiter]:
        """Those whose time is over, taken out."""
        return self._take(lambda waiter: waiter.until_ms <= now_ms)

    def not_written(self, first: int) -> list[Waiter]:
        """Those whose entry, this one or a later, was not written, taken out."""
        gone = [waiter for waiter in self._waiting if waiter.index >= first]
        self._waiting = deque(waiter for waiter in self._waiting if waiter.index < first)
        return gone

    def all(self) -> list[Waiter]:
        """Everybody, taken out."""
        return self._take(lambda waiter: True)

    def _take(self, wanted: Callable[[Waiter], bool]) -> list[Waiter]:
        taken = []
        while self._waiting and wanted(self._waiting[0]):
            taken.append(self._waiting.popleft())
        return taken
