"""Reading one queue for a pop: from where a group goes on, past what cannot be read
(PROTOCOL 4.9).

Responsible for: a group's place in a queue, also its first one, and the next messages from there.
Refuses to know: who may pop, what is noted about messages that are handed out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokers.service.clients.wanted import Wanted
from brokers.service.popping.names import NORMAL, kind_of
from brokers.service.popping.terms import PopTerms
from brokers.service.reading.cold_reads import ColdReads
from brokers.store.log.integrity import BadRecord
from brokers.store.queues.cold_query import ColdRead
from brokers.store.queues.query import GetResult, GetStatus

# Of a queue of which nothing is wanted, so many pieces are passed over by one pop.
PIECES_MAX = 32
_MOVED = frozenset(
    {
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.MESSAGE_WAS_REMOVING,
    }
)


@dataclass(frozen=True, slots=True)
class Found:
    """`start`: the place that was read from; `next_offset`: behind what was looked at. `body` and
    `messages` are empty and 0 when nothing is there to be given.
    """

    start: int
    next_offset: int
    body: bytes
    messages: int


class QueueReader:
    """`cold`: reads of what is not in memory. `repair(bad, found_by)`: see to a damaged message."""

    def __init__(
        self, terms: PopTerms, cold: ColdReads, repair: Callable[[BadRecord, str], object]
    ) -> None:
        self._terms = terms
        self._cold = cold
        self._repair = repair
        self._unconfirmed_until = 0

    def mastership_begins(self) -> None:
        """What is in the log by now may have been handed out by the former master."""
        self._unconfirmed_until = self._terms.store.log_end

    def place(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the group goes on, None for one that is new there."""
        return self._terms.tables.offsets.query(group, topic, queue_id)

    def first_place(self, topic: str, queue_id: int, *, from_end: bool) -> int:
        """Where a new group begins: at the oldest message, or with the newest; in a young queue at
        0.
        """
        low, high = self._terms.store.queue_bounds(topic, queue_id)
        if not from_end or kind_of(topic) != NORMAL:
            return low
        return 0 if low <= 0 and self._terms.store.log_min == 0 else max(0, high - 1)

    def left(self, group: str, topic: str, queue_id: int, *, from_end: bool) -> int:
        """How many messages are behind the group's place."""
        place = self.place(group, topic, queue_id)
        if place is None:
            place = self.first_place(topic, queue_id, from_end=from_end)
        return max(0, self._terms.store.queue_bounds(topic, queue_id)[1] - place)

    async def read(self, topic: str, queue_id: int, start: int, most: int, wanted: Wanted) -> Found:
        """The next messages from `start`."""
        for _ in range(PIECES_MAX):
            found = self._terms.store.query_or_cold(
                topic, queue_id, start, most, wanted.codes, wanted.filter
            )
            result = await self._cold.read(found) if isinstance(found, ColdRead) else found
            if result.refused is not None:
                self._repair(result.refused, "pop")
            if result.status is GetStatus.FOUND:
                return Found(start, result.next_offset, result.body, result.messages)
            if result.status not in _MOVED or self._is_behind(result):
                break
            if result.next_offset == start:
                break
            start = result.next_offset
        return Found(start, start, b"", 0)

    def _is_behind(self, result: GetResult) -> bool:
        """A new master confirms again what the old one had: until then the group is not ahead."""
        return (
            result.status is GetStatus.OFFSET_OVERFLOW_BADLY
            and self._terms.store.confirm_offset < self._unconfirmed_until
        )
