"""What became of the messages of one feature under faults: lost, early, late, twice.

Pure: takes what a client was told and what it saw. Refuses to know who was hit and how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

SHOWN = 5
MS_PER_S = 1000


@dataclass(slots=True)
class Sent:
    """One message, by its number. Times in ms of the wall clock: when its first call began, and
    when the first good answer came. `due_ms`: it may not be seen before; None: never.
    """

    begun_ms: int
    due_ms: int | None = None
    calls: int = 0
    answered_ms: int | None = None
    taken_by: str = ""

    @property
    def is_good(self) -> bool:
        """Its sender was told that it is stored."""
        return self.answered_ms is not None


@dataclass(slots=True)
class Counts:
    """Of one feature in one run. `early`: by how many ms; `late_ms`: of all that came. `twice_ms`:
    one entry for each time that brokers gave a message again, the ms from the first time to the
    blow that followed it. `wrong`: what must never be seen, in words; of these `forbidden` has the
    numbers that are visible and should never be, `unhit` those that came again although nobody was
    hit between.
    """

    what: str
    good: int = 0
    lost: list[int] = field(default_factory=list)
    early: dict[int, int] = field(default_factory=dict)
    late_ms: list[int] = field(default_factory=list)
    twice_ms: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    forbidden: list[int] = field(default_factory=list)
    unhit: list[int] = field(default_factory=list)
    note: str = ""

    @property
    def problem(self) -> str | None:
        """The first promise that is broken, in one line."""
        first = sorted(self.lost)[:SHOWN]
        broken = [
            (not self.good, "nothing was acknowledged"),
            (self.lost, f"{len(self.lost)} lost: {', '.join(map(str, first))}"),
            (self.early, f"{len(self.early)} early, by {max(self.early.values(), default=0)} ms"),
            (self.wrong, f"{len(self.wrong)} times wrong: {'; '.join(self.wrong[:SHOWN])}"),
        ]
        return next((f"{self.what}: {text}" for bad, text in broken if bad), None)

    def text(self) -> str:
        late = (
            f"late {median(self.late_ms) / MS_PER_S:.1f} s in the median, "
            f"{max(self.late_ms) / MS_PER_S:.1f} s at most"
            if self.late_ms
            else "none came"
        )
        again = (
            f" (first up to {max(self.twice_ms) / MS_PER_S:.1f} s before the blow)"
            if self.twice_ms
            else ""
        )
        told = (
            f"{self.what}: {self.good} acknowledged, {len(self.lost)} lost, {len(self.early)} "
            f"early, {late}, {len(self.twice_ms)} twice{again}"
        )
        return f"{told}, {self.note}" if self.note else told

    def document(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "acknowledged": self.good,
            "lost": len(self.lost),
            "early": len(self.early),
            "late_ms_median": median(self.late_ms) if self.late_ms else None,
            "late_ms_max": max(self.late_ms, default=None),
            "twice": len(self.twice_ms),
            "twice_before_blow_ms_max": max(self.twice_ms, default=None),
            "wrong": self.wrong,
            "note": self.note,
        }


class Blow(NamedTuple):
    """Somebody was hit between the first two times, ms of the wall clock. Up to `settled_ms` who
    took over may do twice what it did itself: a Java broker, whose places are no longer one.
    """

    begun_ms: int
    ended_ms: int
    settled_ms: int = 0


def before_blow(first_ms: int, again_ms: int, blows: Iterable[Blow]) -> int | None:
    """The ms from the first time to the end of the first blow behind it; None where none lies
    between the two times.
    """
    between = [
        max(0, blow.ended_ms - first_ms)
        for blow in blows
        if first_ms <= max(blow.ended_ms, blow.settled_ms) and blow.begun_ms <= again_ms
    ]
    return min(between, default=None)


def judge_copies(
    counts: Counts,
    sent: Mapping[int, Sent],
    copies: Mapping[int, Sequence[int]],
    blows: Sequence[Blow],
) -> None:
    """Of messages that become visible once. `copies`: when each number's copies were stored under
    the topic that is read. A message that was sent by several calls may well be there as often.
    """
    counts.good = sum(one.is_good for one in sent.values())
    for number, one in sent.items():
        stored = sorted(copies.get(number, ()))
        if one.due_ms is None:
            if stored:
                counts.forbidden.append(number)
                counts.wrong.append(f"{number} is visible and should never be")
            continue
        if not stored:
            if one.is_good:
                counts.lost.append(number)
            continue
        if stored[0] < one.due_ms:
            counts.early[number] = one.due_ms - stored[0]
        counts.late_ms.append(max(0, stored[0] - one.due_ms))
        if one.calls == 1:
            _judge_again(counts, number, stored, blows)
    counts.wrong += [f"nobody sent {number}" for number in copies if number not in sent]


def _judge_again(counts: Counts, number: int, stored: Sequence[int], blows: Sequence[Blow]) -> None:
    for again_ms in stored[1:]:
        gap_ms = before_blow(stored[0], again_ms, blows)
        if gap_ms is None:
            counts.unhit.append(number)
            counts.wrong.append(f"{number} came twice, and nobody was hit between")
        else:
            counts.twice_ms.append(gap_ms)
