"""How many facts of one kind of work may be told in a time.

Responsible for: one bucket of tokens. Refuses to know: what is told, and what time it is.
"""

from __future__ import annotations

TOLD_PER_S, TOLD_AT_ONCE = 10, 100
"""Elections that never end must not fill the topic."""
_THOUSANDTHS = 1_000


class Limited:
    """`per_s` facts are let through every second, up to `at_once` after a rest."""

    def __init__(self, now_ms: int, per_s: int = TOLD_PER_S, at_once: int = TOLD_AT_ONCE) -> None:
        self._per_s, self._full = per_s, at_once * _THOUSANDTHS
        self._level, self._since_ms = self._full, now_ms

    def lets_through(self, now_ms: int) -> bool:
        """Whether one more may be told now; `now_ms` never falls."""
        gained = max(0, now_ms - self._since_ms) * self._per_s
        self._level, self._since_ms = min(self._full, self._level + gained), now_ms
        if self._level < _THOUSANDTHS:
            return False
        self._level -= _THOUSANDTHS
        return True
