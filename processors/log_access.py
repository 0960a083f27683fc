"""Whether this controller gets through to the log just now (design D6).

Responsible for: judging it from the answers about the log's end and from how the fold keeps up with them; a
controller that does not get through neither leads nor claims.
Refuses to know: how the log is asked, and who asks.
"""

from __future__ import annotations

QUESTION_EVERY_MS = 500
"""Also a controller that nobody asks for anything wants to know."""
UNABLE_AFTER_MS = 1_500


class LogAccess:
    """Times are monotonic ms. Before the first look the bulk of the log has just been read."""

    def __init__(self) -> None:
        self._answered_ms: int | None = None
        self._goal: tuple[int, int] | None = None
        """(offset to be applied, since when that is known)"""

    def is_question_due(self, now_ms: int) -> bool:
        """True when nobody has learnt the log's end for a while."""
        if self._answered_ms is None:
            self._answered_ms = now_ms
        return now_ms - self._answered_ms >= QUESTION_EVERY_MS

    def answered(self, end_offset: int, applied_offset: int, now_ms: int) -> None:
        """The log ends there (offset of the next record)."""
        self._answered_ms = now_ms
        if self._goal is None and end_offset - 1 > applied_offset:
            self._goal = end_offset - 1, now_ms

    def applied(self, offset: int) -> None:
        """The fold has come this far."""
        if self._goal is not None and offset >= self._goal[0]:
            self._goal = None

    def is_able(self, now_ms: int, since_ms: int = 0) -> bool:
        """False when the log's end was not learnt since then or of late, or what stands before it does not arrive."""
        answered_ms = now_ms if self._answered_ms is None else self._answered_ms
        if answered_ms < max(since_ms, now_ms - QUESTION_EVERY_MS - UNABLE_AFTER_MS):
            return False
        return self._goal is None or now_ms - self._goal[1] <= UNABLE_AFTER_MS
