"""Whether this controller gets through to the log just now (design D6).

Responsible for: judging it from the answers about the log's end and from how the fold keeps up with
them; a controller that does not get through neither leads nor claims.
Refuses to know: how the log is asked, and who asks.
"""

from __future__ import annotations

from processors.controller.patience import UNABLE_AFTER_MS, UNABLE_MAX_MS

QUESTION_EVERY_MS = 500
"""Also a controller that nobody asks for anything wants to know."""


class LogAccess:
    """Times are monotonic ms. Before the first look the bulk of the log has just been read."""

    def __init__(self) -> None:
        self._answered_ms: int | None = None
        self._goal: tuple[int, int] | None = None
        """(offset to be applied, since when that is known)"""
        self._progress_ms = 0

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

    def applied(self, offset: int, now_ms: int) -> None:
        """The fold has come this far."""
        self._progress_ms = now_ms
        if self._goal is not None and offset >= self._goal[0]:
            self._goal = None

    def is_able(self, now_ms: int, limit_ms: int = UNABLE_AFTER_MS) -> bool:
        """False when nothing comes any more: neither word of the log's end, nor the records that
        stand before it.

        Who is far behind but comes forward is overloaded and not cut off; that is told only after a
        long time.
        """
        answered_ms = now_ms if self._answered_ms is None else self._answered_ms
        since_ms = now_ms if self._goal is None else self._goal[1]
        if now_ms - min(answered_ms + QUESTION_EVERY_MS, since_ms) > UNABLE_MAX_MS:
            return False
        heard_ms = max(answered_ms + QUESTION_EVERY_MS, self._progress_ms)
        return now_ms - min(heard_ms, max(since_ms, self._progress_ms)) <= limit_ms

    def is_current(self, now_ms: int, since_ms: int = 0) -> bool:
        """True when the log's end was learnt since then, and of late, and what stands before it
        arrives in time.
        """
        if self._answered_ms is None or self._answered_ms < since_ms:
            return False
        if now_ms - self._answered_ms > QUESTION_EVERY_MS + UNABLE_AFTER_MS:
            return False
        return self._goal is None or now_ms - self._goal[1] <= UNABLE_AFTER_MS
