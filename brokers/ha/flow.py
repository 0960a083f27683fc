"""How many bytes a link moved in the last whole second, as `haStatus` shows it.

Responsible for: counting by second of a clock it is given. Refuses to know: links, packets, directions.
"""

from __future__ import annotations

SECOND_MS = 1_000


class FlowMeter:
    """`add` what was moved, `per_second` what the second before the present one had."""

    def __init__(self) -> None:
        self._second = 0
        self._now = self._before = 0

    def add(self, count: int, now_ms: int) -> None:
        self._turn(now_ms)
        self._now += count

    def per_second(self, now_ms: int) -> int:
        self._turn(now_ms)
        return self._before

    def _turn(self, now_ms: int) -> None:
        second = now_ms // SECOND_MS
        if second != self._second:
            self._before = self._now if second == self._second + 1 else 0
            self._now, self._second = 0, second
