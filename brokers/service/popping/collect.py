"""What a pop takes: from which queues, under which check points (PROTOCOL 4.9).

Responsible for: the order of the sources, one pop at a time per group and queue, that nothing is
handed out before its check point is held by every member, and the group's places behind it.
Refuses to know: who may pop, how one waits, what is answered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from brokers.service.clients.wanted import Wanted
from brokers.service.popping.handles import Handle, Popped
from brokers.service.popping.names import (
    NORMAL,
    ORDERED_REVIVE_QUEUE,
    RETRY_V1,
    RETRY_V2,
    kind_of,
    retry_topic,
)
from brokers.service.popping.pop_request import EVERY_QUEUE, PopRequest
from brokers.service.popping.reading import Found, QueueReader
from brokers.service.popping.records import CheckPoint, Key
from brokers.service.popping.retry_records import as_popped
from brokers.service.popping.terms import PopTerms
from brokers.service.sending.log_writes import NotPut
from brokers.store.log.checked_records import queue_offsets
from brokers.store.log.records import MessageFields, decode_messages
from brokers.store.queues.query import BODY_BYTES_MAX, MESSAGES_MAX

QueueKey = tuple[str, str, int]  # topic, group, queue id


@dataclass(slots=True)
class Taken:
    """Messages of one queue, handed out when their check point is there."""

    topic: str
    popped: Popped
    body: bytes
    next_offset: int


@dataclass(slots=True)
class Collected:
    """What came of one pop. `rest`: messages that are left in its queues. `refused`: why what was
    found is not handed out.
    """

    pop_ms: int
    revive_queue: int
    taken: list[Taken] = field(default_factory=list)
    rest: int = 0
    refused: NotPut | None = None
    locked: set[QueueKey] = field(default_factory=set)
    new_topics: set[str] = field(default_factory=set)

    @property
    def messages(self) -> int:
        return sum(len(one.popped.offsets) for one in self.taken)

    @property
    def full(self) -> bool:
        return sum(len(one.body) for one in self.taken) >= BODY_BYTES_MAX


class Collector:
    """`first_held(group, topic)`: the members know where the group began. `chance()`: a number from
    0 to 99.
    """

    def __init__(
        self,
        terms: PopTerms,
        reader: QueueReader,
        first_held: Callable[[str, str], Awaitable[object]],
        chance: Callable[[], int] = lambda: random.randrange(100),
    ) -> None:
        self._terms = terms
        self._reader = reader
        self._first_held = first_held
        self._chance = chance
        self._locked: set[QueueKey] = set()

    async def pop(self, pop: PopRequest, wanted: Wanted) -> Collected:
        """The next messages; the group goes on behind them."""
        terms = self._terms
        revive_queue = ORDERED_REVIVE_QUEUE if pop.ordered else terms.next_revive_queue()
        got = Collected(terms.clock.wall_ms(), revive_queue)
        try:
            for topic, queue_id in self._sources(pop, self._chance()):
                await self._take(pop, wanted, topic, queue_id, got)
            if got.taken:
                await self._hand_out(pop, got)
            for topic in () if self._terms.acts else got.new_topics:
                await self._first_held(pop.group, topic)
        finally:
            self._locked -= got.locked
        return got

    def has_more(self, pop: PopRequest) -> bool:
        """Whether a pop would find something to look at now."""
        wall_ms = self._terms.clock.wall_ms()
        return any(
            self._reader.left(pop.group, topic, queue_id, from_end=pop.from_end) > 0
            and (topic, pop.group, queue_id) not in self._locked
            and not self._blocked(pop, topic, queue_id, wall_ms)
            for topic, queue_id in self._sources(pop, 0)
        )

    async def peek(self, pop: PopRequest) -> tuple[list[bytes], int]:
        """What a pop would get, as it is stored, and how many messages are left; nothing moves."""
        bodies: list[bytes] = []
        room, rest = min(pop.messages, MESSAGES_MAX), 0
        for topic, queue_id in self._sources(pop, self._chance()):
            left = self._reader.left(pop.group, topic, queue_id, from_end=pop.from_end)
            found = None
            if left and room > 0 and sum(map(len, bodies)) < BODY_BYTES_MAX:
                start = self._terms.store.queue_bounds(topic, queue_id)[1] - left
                found = await self._reader.read(topic, queue_id, start, room, Wanted())
                bodies += [found.body] if found.messages else []
                room -= found.messages
            rest += left - (found.messages if found is not None else 0)
        return bodies, rest

    # -- sources -----------------------------------------------------------------------------------

    def _sources(self, pop: PopRequest, chance: int) -> Iterator[tuple[str, int]]:
        """Queues in the order in which they are looked at."""
        retries = () if pop.ordered else tuple(self._retries(pop, chance))
        first = chance < self._terms.settings.retry_first_percent
        if first:
            yield from retries
        count = self._queues(pop.topic)
        if pop.queue_id != EVERY_QUEUE:
            yield pop.topic, pop.queue_id
        else:
            for at in range(count):
                yield pop.topic, (chance + at) % count
        if not first:
            yield from retries

    def _retries(self, pop: PopRequest, chance: int) -> Iterator[tuple[str, int]]:
        if kind_of(pop.topic) != NORMAL:
            return
        settings, kind = self._terms.settings, RETRY_V1
        if settings.retry_v2 and not (settings.v1_leftovers and chance % 2 == 0):
            kind = RETRY_V2
        topic = retry_topic(pop.group, pop.topic, kind)
        for queue_id in range(self._queues(topic)):
            yield topic, queue_id

    def _queues(self, topic: str) -> int:
        config = self._terms.tables.topics.get(topic)
        return 0 if config is None else config.read_queues

    # -- one queue ---------------------------------------------------------------------------------

    async def _take(
        self, pop: PopRequest, wanted: Wanted, topic: str, queue_id: int, got: Collected
    ) -> None:
        key = topic, pop.group, queue_id
        if key not in self._locked:
            self._take_reset(pop.group, topic, queue_id)
        left = self._reader.left(pop.group, topic, queue_id, from_end=pop.from_end)
        room = pop.messages - got.messages
        if key in self._locked or room <= 0 or got.full:
            got.rest += 0 if pop.ordered and key in self._locked else left
            return
        if self._blocked(pop, topic, queue_id, got.pop_ms):
            return
        self._locked.add(key)
        got.locked.add(key)
        start = self._begin(pop, topic, queue_id, got)
        found = await self._reader.read(topic, queue_id, start, room, wanted)
        high = self._terms.store.queue_bounds(topic, queue_id)[1]
        got.rest += max(0, high - found.next_offset)
        if not found.messages:
            if found.next_offset != start:
                self._commit(pop.group, topic, queue_id, found.next_offset)
            return
        got.taken.append(self._taken(pop, topic, queue_id, found, got))

    def _take_reset(self, group: str, topic: str, queue_id: int) -> None:
        """Where an operator set the group to go on, once."""
        place = self._terms.pending.take(group, topic, queue_id)
        if place is not None:
            self._commit(group, topic, queue_id, place)
            self._terms.ordered.forget((topic, group, queue_id))

    def _begin(self, pop: PopRequest, topic: str, queue_id: int, got: Collected) -> int:
        place = self._reader.place(pop.group, topic, queue_id)
        if place is None:
            place = self._reader.first_place(topic, queue_id, from_end=pop.from_end)
            self._commit(pop.group, topic, queue_id, place)
            got.new_topics.add(topic)
        return place

    def _taken(
        self, pop: PopRequest, topic: str, queue_id: int, found: Found, got: Collected
    ) -> Taken:
        start, body = found.start, found.body
        kind, offsets = kind_of(topic), queue_offsets(body)
        if topic != pop.topic:
            usual = got.pop_ms, pop.invisible_ms, got.revive_queue, kind, self._terms.broker_name
            body = b"".join(
                as_popped(record, pop.topic, Handle(start, *usual, queue_id, record.queue_offset))
                for record in decode_messages(body)
            )
        return Taken(topic, Popped(kind, queue_id, start, offsets), body, found.next_offset)

    def _blocked(self, pop: PopRequest, topic: str, queue_id: int, wall_ms: int) -> bool:
        key = topic, pop.group, queue_id
        ordered = self._terms.ordered
        return pop.ordered and (
            ordered.blocks(key, pop.attempt, wall_ms) or not ordered.has_room(key)
        )

    def _commit(self, group: str, topic: str, queue_id: int, place: int) -> bool:
        wall_ms = self._terms.clock.wall_ms()
        return self._terms.tables.offsets.commit(group, topic, queue_id, place, wall_ms)

    # -- handing out -------------------------------------------------------------------------------

    async def _hand_out(self, pop: PopRequest, got: Collected) -> None:
        if pop.ordered:
            self._in_order(pop, got)
            return
        records = [self._check_point(pop, got, one) for one in got.taken]
        before = got.messages
        if self._terms.acts:
            got.taken = await self._noted_away(got, records)
        else:
            try:
                await self._terms.note(*records)
            except NotPut as refusal:
                got.refused, got.taken = refusal, []
        got.rest += before - got.messages
        for one in got.taken:
            self._commit(pop.group, one.topic, one.popped.queue_id, one.next_offset)

    def _check_point(self, pop: PopRequest, got: Collected, one: Taken) -> MessageFields:
        terms, popped = self._terms, one.popped
        start, broker_name = popped.start_offset, terms.broker_name
        key = Key(one.topic, pop.group, popped.queue_id, start, got.pop_ms, broker_name)
        point = CheckPoint(key, pop.invisible_ms, popped.offsets)
        return terms.records.check_point(point, got.revive_queue, got.pop_ms)

    async def _noted_away(self, got: Collected, records: list[MessageFields]) -> list[Taken]:
        """Whose check points another set's master has. The others are not handed out."""
        noted = await asyncio.gather(
            *(self._terms.note_away(record, withdraws=True) for record in records),
            return_exceptions=True,
        )
        for why in noted:
            if isinstance(why, NotPut):
                got.refused = why
            elif why is not None:
                raise why
        return [one for one, why in zip(got.taken, noted, strict=True) if why is None]

    def _in_order(self, pop: PopRequest, got: Collected) -> None:
        for one in got.taken:
            popped = one.popped
            key = one.topic, pop.group, popped.queue_id
            counts = self._terms.ordered.popped(
                key, pop.attempt, got.pop_ms, pop.invisible_ms, popped.offsets
            )
            self._commit(pop.group, one.topic, popped.queue_id, popped.start_offset)
            one.popped = Popped(
                popped.kind, popped.queue_id, popped.start_offset, popped.offsets, counts
            )
