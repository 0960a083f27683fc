"""Sends that are written and wait until every member of the SyncStateSet has them (design S1).

Responsible for: the order of answers, their time limit, the limit on what may wait.
Refuses to know: sockets, clocks, how the confirm offset comes about, what an answer looks like.

Invariants:
  - entries are in the order of their end offsets, which is the order of the log within one mastership;
  - an entry leaves once: confirmed, timed out, or aborted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

WAITING_SENDS_MAX = 100_000
WAITING_BYTES_MAX = 256 * 1024 * 1024

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Waiting(Generic[Reply]):
    """One written send: it may be answered with success once everything below `end_offset` is confirmed."""

    end_offset: int
    deadline_ms: int
    size_bytes: int
    reply: Reply


class AckQueue(Generic[Reply]):
    """The sends of one mastership that are not answered yet."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting[Reply]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= WAITING_SENDS_MAX or self._bytes >= WAITING_BYTES_MAX

    def push(self, end_offset: int, deadline_ms: int, size_bytes: int, reply: Reply) -> None:
        assert not self._waiting or self._waiting[-1].end_offset <= end_offset
        self._waiting.append(Waiting(end_offset, deadline_ms, size_bytes, reply))
        self._bytes += size_bytes

    def confirmed(self, confirm_offset: int) -> list[Reply]:
        """Everything that ends at or below the confirm offset, oldest first."""
        waiting, done = self._waiting, []
        while waiting and waiting[0].end_offset <= confirm_offset:
            entry = waiting.popleft()
            self._bytes -= entry.size_bytes
            done.append(entry.reply)
        return done

    def timed_out(self, now_ms: int) -> list[Reply]:
        """What waited too long: written, not confirmed, answered with code 12 (`broker-wire-and-storage.md` 6.2)."""
        waiting, late = self._waiting, []
        while waiting and waiting[0].deadline_ms <= now_ms:
            entry = waiting.popleft()
            self._bytes -= entry.size_bytes
            late.append(entry.reply)
        return late

    def aborted(self) -> list[Reply]:
        """The mastership is over: nobody here may answer success any more."""
        replies = [entry.reply for entry in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        return replies
