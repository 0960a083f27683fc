"""Reads that must be current (design D5).

Responsible for: holding a read until the fold has passed the end the log had when the read arrived,
with one question about that end in flight for everybody who waits.
Refuses to know: what is read, and how the log is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

READS_MAX = 10_000


@dataclass(slots=True)
class _Waiting(Generic[T]):
    read: T
    deadline_ms: int


class ReadBarrier(Generic[T]):
    """`ask` says when a question must be put; the answer comes back through `answered`."""

    def __init__(self, limit: int = READS_MAX) -> None:
        self._limit = limit
        self._unasked: list[_Waiting[T]] = []
        self._asked: list[_Waiting[T]] = []
        self._held: list[tuple[int, _Waiting[T]]] = []
        self._held_until = 0
        """No held read is served below this offset, so not every record has to look at them all."""
        self._token = 0
        self._open = False

    def __len__(self) -> int:
        return len(self._unasked) + len(self._asked) + len(self._held)

    @property
    def is_full(self) -> bool:
        return len(self) >= self._limit

    def add(self, read: T, deadline_ms: int) -> None:
        self._unasked.append(_Waiting(read, deadline_ms))

    def ask(self, *, unasked_for: bool = False) -> int | None:
        """The token of a new question, or None. A question already under way is too old for
        newcomers.
        """
        if self._open or not (self._unasked or unasked_for):
            return None
        self._open = True
        self._token += 1
        self._asked, self._unasked = self._unasked, []
        return self._token

    def answered(self, token: int, end_offset: int | None, applied_offset: int) -> list[T]:
        """The reads that may be served now. `end_offset` None: not learnt; the reads ask again."""
        if not self._open or token != self._token:
            return []
        self._open = False
        asked, self._asked = self._asked, []
        if end_offset is None:
            self._unasked = asked + self._unasked
            return []
        ready = [waiting.read for waiting in asked if applied_offset >= end_offset - 1]
        if not ready and asked:
            self._held_until = (
                min(self._held_until, end_offset - 1) if self._held else end_offset - 1
            )
            self._held.extend((end_offset - 1, waiting) for waiting in asked)
        return ready

    def applied(self, offset: int) -> list[T]:
        """The reads that the fold has caught up with."""
        if not self._held or offset < self._held_until:
            return []
        ready = [waiting.read for until, waiting in self._held if until <= offset]
        self._held = [(until, waiting) for until, waiting in self._held if until > offset]
        self._held_until = min((until for until, _ in self._held), default=0)
        return ready

    def expired(self, now_ms: int) -> list[T]:
        """Reads past their deadline; they are dropped."""
        late: list[T] = []
        for waiting in [*self._unasked, *self._asked, *(waiting for _, waiting in self._held)]:
            if now_ms >= waiting.deadline_ms:
                late.append(waiting.read)
        if late:
            self._unasked = [one for one in self._unasked if now_ms < one.deadline_ms]
            self._asked = [one for one in self._asked if now_ms < one.deadline_ms]
            self._held = [(until, one) for until, one in self._held if now_ms < one.deadline_ms]
        return late
