"""How many things of one kind may happen in a time, per name.

Responsible for: one bucket of tokens per name, whole numbers only, and a bound on the names kept.
Refuses to know: what is counted, and what time it is (`now_ms` is an argument, monotonic).
"""

from __future__ import annotations

NAMES_MAX = 20_000
_THOUSANDTHS = 1_000


class RateLimit:
    """`rate_per_s` tokens come back every second, up to `burst`; a name seen for the first time has
    all of them.
    """

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._names_max = names_max
        self._buckets: dict[str, tuple[int, int]] = {}
        """Name -> (thousandths of a token, when that was), the longest unused first."""

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, now_ms: int, *, rate_per_s: int, burst: int, cost: int = 1) -> bool:
        """Take `cost` tokens if they are there; False changes nothing."""
        full = burst * _THOUSANDTHS
        level, since_ms = self._buckets.pop(name, (full, now_ms))
        level = min(full, level + max(0, now_ms - since_ms) * rate_per_s)
        enough = level >= cost * _THOUSANDTHS
        if enough:
            level -= cost * _THOUSANDTHS
        self._buckets[name] = (level, now_ms)
        if len(self._buckets) > self._names_max:
            # The one that was asked for longest ago has most of its tokens back.
            del self._buckets[next(iter(self._buckets))]
        return enough

    def forget(self, name: str) -> None:
        """The name starts anew, with all its tokens."""
        self._buckets.pop(name, None)
