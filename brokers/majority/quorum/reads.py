"""Clients that ask a leader how far the log is committed, and must not hear less than anybody heard
before.

Responsible for: who waits for which answers of the members, and until when (PROTOCOL 10.8). Refuses
to know: how members are asked.

A leader may have been replaced without knowing it. A member that still follows it, asked after the
question came, has let no other leader commit anything before that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from msgspec import Struct


class Reading(Struct, frozen=True):
    """One question. `index`: committed when it came. `mark`: what members were asked later than
    this counts for it.
    """

    token: object
    index: int
    mark: int
    until_ms: int


class Reads:
    """In the order in which they came. `needed`: so many other members make a majority."""

    def __init__(self, needed: int) -> None:
        self._needed = needed
        self._waiting: deque[Reading] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, reading: Reading) -> None:
        self._waiting.append(reading)

    @property
    def oldest_mark(self) -> int:
        """Of the one that waits longest; there is one."""
        return self._waiting[0].mark

    def answered(self, confirmed: Collection[int]) -> list[Reading]:
        """Those for which a majority still follows, taken out. `confirmed`: of each other member,
        the latest question that it answered so.
        """
        taken = []
        while self._waiting:
            mark = self._waiting[0].mark
            if sum(number > mark for number in confirmed) < self._needed:
                break
            taken.append(self._waiting.popleft())
        return taken

    def too_late(self, now_ms: int) -> list[Reading]:
        """Those whose time is over, taken out."""
        taken = []
        while self._waiting and self._waiting[0].until_ms <= now_ms:
            taken.append(self._waiting.popleft())
        return taken

    def all(self) -> list[Reading]:
        """Everybody, taken out."""
        taken, self._waiting = list(self._waiting), deque()
        return taken
