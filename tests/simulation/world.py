"""Virtual time, one source of chance, and the record of what happened.

Responsible for: the event heap, `now_ms`, the seeded generator, counters and the trace.
Refuses to know: what a controller, a broker, a network or a disk is.
"""

from __future__ import annotations

import heapq
import itertools
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from random import Random

TRACE_LINES_MAX = 4_000
CRASH_CHARS_MAX = 3_000
MIX_BITS = (1 << 61) - 1
WALL_START_MS = 1_700_000_000_000


class InvariantBroken(AssertionError):
    """A promise of DESIGN 4 does not hold in this world."""


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
        self._mix = seed
        self._lines = sha256()
        self._uniform = self.chance.random
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()
        self._numbers = itertools.count(1)
        self._endings: list[Callable[[], None]] = []

    @property
    def wall_ms(self) -> int:
        """Wall clock of the world; nodes may see it shifted."""
        return WALL_START_MS + self.now_ms

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once, `delay_ms` from now; equal times keep their order."""
        timer = Timer(callback)
        heapq.heappush(self._heap, (self.now_ms + max(0, delay_ms), next(self._order), timer))
        return timer

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + int(self._uniform() * (high - low + 1))

    def one_in(self, count: int) -> bool:
        """True once in `count` times."""
        return self._uniform() * count < 1

    def note(self, text: str) -> None:
        """One line of the readable trace."""
        line = f"{self.now_ms:>8} ms  {text}"
        self._lines.update(line.encode())
        self.trace.append(line)

    def keep_whole_trace(self) -> None:
        """Before the first step: do not forget the beginning."""
        self.trace = deque()

    @property
    def trace_hash(self) -> str:
        """Equal for two runs that did the same at the same times: every line of the trace and every
        step's moment.
        """
        whole = self._lines.copy()
        whole.update(f"{self._mix} {self.steps} {sorted(self.counts.items())}".encode())
        return whole.hexdigest()

    def next_number(self) -> int:
        """A number that nobody got before."""
        return next(self._numbers)

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
            self._mix = (self._mix * 31 + due_ms) & MIX_BITS
            timer.callback()
            return True
        return False

    def at_end(self, call: Callable[[], None]) -> None:
        """Call it when the world is over, whatever the state in which it is left."""
        self._endings.append(call)

    def end(self) -> None:
        """No event will come any more."""
        while self._endings:
            self._endings.pop()()

    def next_due_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None


@contextmanager
def crashes_break(world: World) -> Iterator[None]:
    """A crash of the product's code is a failure of the seed, with its trace: InvariantBroken."""
    try:
        yield
    except InvariantBroken:
        raise
    except Exception as error:
        world.note("".join(traceback.format_exception(error))[-CRASH_CHARS_MAX:])
        raise InvariantBroken(f"{type(error).__name__}: {error}") from error
