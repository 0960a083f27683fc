"""How far history reached once, by everything in the lake that remembers it, against how far it
reaches now.

Bronze only grows. Whoever takes its end away and leaves one witness is found.
Responsible for the comparison. Refuses to know who the witnesses are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakehouse.tables.high_water import Partition

AHEAD_MAX_MS = 120_000
"""What landed beside a record that is missing for this long is evidence: both land within
seconds.
"""


@dataclass(frozen=True, slots=True)
class Witness:
    """Something that knows records of a partition up to an end (exclusive)."""

    topic: str
    partition: int
    end: int
    who: str
    """The table that says so."""
    written_ms: int = 0
    """When it was written, ms since 1970-01-01 UTC; 0 for what is written after bronze only."""

    @property
    def place(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition


class Witnesses(Protocol):
    """Of one lake, as of the moment before bronze was opened."""

    @property
    def remembered(self) -> Sequence[Witness]:
        """What is written after bronze only."""

    def beyond(self, ends: Mapping[Partition, int]) -> Sequence[Witness]:
        """What lands beside bronze and holds records behind these ends."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A partition whose end is gone."""

    topic: str
    partition: int
    end: int
    """Where bronze ends now: the first offset that is missing."""
    was: int
    """Offset behind the last record that somebody knows."""
    who: tuple[str, ...]

    @property
    def said(self) -> str:
        """In words."""
        return (
            f"bronze ends at offset {self.end - 1}, {' and '.join(self.who)} "
            f"{'knows' if len(self.who) == 1 else 'know'} records up to {self.was - 1}: the end "
            "was taken away"
        )


def shortened(
    witnesses: Iterable[Witness], ends: Mapping[Partition, int], now_ms: int
) -> list[Shortened]:
    """The partitions that end before a witness does, by topic and partition; who says so are those
    that know the last record. What was written just now may be ahead of bronze for a moment.
    """
    found: dict[Partition, tuple[int, list[str]]] = {}
    for one in witnesses:
        is_new = one.written_ms and now_ms - one.written_ms <= AHEAD_MAX_MS
        if one.end <= ends.get(one.place, 0) or is_new:
            continue
        was, who = found.get(one.place, (0, []))
        if one.end > was:
            found[one.place] = one.end, [one.who]
        elif one.end == was:
            who.append(one.who)
    return [
        Shortened(*place, ends.get(place, 0), was, tuple(sorted(set(who))))
        for place, (was, who) in sorted(found.items())
    ]
