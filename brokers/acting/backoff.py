"""How long to wait before something is tried again (PROTOCOL 7.4).

Responsible for: doubling, up to a limit, with some chance in it so that many do not come together.
Refuses to know: clocks; what is tried.
"""

from __future__ import annotations

from dataclasses import dataclass

DOUBLINGS_MAX = 30
# Of a pause; the rest is chance.
CERTAIN = 0.5


@dataclass(frozen=True, slots=True)
class Backoff:
    """From `first_ms` on, twice as long after each failure, at most `most_ms`."""

    first_ms: int
    most_ms: int

    def __post_init__(self) -> None:
        if not 0 < self.first_ms <= self.most_ms:
            raise ValueError(f"a pause from {self.first_ms} to {self.most_ms} ms")

    def pause_ms(self, failures: int, chance: float) -> int:
        """After so many failures, the last one just now; `chance`: from 0 to 1."""
        doublings = min(max(failures - 1, 0), DOUBLINGS_MAX)
        whole = min(self.first_ms << doublings, self.most_ms)
        return max(1, int(whole * (CERTAIN + (1 - CERTAIN) * chance)))
