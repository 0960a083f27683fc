"""One delay level: which of its messages are due, and how far its deliveries are safe
(PROTOCOL 4.14, design S19).

Responsible for: the next message to look at, and the place that a successor may go on from.
Refuses to know: clocks, the log, how a message is put.

Two places: `next_offset` is behind everything that was delivered here; `safe` is behind what is
delivered for good, wherever the next master comes from. Only the second one is told to anybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from brokers.store.log.delay_levels import levels_in_force
from brokers.store.queues.entries import FILLER_SIZE, Entry


class OtherClock(NamedTuple):
    """A clock that stood ahead, under which messages were stored that still wait: those in front of
    `until_offset` that say a later time than `latest_ms`. It stood ahead by `ahead_ms` at least, so
    nothing that is due by it comes early.
    """

    until_offset: int = 0
    latest_ms: int = 0
    ahead_ms: int = 0

    def due_ms(self, offset: int, deliver_ms: int) -> int:
        """By the clock of now, of a message that says `deliver_ms`."""
        is_of_it = offset < self.until_offset and deliver_ms > self.latest_ms
        return deliver_ms - self.ahead_ms if is_of_it else deliver_ms

    def seen(self, offset: int, deliver_ms: int, latest_ms: int, end_offset: int) -> OtherClock:
        """A message says more than the `latest_ms` that is possible now. What is stored from here
        on, at `end_offset` and behind, is of the clock of now; where it has been set back again,
        what is of the clock between stays so.
        """
        if offset < self.until_offset:
            return self._replace(ahead_ms=deliver_ms - latest_ms)
        return OtherClock(end_offset, latest_ms, deliver_ms - latest_ms)


class DelayLevel:
    """A level from 1 on, from queue offset `next_offset` on."""

    def __init__(self, level: int, next_offset: int) -> None:
        self.level = level
        self.delay_ms = levels_in_force()[level - 1]
        self.next_offset = next_offset
        # queue offset of a message, and the end of its copy in the log
        self._unsafe: deque[tuple[int, int]] = deque()
        self._due_ms = 0  # of the next message that is not due, as far as it was seen
        self._other = OtherClock()

    @property
    def queue_id(self) -> int:
        return self.level - 1

    @property
    def unsafe(self) -> int:
        """Delivered, and not for good yet."""
        return len(self._unsafe)

    def waits(self, now_ms: int) -> bool:
        """Its next message was seen, and is not due yet."""
        return self._is_early(self._due_ms, now_ms)

    def _is_early(self, due_ms: int, now_ms: int) -> bool:
        return now_ms < due_ms <= now_ms + self.delay_ms

    def due(self, entries: Iterable[Entry], now_ms: int, end_offset: int) -> tuple[int, int]:
        """(how many slots, how many messages in them) of these entries, the next ones of its queue,
        need not wait; the queue ends at `end_offset`. A message that would wait longer than the
        level says was stored under another clock: it waits as long as the level says from now on.
        """
        slots = messages = 0
        for _, size, deliver_ms in entries:
            if size != FILLER_SIZE:
                offset, latest_ms = self.next_offset + slots, now_ms + self.delay_ms
                if self._other.due_ms(offset, deliver_ms) > latest_ms:
                    self._other = self._other.seen(offset, deliver_ms, latest_ms, end_offset)
                due_ms = self._other.due_ms(offset, deliver_ms)
                if self._is_early(due_ms, now_ms):
                    self._due_ms = due_ms
                    break
                messages += 1
            slots += 1
        return slots, messages

    def is_due(self, queue_offset: int, stored_ms: int, now_ms: int) -> bool:
        """The same by when the message was stored: its entry may be damaged."""
        due_ms = self._other.due_ms(queue_offset, stored_ms + self.delay_ms)
        return not self._is_early(due_ms, now_ms)

    def delivered(self, queue_offset: int, end_offset: int) -> None:
        """The message at `queue_offset` has its copy in the log, which ends at `end_offset`."""
        self._unsafe.append((queue_offset, end_offset))
        self.move_to(queue_offset + 1)

    def move_to(self, queue_offset: int) -> None:
        """Nothing is to be delivered between here and `queue_offset`, or the queue ends there."""
        self.next_offset, self._due_ms = queue_offset, 0

    def safe(self, durable_offset: int) -> int:
        """Everything in front is delivered for good: the copies end at or below `durable_offset`
        of the log.
        """
        while self._unsafe and self._unsafe[0][1] <= durable_offset:
            self._unsafe.popleft()
        return self._unsafe[0][0] if self._unsafe else self.next_offset
