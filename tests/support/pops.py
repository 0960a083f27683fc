"""Pop consumers of one broker, and a timer for what they leave behind."""

from __future__ import annotations

import asyncio
import heapq
from pathlib import Path

from msgspec.structs import replace

from brokers.remoting.command import RemotingCommand
from brokers.service.popping.terms import PopTimer
from brokers.service.sending.delayed import delivered
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.timed import TimerRules
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import MessageFields, StoredMessage, decode_messages
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk

TIMER_TOPIC = "rmq_sys_wheel_timer"
REVIVE = "rmq_sys_REVIVE_LOG_c"


class Wheel:
    """Delivers what waits in the timer's topic when its slot is over, each time somebody asks up to
    where it did. `stopped`: it does nothing.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._next = 0
        self._waiting: list[tuple[int, int, StoredMessage]] = []
        self._until_ms = 0
        self.stopped = False
        desk.service.popping.terms.timer = PopTimer(
            self.waiting, self.turn, lambda: desk.clock.wall_ms()
        )

    def waiting(self, message: MessageFields, deliver_ms: int) -> MessageFields:
        """In the slot that is over at its time."""
        if deliver_ms <= self._desk.clock.wall_ms():
            return message
        found = decode_properties(message.properties)
        found["TIMER_OUT_MS"] = str((deliver_ms - 1) // 1_000 * 1_000)
        found["REAL_TOPIC"], found["REAL_QID"] = message.topic, str(message.queue_id)
        text = encode_properties(found)
        return replace(message, topic=TIMER_TOPIC, queue_id=0, properties=text)

    def turn(self) -> int:
        desk = self._desk
        if self.stopped or not desk.roles.serves(writes=True):
            return self._until_ms
        while True:
            found = desk.store.query(TIMER_TOPIC, 0, self._next, 32)
            if not found.messages:
                break
            for record in decode_messages(found.body):
                out_ms = int(decode_properties(record.fields.properties)["TIMER_OUT_MS"])
                heapq.heappush(self._waiting, (out_ms, record.queue_offset, record))
            self._next = found.next_offset
        now_ms = desk.clock.wall_ms() // 1_000 * 1_000
        while self._waiting and self._waiting[0][0] < now_ms:
            try:
                desk.service.puts.append([delivered(self._waiting[0][2])])
            except NotPut:
                return self._until_ms
            heapq.heappop(self._waiting)
        self._until_ms = now_ms
        return now_ms


async def popped(desk: Desk, topic: str = "T", group: str = "g", **changes: object) -> list[Gotten]:
    """What a pop gets; nothing: []."""
    answer = await desk.ask(pop_request(topic, group, **changes))
    if answer.code == 210:
        return []
    assert answer.code == 0, answer.remark
    return gotten(answer)


class Stage(Desk):
    """A leading broker with topic T, whose wall clock stands still."""

    wheel: Wheel

    def __init__(self, folder: Path) -> None:
        # its own wheel keeps an even time, whatever the clock says
        super().__init__(folder, timers=TimerRules(enabled=False))
        self.stand_at(0)

    async def open(self, messages: int = 0) -> Stage:
        self.lead()
        await self.ask(send_request("T", b"first", 3))
        self.wheel = Wheel(self)
        for each in await popped(self):
            assert await self.code(ack_request(each.handle)) == 0
        for number in range(messages):
            await self.ask(send_request("T", b"m%02d" % number, 0, key=f"K{number}"))
        return self

    async def settled(self, ahead_ms: int) -> None:
        """The clock is there, and what was due by then has come back."""
        revive = self.service.popping.revive
        self.stand_at(ahead_ms)
        await until(
            lambda: (
                revive._until_ms >= self.clock.wall_ms() // 1_000 * 1_000
                and all(
                    queue.points.next_offset >= self.store.queue_bounds(REVIVE, queue.queue_id)[1]
                    for queue in revive._queues
                )
            ),
            "the wheel's records are read",
        )
        before = -1
        while before != revive.revived:
            before = revive.revived
            revive.tick(self.clock.now_ms() + 10_000)
            await asyncio.sleep(0)

    async def code(self, request: RemotingCommand) -> int:
        answer = await self.ask(request)
        return answer.code
