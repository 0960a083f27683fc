"""How far the wheel is: what was done here, and what is safe (PROTOCOL 4.18, design S19).

Responsible for: the next slot to read, and the places that a successor may go on from: the slot,
and the offset of the timer queue.
Refuses to know: clocks, the log, files, how a message is put.

A slot is safe when the copies of its messages are durable and confirmed; an offset of the queue,
when the messages in front of it are, and the copies of those that never were in the wheel.
"""

from __future__ import annotations

from collections import deque


class Progress:
    """From slot `read_ms` on. `told_read_ms`, `told_offset`: what the last master said, behind
    which nothing is to be done again.
    """

    def __init__(self, read_ms: int, told_read_ms: int, told_offset: int) -> None:
        self.read_ms = read_ms
        self.told_read_ms, self.told_offset = told_read_ms, told_offset
        # time of a slot, and the end of the last of its copies in the log
        self._slots: deque[tuple[int, int]] = deque()
        # queue offset of the first of some records, and the end of what must be durable for them
        self._offsets: deque[tuple[int, int]] = deque()

    @property
    def unsafe(self) -> int:
        """Slots and batches that are done, and not for good yet."""
        return max(len(self._slots), len(self._offsets))

    @property
    def unsafe_slots(self) -> int:
        return len(self._slots)

    def was_delivered(self, queue_offset: int, slot_ms: int) -> bool:
        """Whether the masters before saw to it, for good."""
        return queue_offset < self.told_offset and slot_ms < self.told_read_ms

    def enqueued(self, queue_offset: int, end_offset: int) -> None:
        """Records from there on are in the wheel, or delivered; what must be durable for that ends
        at `end_offset`.
        """
        self._offsets.append((queue_offset, end_offset))

    def slot_read(self, slot_ms: int, end_offset: int, next_ms: int) -> None:
        """Everything of a slot is delivered; the last of its copies ends at `end_offset`."""
        self._slots.append((slot_ms, end_offset))
        self.read_ms = next_ms

    def move_to(self, time_ms: int) -> None:
        """Nothing is in the slots in front of it, or the clock was set back to it."""
        self.read_ms = time_ms

    def settle(self, durable_offset: int) -> list[int]:
        """Forgets what is safe by now; the slots among it, which may be cleared."""
        done = []
        while self._slots and self._slots[0][1] <= durable_offset:
            done.append(self._slots.popleft()[0])
        while self._offsets and self._offsets[0][1] <= durable_offset:
            self._offsets.popleft()
        return done

    @property
    def safe_read_ms(self) -> int:
        """Slots in front of it are delivered for good, as far as `settle` knows."""
        return min(self._slots[0][0], self.read_ms) if self._slots else self.read_ms

    def safe_offset(self, next_offset: int) -> int:
        """Of the timer queue, of which everything in front of `next_offset` is done."""
        return self._offsets[0][0] if self._offsets else next_offset
