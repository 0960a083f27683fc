"""Orders: each is a row of messages in one queue of one set, and two consumers share the queues by
locks (PROTOCOL 4.8).

Responsible for: sending each row in turn and nowhere else, locking, reading from the place that the
group committed, committing. Refuses to know: what is promised of it (`judged_orders`).

A consumer gives its queues up when another broker leads, and begins again where that one says that
the group is: so what it is handed again shows how old the places are that a slave copied.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from brokers.acting.lock_messages import LockRequest, read_lock_answer
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.features.counts import Blow, Counts
from infra.features.judged_orders import Handed, judge_orders
from infra.features.use import (
    COMES_WITHIN_S,
    LANES,
    POLL_S,
    QUEUES,
    RATE_PER_S,
    FeatureUse,
    Place,
    now_ms,
)
from infra.workload.client import CallFailed

CONSUMERS = 2
LOCK_EVERY_S, READ_EVERY_S = 1.0, 0.1


@dataclass(slots=True)
class _Consumer:
    """`places`: of each queue that is locked, where it reads next and which broker leads there."""

    client_id: str
    places: dict[Place, tuple[int, str]] = field(default_factory=dict)


class Orders(FeatureUse):
    """`handed`: what consumers were given, in that order."""

    what = "orders"

    def __init__(
        self, name_servers: Sequence[str], topic: str, *, rate: float = RATE_PER_S
    ) -> None:
        super().__init__(name_servers, topic, rate=rate)
        self.handed: list[Handed] = []
        self.held = False
        """Nobody reads; locks are kept."""
        self._homes: dict[int, str] = {}

    def asks(self, number: int) -> dict[str, str]:
        self.sent[number].due_ms = self.sent[number].begun_ms
        return {}

    def place(self, number: int, calls: int) -> Place | None:
        """Each lane is a row of its own, and stays where it began: it waits while nobody takes its
        messages there.
        """
        lane, routes = number % LANES, {one.broker_name: one for one in self.sets()}
        if lane not in self._homes and routes:
            names = sorted(routes)
            self._homes[lane] = names[lane // QUEUES % len(names)]
        home = self._homes.get(lane, "")
        if home not in routes or not routes[home].is_writable:
            return None
        return home, lane % QUEUES

    def tasks(self) -> list[asyncio.Task[None]]:
        return [
            asyncio.ensure_future(self._consume(_Consumer(f"{self.topic}@{number}")))
            for number in range(CONSUMERS)
        ]

    async def _consume(self, consumer: _Consumer) -> None:
        locks_due = 0.0
        while True:
            for route in self.sets():
                name = route.broker_name
                if time.monotonic() >= locks_due or self._moved(consumer, name):
                    await self._lock(consumer, name)
                for queue in [one for one in consumer.places if one[0] == name]:
                    if not self.held:
                        await self._read_on(consumer, queue)
            if time.monotonic() >= locks_due:
                locks_due = time.monotonic() + LOCK_EVERY_S
            await asyncio.sleep(READ_EVERY_S)

    def _moved(self, consumer: _Consumer, name: str) -> bool:
        leader = self._routes.routes[name].master
        return any(to != leader for one, (_, to) in consumer.places.items() if one[0] == name)

    async def _lock(self, consumer: _Consumer, name: str) -> None:
        """What this consumer holds at that set from now on."""
        wanted = tuple((name, self.topic, queue) for queue in range(QUEUES))
        request = LockRequest(self.group, consumer.client_id, wanted)
        leader = self._routes.routes[name].master or ""
        answer = await self.ask(request.command(RequestCode.LOCK_BATCH_MQ), to=name)
        held: set[Place] = set()
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            queues, _ = read_lock_answer(answer)
            held = {(set_name, queue) for set_name, _, queue in queues}
        for queue in [one for one in consumer.places if one[0] == name]:
            if queue not in held or consumer.places[queue][1] != leader:
                del consumer.places[queue]
        for queue in held - consumer.places.keys():
            offset = await self._committed(queue)
            if offset is not None:
                consumer.places[queue] = offset, leader

    async def _committed(self, queue: Place) -> int | None:
        """Where the group is in that queue, by who leads; None: nobody says."""
        request = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, self._of(queue))
        answer = await self.ask(request, to=queue[0])
        if answer is None:
            return None
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return 0
        return int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else None

    def _of(self, queue: Place) -> dict[str, str]:
        return {"consumerGroup": self.group, "topic": self.topic, "queueId": str(queue[1])}

    async def _read_on(self, consumer: _Consumer, queue: Place) -> None:
        offset, leader = consumer.places[queue]
        try:
            pulled = await self._routes.pull(queue[1], offset, suspend_ms=0, address=leader)
        except CallFailed:
            del consumer.places[queue]
            await self.calm()
            return
        for one in pulled.messages:
            number = int(bytes(one.fields.body))
            self.handed.append(Handed(queue, one.queue_offset, number, now_ms(), leader))
        if pulled.next_offset > offset:
            consumer.places[queue] = pulled.next_offset, leader
            ext = {**self._of(queue), "commitOffset": str(pulled.next_offset)}
            request = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
            await self.ask(request, to=queue[0])

    async def comes(self) -> None:
        deadline = time.monotonic() + COMES_WITHIN_S
        while time.monotonic() < deadline:
            got = {one.number for one in self.handed}
            if all(number in got for number, one in self.sent.items() if one.is_good):
                return
            await asyncio.sleep(POLL_S)

    def waiting_in(self, name: str) -> int:
        """How many messages that set acknowledged and nobody was handed yet."""
        got = {one.number for one in list(self.handed)}
        sent = list(self.sent.items())
        return sum(one.taken_by == name and number not in got for number, one in sent)

    def handed_by(self, address: str) -> int:
        """How many messages that broker gave to consumers."""
        return sum(one.by == address for one in list(self.handed))

    def judged(self, blows: Sequence[Blow]) -> Counts:
        counts = Counts(self.what)
        judge_orders(counts, self.sent, self.handed, blows)
        return counts
