"""How many messages of each topic wait in the wheel (timermetrics, 61).

Responsible for: counting them anew when a mastership begins, slot by slot, and keeping count from
then on. Refuses to know: where messages come from and go to.

A slot in front of `counted_ms` is counted: what comes into it is one more, what leaves it one less.
Slots behind are not, so nothing is counted twice and none is missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from brokers.service.timers.formats import SLOTS, Unit
from brokers.service.timers.timer_files import TimerFiles
from brokers.store.log.properties import topic_hash

# Units looked at in one step.
STEP_UNITS = 2_000
ALL_MS = 1 << 62


class WaitingCounts:
    """From slot `from_ms` on."""

    def __init__(self, from_ms: int, precision_ms: int) -> None:
        self.counted_ms = from_ms
        self._end_ms = from_ms + SLOTS // 2 * precision_ms
        self._precision_ms = precision_ms
        self._of_hash: Counter[int] = Counter()
        self._names: dict[int, str] = {}
        self._walk: Iterator[tuple[int, Unit]] | None = None
        self._walked: Counter[int] = Counter()

    def name(self, topic: str) -> int:
        """Java's hash of a topic's name, which is remembered."""
        code = topic_hash(topic)
        self._names.setdefault(code, topic)
        return code

    def came(self, slot_ms: int, topic_hash: int) -> None:
        if slot_ms < self.counted_ms:
            self._of_hash[topic_hash] += 1
        elif slot_ms == self.counted_ms and self._walk is not None:
            self._walked[topic_hash] += 1  # the walk began in front of it

    def left(self, slot_ms: int, topic_hash: int) -> None:
        if slot_ms < self.counted_ms and self._of_hash[topic_hash] > 0:
            self._of_hash[topic_hash] -= 1

    @property
    def is_whole(self) -> bool:
        """Every slot is counted."""
        return self.counted_ms == ALL_MS

    def step(self, files: TimerFiles) -> bool:
        """Counts some more; whether there is more. OSError."""
        if self.is_whole:
            return False
        if self._walk is None:
            if self.counted_ms >= self._end_ms:
                self.counted_ms = ALL_MS
                return False
            found = files.wheel.next(self.counted_ms, self._end_ms)
            self.counted_ms = found.time_ms
            if found.slot is None:
                return True
            self._walk = files.log.back(found.slot.last, found.time_ms)
            self._walked = Counter()
        for _ in range(STEP_UNITS):
            step = next(self._walk, None)
            if step is None:
                self._of_hash.update(self._walked)
                self._walk = None
                self.counted_ms += self._precision_ms
                break
            if not step[1].recalls:
                self._walked[step[1].topic_hash] += 1
        return True

    @property
    def total(self) -> int:
        """Messages that wait, as far as they are counted."""
        return self._of_hash.total()

    def table(self, topics: Iterable[str]) -> dict[str, int]:
        """Topic to number; names come from messages, and from the topics that there are."""
        unknown = {code for code, number in self._of_hash.items() if number} - self._names.keys()
        if unknown:
            for topic in topics:
                code = topic_hash(topic)
                if code in unknown:
                    self._names.setdefault(code, topic)
        found: dict[str, int] = {}
        for code, number in self._of_hash.items():
            name = self._names.get(code)
            if name is not None:
                found[name] = number
        return found
