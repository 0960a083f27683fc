"""How many bytes a link moved in the last whole second, as `haStatus` shows it, and how many it
may.

Responsible for: counting by a clock it is given. Refuses to know: links, packets, directions.
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


# What was not used is good for so long only: a link that stood idle does not flood its slave.
BURST_MS = 100


class FlowLimit:
    """RocketMQ's haFlowControlEnable: `room` is what may be sent now, `take` what was."""

    def __init__(self, bytes_per_s: int, now_ms: int) -> None:
        self._bytes_per_s = bytes_per_s
        # In thousandths of a byte: what fills within a ms counts, however slow the link.
        self._room = self._burst = max(SECOND_MS, bytes_per_s * BURST_MS)
        self._filled_ms = now_ms

    def room(self, now_ms: int) -> int:
        self._room = min(self._burst, self._room + (now_ms - self._filled_ms) * self._bytes_per_s)
        self._filled_ms = now_ms
        return self._room // SECOND_MS

    def take(self, count: int) -> None:
        self._room -= count * SECOND_MS
