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

from brokers.store.log.properties import DELAY_LEVELS_MS
from brokers.store.queues.entries import FILLER_SIZE, Entry


class DelayLevel:
    """Level 1 to 18, from queue offset `next_offset` on."""

    def __init__(self, level: int, next_offset: int) -> None:
        self.level = level
        self.delay_ms = DELAY_LEVELS_MS[level - 1]
        self.next_offset = next_offset
        # queue offset of a message, and the end of its copy in the log
        self._unsafe: deque[tuple[int, int]] = deque()
        self._due_ms = 0  # of the next message that is not due, as far as it was seen

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

    def _is_early(self, deliver_ms: int, now_ms: int) -> bool:
        """One that would wait longer than the level says was stored under another clock: it is
        due.
        """
        return now_ms < deliver_ms <= now_ms + self.delay_ms

    def due(self, entries: Iterable[Entry], now_ms: int) -> tuple[int, int]:
        """(how many slots, how many messages in them) of these entries, the next ones of its queue,
        need not wait.
        """
        slots = messages = 0
        for _, size, deliver_ms in entries:
            if size != FILLER_SIZE:
                if self._is_early(deliver_ms, now_ms):
                    self._due_ms = deliver_ms
                    break
                messages += 1
            slots += 1
        return slots, messages

    def is_due(self, stored_ms: int, now_ms: int) -> bool:
        """The same by when the message was stored: its entry may be damaged."""
        return not self._is_early(stored_ms + self.delay_ms, now_ms)

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
