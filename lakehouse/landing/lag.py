"""
How far landing is behind the log, in records and in seconds (P).

Responsible for remembering when the log was seen to end where, until that has landed: the age of
the oldest record that has not landed is the time since the log was first seen to hold it. Takes the
time as an argument; refuses to know who asks the log and how often. A record is at most as much
older as the pause between two questions, and what was there before the first question counts from
that question on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

SIGHTINGS_MAX = 10_000
"""Per partition; beyond that every other one is forgotten, the oldest never."""


@dataclass(frozen=True, slots=True)
class Lag:
    """By `topic-partition`: records that have not landed, and for how many ms the oldest of them
    has been there.
    """

    records: Mapping[str, int] = field(default_factory=dict)
    age_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def all_records(self) -> int:
        """The sum of all partitions."""
        return sum(self.records.values())

    @property
    def longest_ms(self) -> int:
        """The oldest of all."""
        return max(self.age_ms.values(), default=0)


class LagWatch:
    """
    Sightings of the log's ends that have not landed yet.

    Invariants: per partition, times and ends of the sightings kept ascend strictly.
    """

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[int, int]]] = {}

    def note(self, now_ms: int, ends: Mapping[str, int], landed: Mapping[str, int]) -> Lag:
        """The log ends at `ends`, `landed` are the next offsets to land: how far behind is that?"""
        records, ages = {}, {}
        for name, end in ends.items():
            seen = self._seen.setdefault(name, deque())
            at = landed.get(name, 0)
            if not seen or end > seen[-1][1]:
                seen.append((now_ms, end))
            while seen and seen[0][1] <= at:
                seen.popleft()
            if len(seen) > SIGHTINGS_MAX:
                self._seen[name] = deque(one for i, one in enumerate(seen) if i % 2 == 0)
            records[name] = max(0, end - at)
            ages[name] = max(0, now_ms - seen[0][0]) if seen and records[name] else 0
        return Lag(records, ages)
