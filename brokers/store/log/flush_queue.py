"""Who waits for the log to be on the disk.

Responsible for: one flush for all that wait, each waiter told exactly once. Refuses to know:
threads, clocks, files; a waiter is whatever `release` is called with.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

W = TypeVar("W")


class Flushed(Enum):
    """How a wait ended. Only DURABLE says that the bytes are on the disk."""

    DURABLE = "durable"
    TIMED_OUT = "timed out"
    FAILED = "the disk refused, or the bytes were cut away"


class FlushQueue(Generic[W]):
    """At most one flush is under way; it covers who came before it began."""

    def __init__(self, release: Callable[[W, Flushed], None]) -> None:
        self._release = release
        self._waiting: list[tuple[int, W]] = []
        self._under_way: list[tuple[int, W]] = []
        self._flushing = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def add(self, end_offset: int, waiter: W) -> None:
        """Wants everything below `end_offset`, which is written already, on the disk."""
        self._waiting.append((end_offset, waiter))

    def begin(self) -> bool:
        """Whether a flush has to start now; `done` or `failed` must follow then."""
        if self._flushing or not self._waiting:
            return False
        self._under_way, self._waiting, self._flushing = self._waiting, [], True
        return True

    def done(self, flushed_offset: int) -> None:
        """The flush is over. What it should have covered and did not was cut away while it ran."""
        covered, self._under_way, self._flushing = self._under_way, [], False
        for end_offset, waiter in covered:
            self._release(
                waiter, Flushed.DURABLE if end_offset <= flushed_offset else Flushed.FAILED
            )

    def failed(self) -> None:
        """The disk refused: whoever waits has nothing to wait for."""
        lost, self._under_way, self._waiting, self._flushing = (
            self._under_way + self._waiting,
            [],
            [],
            False,
        )
        for _, waiter in lost:
            self._release(waiter, Flushed.FAILED)
