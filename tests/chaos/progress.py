"""What is said while a run lasts: which line is played, how far it is, what came out of it.

Refuses to know what is played; the clock is given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.chaos.verdict import Row

S_PER_MIN = 60


def on_standard_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Progress:
    """`total`: lines of all groups; `clock_s` gives seconds, whatever they count from."""

    def __init__(
        self,
        total: int,
        clock_s: Callable[[], float],
        say: Callable[[str], None] = on_standard_error,
    ) -> None:
        self.say = say
        self._total = total
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._number = 0

    def begins(self, name: str, text: str) -> None:
        """A line is played now."""
        self._number += 1
        minutes = (self._clock_s() - self._began_s) / S_PER_MIN
        self.say(f"[{self._number} of {self._total}, after {minutes:.0f} min] {name}: {text}")

    def ended(self, row: Row) -> None:
        """What came out of it."""
        self.say("  " + " · ".join(row.cells()[1:]))

    def left_out(self, lines: int) -> None:
        """So many lines are not played at all."""
        self._number += lines
