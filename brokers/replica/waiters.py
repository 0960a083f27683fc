"""Waiters for the confirm offset.

Responsible for: releasing each waiter once, in offset order, in time or not. Refuses to know:
messages, links, event loops: a waiter is whatever `release` is called with, time is passed in.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

WAITERS_MAX = 100_000

W = TypeVar("W")


class Confirmation(Enum):
    """How a wait ended. Only CONFIRMED may be answered as success; all others leave the outcome
    open.
    """

    CONFIRMED = "confirmed"
    TIMED_OUT = "timed out"
    ABORTED = "this mastership ended"
    TOO_MANY = "too many waiters"


class ConfirmWaiters(Generic[W]):
    """Waiters by offset; `release(waiter, how)` is called exactly once for each that was added."""

    def __init__(
        self, release: Callable[[W, Confirmation], None], *, limit: int = WAITERS_MAX
    ) -> None:
        self._release = release
        self._limit = limit
        self._heap: list[tuple[int, int, int, W]] = []  # (offset, order, deadline ms, waiter)
        self._order = count()
        self._earliest_ms: int | None = None  # no waiter's deadline lies before it

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, end_offset: int, deadline_ms: int, waiter: W) -> bool:
        """False, and nothing is kept, when there are too many already."""
        if len(self._heap) >= self._limit:
            return False
        heappush(self._heap, (end_offset, next(self._order), deadline_ms, waiter))
        if self._earliest_ms is None or deadline_ms < self._earliest_ms:
            self._earliest_ms = deadline_ms
        return True

    def confirm(self, offset: int) -> None:
        while self._heap and self._heap[0][0] <= offset:
            self._release(heappop(self._heap)[3], Confirmation.CONFIRMED)

    def expire(self, now_ms: int) -> None:
        """Give up on deadlines that passed. Looks at all waiters, but only when one may have
        expired.
        """
        if self._earliest_ms is None or now_ms < self._earliest_ms:
            return
        expired = [item for item in self._heap if item[2] <= now_ms]
        self._heap = [item for item in self._heap if item[2] > now_ms]
        self._heap.sort()
        self._earliest_ms = min((item[2] for item in self._heap), default=None)
        for item in expired:
            self._release(item[3], Confirmation.TIMED_OUT)

    def abort(self) -> None:
        waiting, self._heap, self._earliest_ms = self._heap, [], None
        for item in sorted(waiting, key=lambda one: one[:2]):
            self._release(item[3], Confirmation.ABORTED)
