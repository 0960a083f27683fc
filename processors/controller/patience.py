"""How long a controller may get nothing from the log before it says that it is not able (design
D6). (P)

Responsible for: the limit, which grows with what waits and with every leader that was succeeded for
this reason: where all are overloaded, another leader would only have to refuse everything that is
under way.
Refuses to know: what counts as progress, and who claims.
"""

from __future__ import annotations

from collections import deque

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
    """Shared by whoever judges; times are monotonic ms."""

    def __init__(self) -> None:
        self._succeeded: deque[int] = deque(maxlen=DOUBLINGS_MAX)

    def succeeded(self, now_ms: int) -> None:
        """Somebody leads because the leader before said that it is not able."""
        self._succeeded.append(now_ms)

    def limit_ms(self, now_ms: int, waiting: int = 0) -> int:
        """So long nothing may come, with so many commands waiting."""
        recent = sum(1 for at_ms in self._succeeded if now_ms - at_ms < MEMORY_MS)
        limit_ms = UNABLE_AFTER_MS + min(waiting * PER_WAITING_MS, PER_WAITING_MAX_MS)
        return min(limit_ms << recent, UNABLE_MAX_MS)
