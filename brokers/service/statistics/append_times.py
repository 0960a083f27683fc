"""How long messages take into the log, and reads out of it (28; PROTOCOL 4.16).

Responsible for: counts by RocketMQ's steps, the slowest ones, and what 99 of a hundred stay below.
Refuses to know: clocks, what is appended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

# Name of a step, and up to how many ms it goes.
STEPS: tuple[tuple[str, int], ...] = (
    ("<=0ms", 0),
    ("0~10ms", 10),
    ("10~50ms", 50),
    ("50~100ms", 100),
    ("100~200ms", 200),
    ("200~500ms", 500),
    ("500ms~1s", 1_000),
    ("1~2s", 2_000),
    ("2~3s", 3_000),
    ("3~4s", 4_000),
    ("4~5s", 5_000),
    ("5~10s", 10_000),
)
LAST_STEP = "10s~"
# The newest appends, of which quantiles are told.
RECENT = 2_048
MINUTE_MS = 60_000

_LIMITS_MS = [limit for _, limit in STEPS]


class AppendTimes:
    """Of one broker since its process began; the steps are those of the last whole minute."""

    def __init__(self) -> None:
        self.slowest_ms = self.slowest_read_ms = 0
        self._recent: deque[int] = deque(maxlen=RECENT)
        self._counts = [0] * (len(STEPS) + 1)
        self._last = list(self._counts)
        self._minute_ms: int | None = None

    def appended(self, took_ms: int, messages: int) -> None:
        """So many messages went into the log together."""
        self._recent.append(took_ms)
        self._counts[bisect_left(_LIMITS_MS, took_ms)] += messages
        if took_ms > self.slowest_ms:
            self.slowest_ms = took_ms

    def read(self, took_ms: int) -> None:
        """Messages were read for somebody, from memory."""
        if took_ms > self.slowest_read_ms:
            self.slowest_read_ms = took_ms

    def sample(self, now_ms: int) -> None:
        """Every second or so, by a monotonic clock."""
        if self._minute_ms is None:
            self._minute_ms = now_ms
        if now_ms - self._minute_ms >= MINUTE_MS:
            self._minute_ms = now_ms
            self._last, self._counts = self._counts, [0] * len(self._counts)

    def steps(self) -> str:
        """As RocketMQ writes them."""
        names = [*(name for name, _ in STEPS), LAST_STEP]
        return "".join(f"[{name}]:{count} " for name, count in zip(names, self._last, strict=True))

    def below_ms(self, share: float) -> int:
        """What this share of the newest appends took at most; 0 without any."""
        ordered = sorted(self._recent)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
