"""When a child that died is started again: at once the first time, then ever later, up to a bound.

Takes time as an argument; refuses to know processes.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY_S = 0.1
DELAY_S_MAX = 5.0
# a child that lived this long starts with a clean record
CALM_AFTER_S = 20.0
# a child that was never ready and died this often will not come up
START_DEATHS_MAX = 3


@dataclass(slots=True)
class RestartPolicy:
    """The record of one child's deaths."""

    deaths_in_a_row: int = 0
    ever_ready: bool = False

    def was_ready(self) -> None:
        self.ever_ready = True

    def died(self, lived_s: float) -> float | None:
        """Seconds until the next start; None: give up, it never came up."""
        self.deaths_in_a_row = 1 if lived_s >= CALM_AFTER_S else self.deaths_in_a_row + 1
        if not self.ever_ready and self.deaths_in_a_row >= START_DEATHS_MAX:
            return None
        if self.deaths_in_a_row == 1:
            return 0.0
        return min(DELAY_S_MAX, FIRST_DELAY_S * 2 ** (self.deaths_in_a_row - 2))
