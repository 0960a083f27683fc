"""How many commands a leader has on their way through the log at once (design D5).

Responsible for: the window. Whoever is overloaded answers a bounded number of requests in time and
lets the others wait or turns them away; else all of them would come back after the deadline, and
none would count.
Refuses to know: what the commands are, who waits, and in which order.
"""

from __future__ import annotations

from collections import deque

UNDER_WAY_MAX = 512
UNDER_WAY_MIN = 32
SLOW_MS = 1_000
"""A command that takes longer says that too many are under way; two fifths of the deadline."""
QUEUED_MAX_MS = 1_000
"""A request that could not begin within this time is answered "busy" rather than too late.
"""
FORGOTTEN_AFTER_MS = 10_000
"""What has not come back by then is not under way any more: the producer has given it up
(`delivery.timeout.ms`).
"""


class Admission:
    """Grows by one with each command that comes back in time while the window is full, halves when
    one is slow.
    """

    def __init__(self) -> None:
        self._begun: dict[bytes, int] = {}
        self._halved_ms: int | None = None
        self.window = UNDER_WAY_MAX

    def __len__(self) -> int:
        return len(self._begun)

    def has_room(self, now_ms: int) -> bool:
        """True when one more command may begin."""
        self._forget(now_ms)
        return len(self._begun) < self.window

    def begin(self, command_id: bytes, now_ms: int) -> None:
        """It is handed to the log; one under this id that went before does not count twice."""
        self._begun.pop(command_id, None)
        self._begun[command_id] = now_ms

    def back(self, command_id: bytes, now_ms: int) -> None:
        """It has been applied here."""
        full = len(self._begun) >= self.window
        begun_ms = self._begun.pop(command_id, None)
        if begun_ms is None:
            return
        if now_ms - begun_ms > SLOW_MS:
            self._halve(begun_ms, now_ms)
        elif full:
            self.window = min(UNDER_WAY_MAX, self.window + 1)

    def gave_up(self, command_id: bytes) -> None:
        """Nobody knows whether it got into the log; nobody waits for it there."""
        self._begun.pop(command_id, None)

    def _halve(self, begun_ms: int, now_ms: int) -> None:
        # Whatever began before the last cut says nothing about the window after it.
        if self._halved_ms is None or begun_ms >= self._halved_ms:
            self.window, self._halved_ms = max(UNDER_WAY_MIN, self.window // 2), now_ms

    def _forget(self, now_ms: int) -> None:
        while self._begun:
            oldest = next(iter(self._begun))
            if now_ms - self._begun[oldest] < FORGOTTEN_AFTER_MS:
                return
            del self._begun[oldest]


UNABLE_AFTER_MS = 1_500
"""Nothing waits, nobody was succeeded of late: a leader that is cut off is succeeded as soon as
that.
"""
PER_WAITING_MS = 1
PER_WAITING_MAX_MS = 1_500
UNABLE_MAX_MS = 10_000
"""However much waits: that long without progress, or behind the log's end with some, and another
one may try.
"""
MEMORY_MS = 30_000
DOUBLINGS_MAX = 3


class Patience:
    """Shared by all judges; times are monotonic ms."""

    def __init__(self) -> None:
        self._succeeded: deque[int] = deque(maxlen=DOUBLINGS_MAX)

    def succeeded(self, now_ms: int) -> None:
        """Somebody leads because the leader before said that it is not able."""
        self._succeeded.append(now_ms)

    def limit_ms(self, now_ms: int, waiting: int = 0) -> int:
        """How long nothing may come while `waiting` commands wait."""
        recent = sum(1 for at_ms in self._succeeded if now_ms - at_ms < MEMORY_MS)
        limit_ms = UNABLE_AFTER_MS + min(waiting * PER_WAITING_MS, PER_WAITING_MAX_MS)
        return min(limit_ms << recent, UNABLE_MAX_MS)
