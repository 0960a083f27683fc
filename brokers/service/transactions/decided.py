"""Which halves are decided, and from where a successor has to look (PROTOCOL 4.7, design S19).

Responsible for: the answer to a second commit, the two places that are told to others. Refuses to
know: the store, clocks, messages.

A half is decided here as soon as its record is in the log. It counts for the places that are told
when that record is on this disk and with every member: a successor that has the place has the
record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

# Halves of which it is remembered how they were decided.
KINDS_MAX = 65_536


class Decision(Enum):
    """What became of a half."""

    COMMITTED = "committed"
    ENDED = "committed or rolled back"
    ROLLED_BACK = "rolled back"
    COPIED = "asked about, and a copy of it stands for it"
    GIVEN_UP = "given up"
    LEFT = "another set has it"


class OffsetSet:
    """Offsets as stretches: a set of millions that lie side by side is one entry."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def stretches(self) -> int:
        return len(self._starts)

    def __contains__(self, offset: int) -> bool:
        return self.behind(offset) > offset

    def behind(self, offset: int) -> int:
        """The first offset from this one on that is not in the set."""
        at = bisect_right(self._starts, offset) - 1
        return max(offset, self._ends[at]) if at >= 0 else offset

    def add(self, offset: int) -> None:
        """One more."""
        at = bisect_right(self._starts, offset)
        if at and self._ends[at - 1] > offset:
            return
        joins_left = at > 0 and self._ends[at - 1] == offset
        joins_right = at < len(self._starts) and self._starts[at] == offset + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif joins_left:
            self._ends[at - 1] = offset + 1
        elif joins_right:
            self._starts[at] = offset
        else:
            self._starts.insert(at, offset)
            self._ends.insert(at, offset + 1)

    def drop_below(self, offset: int) -> None:
        """Forget what is in front of it."""
        at = bisect_right(self._ends, offset)
        del self._starts[:at], self._ends[:at]
        if self._starts and self._starts[0] < offset:
            self._starts[0] = offset


class _Op(NamedTuple):
    op_offset: int
    end_offset: int
    halves: tuple[int, ...]


class Decided:
    """From half offset `half` and op offset `op` on; what is in front of `half` is over."""

    def __init__(self, half: int, op: int, read_from: int | None = None) -> None:
        self.half, self.op = half, op
        """The safe places."""
        self.read_to = op if read_from is None else read_from
        """The next op record to read; those in front of `op` tell how older halves ended."""
        self._known, self._safe = OffsetSet(), OffsetSet()
        self._read: deque[_Op] = deque()
        # op records that are safe, each with the highest half that it names
        self._kept: deque[tuple[int, int]] = deque()
        self._kinds: OrderedDict[int, Decision] = OrderedDict()
        self._copies: OrderedDict[int, int] = OrderedDict()

    @property
    def behind(self) -> int:
        """Stretches of decided halves behind one that is not."""
        return max(self._known.stretches, len(self._kept))

    def note(self, half: int, how: Decision) -> None:
        """Decided here; its record is in the log, or will be."""
        self._known.add(half)
        self._remember(half, how)

    def _remember(self, half: int, how: Decision) -> None:
        self._kinds[half] = how
        if len(self._kinds) > KINDS_MAX:
            self._kinds.popitem(last=False)

    def copied(self, half: int, copy: int) -> None:
        """A copy stands for this half from now on."""
        self.note(half, Decision.COPIED)
        self._copies[half] = copy
        if len(self._copies) > KINDS_MAX:
            self._copies.popitem(last=False)

    def left(self, half: int) -> None:
        """Another set has it, for good, or nobody ever will."""
        self.note(half, Decision.LEFT)
        self._safe.add(half)

    def newest(self, half: int) -> int:
        """The half that stands for this one now."""
        while (copy := self._copies.get(half)) is not None:
            half = copy
        return half

    def is_decided(self, half: int) -> bool:
        return half < self.half or half in self._known

    def how(self, half: int) -> Decision | None:
        """None: nobody remembers, or it is not decided."""
        return self._kinds.get(half)

    def next_open(self, half: int) -> int:
        """The first half from this one on that is not known to be decided."""
        return self._known.behind(max(half, self.half))

    def read(
        self, op_offset: int, end_offset: int, halves: Iterable[int], *, ended: bool = True
    ) -> None:
        """An op record of the queue, whose bytes end at `end_offset` of the log. `ended`: by the
        producers of its halves.
        """
        named = []
        for half in halves:
            if ended and half not in self._kinds:
                self._remember(half, Decision.ENDED)
            if half >= self.half:
                self._known.add(half)
                named.append(half)
        self._read.append(_Op(op_offset, end_offset, tuple(named)))
        self.read_to = op_offset + 1

    def settle(self, durable_offset: int) -> tuple[int, int]:
        """The safe places (half, op), by how far the log is on this disk and with every member."""
        while self._read and self._read[0].end_offset <= durable_offset:
            one = self._read.popleft()
            for half in one.halves:
                self._safe.add(half)
            self._kept.append((one.op_offset, max(one.halves, default=-1)))
        self.half = self._safe.behind(self.half)
        self._known.drop_below(self.half)
        self._safe.drop_below(self.half)
        while self._kept and self._kept[0][1] < self.half:
            self._kept.popleft()
        if self._kept:
            place = self._kept[0][0]
        else:
            place = self._read[0].op_offset if self._read else self.read_to
        self.op = max(self.op, place)
        return self.half, self.op

    def missing_below(self, half: int) -> None:
        """The queue begins there: what was in front of it is not in the log any more."""
        if half > self.half:
            self.half = half
            self._known.drop_below(half)
            self._safe.drop_below(half)
