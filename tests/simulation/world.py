"""
Virtual time, one source of chance, and the record of what happened.

Responsible for: the event heap, `now_ms`, the seeded generator, counters and the trace.
Refuses to know: what a controller, a broker, a network or a disk is.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable
from random import Random

TRACE_LINES_MAX = 4_000
WALL_START_MS = 1_700_000_000_000


class InvariantBroken(AssertionError):
    """A promise of design section 4 does not hold in this world."""


class Timer:
    """One scheduled call; `cancel()` makes it a no-op."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """A single thread of virtual time: the same seed gives the same run, to the byte."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.now_ms = 0
        self.steps = 0
        self.counts: Counter[str] = Counter()
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()

    @property
    def wall_ms(self) -> int:
        """Wall clock of the world; nodes may see it shifted."""
        return WALL_START_MS + self.now_ms

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, `delay_ms` from now; equal times keep their order."""
        timer = Timer(callback)
        heapq.heappush(self._heap, (self.now_ms + max(0, delay_ms), next(self._order), timer))
        return timer

    def note(self, text: str) -> None:
        """One line of the readable trace."""
        self.trace.append(f"{self.now_ms:>8} ms  {text}")

    def count(self, what: str, amount: int = 1) -> None:
        self.counts[what] += amount

    def step(self) -> bool:
        """Run the next event; False when none is left."""
        while self._heap:
            due_ms, _, timer = heapq.heappop(self._heap)
            if timer.cancelled:
                continue
            self.now_ms = max(self.now_ms, due_ms)
            self.steps += 1
            timer.callback()
            return True
        return False

    def next_due_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None
