"""The two clocks of a broker process. Everything below takes times as arguments; this is where they
are read.
"""

from __future__ import annotations

import time


class Clock:
    """`now_ms` only grows and means nothing outside the process; `wall_ms` is ms since 1970."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
