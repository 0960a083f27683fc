"""Where a follower's log agrees with the leader's.

Responsible for: what is compared next and what follows from the answer (PROTOCOL 10.6), in rounds
that grow with the number of terms, or with the logarithm of a log's length where the follower is
Java's and gives no hint. Refuses to know: how entries are sent.

Two logs that agree on an entry agree on all before it: so one may look in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokers.majority.entry import NONE


class Found(Enum):
    """What is done with the follower now."""

    LOOK = "compare another entry"
    APPEND = "its log ends with an entry of the leader's: go on behind it"
    TRUNCATE = "its log is to end with this entry of the leader's"


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer to COMPARE: whether the entries are the same, where the follower's log begins and
    ends; `jump`: the highest index that may still agree, by the follower's hint.
    """

    same: bool
    begin: int
    end: int
    jump: int | None = None


class Search:
    """One follower's. `index`: what is compared next, -1: the leader's last entry."""

    def __init__(self) -> None:
        self.index = NONE
        self._agreed = NONE
        self._differs: int | None = None

    def look_at(self, begin: int, end: int) -> int:
        """The index to compare, within the leader's log."""
        if not begin <= self.index <= end:
            self.index = end
            self._agreed = NONE
            self._differs = None
        return self.index

    def saw(self, seen: Seen, begin: int, end: int) -> tuple[Found, int]:
        """What follows for a leader's log from `begin` to `end`, and at which index."""
        if seen.same:
            return self._same(seen)
        at = self.index
        if seen.end < begin or seen.begin > end or at < seen.begin:
            return Found.TRUNCATE, begin
        if at > seen.end:
            self.index = seen.end
            return Found.LOOK, seen.end
        self._differs = at
        known = max(self._agreed, begin - 1, seen.begin - 1)
        if at - 1 <= known:
            return Found.TRUNCATE, max(known, begin) if self._agreed == known else begin
        if seen.jump is None:
            self.index = (known + at) // 2 if known >= begin else (begin + at) // 2
        else:
            self.index = min(max(seen.jump, known + 1), at - 1)
            self._differs = self.index + 1
        return Found.LOOK, self.index

    def _same(self, seen: Seen) -> tuple[Found, int]:
        at = self._agreed = self.index
        if at == seen.end:
            return Found.APPEND, at
        if self._differs is not None and self._differs > at + 1:
            self.index = (at + self._differs) // 2
            return Found.LOOK, self.index
        return Found.TRUNCATE, at
