"""Messages that wait for their time: by TIMER_DELIVER_MS in the timer wheel, or for a delay level.

Responsible for: when each is due, when its copies were stored. The time is the copy's own, so a
slow reader makes nothing late.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.features.counts import Blow, Counts, Sent, judge_copies
from infra.features.use import CopiesSeen

WAITS_MS, STEP_MS, SPREAD_MS = 2_000, 37, 4_000
LEVELS_MS = {1: 1_000, 2: 5_000}


class Timed(CopiesSeen):
    """Of 2 to 6 s, so that some hundreds wait at any moment. A retry asks for the same time."""

    what = "timed"

    def asks(self, number: int) -> dict[str, str]:
        due_ms = self.sent[number].begun_ms + WAITS_MS + number * STEP_MS % SPREAD_MS
        self.sent[number].due_ms = due_ms
        return {"TIMER_DELIVER_MS": str(due_ms)}

    def wanted(self) -> dict[int, Sent]:
        return {number: one for number, one in self.sent.items() if one.is_good}

    def judged(self, blows: Sequence[Blow]) -> Counts:
        counts = Counts(self.what)
        judge_copies(counts, self.sent, self.times(), blows)
        return counts


class Delayed(Timed):
    """The first two levels: they count from when the broker has the message, so not from before
    its first call.
    """

    what = "delayed"

    def asks(self, number: int) -> dict[str, str]:
        level = 1 + number % len(LEVELS_MS)
        self.sent[number].due_ms = self.sent[number].begun_ms + LEVELS_MS[level]
        return {"DELAY": str(level)}
