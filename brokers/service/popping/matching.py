"""Which check points of one revive queue are decided, and how far its reviver is done
(PROTOCOL 4.9).

Responsible for: bringing check points and acknowledgements together, what comes back, the place
that a successor may go on from. Refuses to know: the store, clocks, how a message comes back.

A check point is known by its place in the revive queue. A second one of the same pop, which a new
master's timer may deliver, adds nothing. One of the same name with other messages adds those: where
a group's place went back, a pop and a change of the invisible time, or pops of two masters, can
fall into one millisecond, and names are made of that.

Two places: `next_offset` is behind every record that was read; `safe` names the last check point in
front of which, itself included, everything is decided for good.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from brokers.service.popping.records import Ack, CheckPoint, Key

# An acknowledgement may come a little late.
MARGIN_MS = 2_000
# A queue with so many waits until some are decided. About three seconds' worth are open at a time.
OPEN_MAX = 100_000
# What was acknowledged or came back of check points that are not open, or not known yet: of so many
# it is remembered, since a timer may deliver a check point twice.
OVER_MAX = 10_000
# Then the oldest ones are decided though more could follow, when they are due for so long.
FULL_WAIT_MS = 60_000


@dataclass(slots=True, eq=False)
class OpenPoint:
    """A check point in work, without messages that another one of its name has. `left`: offsets
    that nobody has acknowledged.
    """

    point: CheckPoint
    revive_offset: int
    left: dict[int, None]
    is_open: bool = True
    end_offset: int = 0  # where what was done for it ends in the log


class OpenPoints:
    """Of one revive queue, which is read from `next_offset` on. `processed`: offset of the last
    check point that the last master had decided, −1 for none.
    """

    def __init__(self, next_offset: int, processed: int) -> None:
        self.next_offset = next_offset
        self.until_ms = 0
        """Everything that was to come before this time has been read."""
        self._processed = processed
        self._by_key: dict[Key, tuple[OpenPoint, ...]] = {}
        # of check points that are not open: what was acknowledged, or came back
        self._over: dict[Key, set[int]] = {}
        self._due: list[tuple[int, int, OpenPoint]] = []
        self._in_order: deque[OpenPoint] = deque()

    @property
    def open(self) -> int:
        return len(self._by_key)

    def names(self) -> dict[Key, set[tuple[int, int]]]:
        """The check points that were read and are not done for good: how often they were noted
        anew, with each of their messages.
        """
        found: dict[Key, set[tuple[int, int]]] = {}
        for one in self._in_order:
            point = one.point
            messages = ((point.re_puts, offset) for offset in point.offsets)
            found.setdefault(point.key, set()).update(messages)
        return found

    @property
    def full(self) -> bool:
        return len(self._by_key) >= OPEN_MAX or len(self._in_order) >= 2 * OPEN_MAX

    def check_point(self, point: CheckPoint, revive_offset: int) -> OpenPoint:
        """One was read."""
        # one that was noted anew has the name of the first, and is another one
        over = () if point.re_puts else self._over.get(point.key, ())
        left = {
            offset: None
            for number, offset in enumerate(point.offsets)
            if not point.done >> number & 1 and offset not in over
        }
        others = self._by_key.get(point.key, ())
        for other in others:
            left = {offset: None for offset in left if offset not in other.point.offsets}
            point = replace(point, offsets=tuple(left), done=0)
        known = OpenPoint(point, revive_offset, left)
        self._in_order.append(known)
        if left:
            self._by_key[point.key] = *others, known
            heapq.heappush(self._due, (point.visible_ms, revive_offset, known))
        else:
            known.is_open = False
        return known

    def ack(self, ack: Ack) -> bool:
        """An acknowledgement was read; False: of nothing that is open, but perhaps of what comes:
        RocketMQ's timer delivers what is late in any order.
        """
        found = self._by_key.get(ack.key)
        if found is None:
            self._note_over(ack.key, ack.offsets)
            return False
        for known in found:
            for offset in ack.offsets:
                known.left.pop(offset, None)
            if not known.left:
                self.settle(known, 0)
        return True

    def _note_over(self, key: Key, offsets: Iterable[int]) -> None:
        self._over.setdefault(key, set()).update(offsets)
        if len(self._over) > OVER_MAX:
            del self._over[next(iter(self._over))]

    def read_until(self, time_ms: int) -> None:
        self.until_ms = max(self.until_ms, time_ms)

    def due(self, now_ms: int) -> OpenPoint | None:
        """The next one that is decided by time: its messages come back. Never before their own
        time, whatever the records say.
        """
        while self._due:
            visible_ms, _, known = self._due[0]
            if not known.is_open:
                heapq.heappop(self._due)
                continue
            until_ms = min(self.until_ms, now_ms)
            late_ms = now_ms - visible_ms
            if until_ms - visible_ms > MARGIN_MS or (self.full and late_ms > FULL_WAIT_MS):
                return known
            return None
        return None

    def set_aside(self, known: OpenPoint) -> None:
        """It is due, and waits for something else: others are due meanwhile."""
        if self._due and self._due[0][2] is known:
            heapq.heappop(self._due)

    def bring_back(self, known: OpenPoint) -> None:
        """It waits for nothing but its time any more."""
        if known.is_open:
            heapq.heappush(self._due, (known.point.visible_ms, known.revive_offset, known))

    def settle(self, known: OpenPoint, end_offset: int, *, comes_again: bool = False) -> None:
        """It is decided, and what was done for it ends at `end_offset` of the log; 0: nothing was.
        `comes_again`: the same one was put where it waits for its time; what is acknowledged of it
        stays so.
        """
        known.is_open = False
        known.end_offset = end_offset
        over = known.point.offsets
        if comes_again:
            over = tuple(offset for offset in over if offset not in known.left)
        if over:
            self._note_over(known.point.key, over)
        known.left = {}
        key = known.point.key
        others = tuple(one for one in self._by_key[key] if one is not known)
        if others:
            self._by_key[key] = others
        else:
            del self._by_key[key]

    def safe(self, durable_offset: int) -> int:
        """Offset of the last check point up to which everything is done for good; −1: none."""
        while self._in_order:
            first = self._in_order[0]
            if first.is_open or first.end_offset > durable_offset:
                break
            self._processed = self._in_order.popleft().revive_offset
        return self._processed
