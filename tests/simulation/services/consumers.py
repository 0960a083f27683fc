"""Applications that read: pops, pops in order, offsets, and locks of orderly consumers; what they
believe of the answers.

Responsible for: requests as stock clients make them, telling the promises what was answered.
Refuses to know: who leads, by any other way than trying; what must hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.simulation.services.clients import (
    QUEUES,
    Client,
    Producer,
    Returner,
    TimerProducer,
    TransactionProducer,
)
from tests.simulation.services.lock_promises import LOCK_GROUP
from tests.simulation.services.ordered_promises import ORDERED_GROUP
from tests.simulation.services.promises import GROUP, POP_GROUP, TOPIC, TOPICS_OF_KINDS, Popped

if TYPE_CHECKING:
    from tests.simulation.services.realm import Realm

DONE_IN_ORDER = ("ack",) * 8 + ("drop", "fail", "change")


class Popper(Client):
    """Pops, and does this or that with what it gets; all is acknowledged once it shall end."""

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number)
        self.go(self._run())

    async def _run(self) -> None:
        while True:
            await self.pause(30, 250)
            invisible_ms = self.world.between(1_200, 2_800)
            request = pop_request(
                TOPIC,
                POP_GROUP,
                invisibleTime=invisible_ms,
                maxMsgNums=self.world.chance.choice((1, 4, 32)),
                bornTime=self.world.wall_ms,
            )
            answer = await self.ask(request)
            if answer is None or answer.code != 0:
                continue
            for one in gotten(answer):
                self.go(self._use(one, invisible_ms))

    async def _use(self, one: Gotten, invisible_ms: int) -> None:
        popped = Popped(one, self.world.now_ms)
        self.promises.popped(popped)
        what = "ack" if self.settles else self.world.chance.choice(("ack", "ack", "change", "drop"))
        if what == "drop":
            self.world.count("pop.left")
            return
        await self.pause(0, int(invisible_ms * (0.1 if self.settles else 0.7)))
        if what == "change":
            await self._change(one)
            return
        self.promises.acks(popped)
        answer = await self.ask(_named(ack_request(one.handle, TOPIC, POP_GROUP), one))
        if answer is not None and answer.code == 0:
            self.promises.acked(popped)

    async def _change(self, one: Gotten) -> None:
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        more = self.world.between(500, 2_000)
        ask = ack_request(one.handle, TOPIC, POP_GROUP, code, invisibleTime=more)
        answer = await self.ask(_named(ask, one))
        if answer is not None and answer.code == 0:
            self.world.count("pop.changed")
            self.promises.changed(one)


def _named(request: RemotingCommand, one: Gotten) -> RemotingCommand:
    """About the topic in which the message lies."""
    request.ext["topic"] = TOPICS_OF_KINDS[one.handle.kind]
    return request


class OrderedPopper(Client):
    """Pops one batch of a queue after the other, and works on it message by message. Some are left
    half done, some fail and those behind them do not, and some get another time.
    """

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number)
        self._attempt = 0
        self.go(self._run())

    async def _run(self) -> None:
        while True:
            await self.pause(50, 400)
            invisible_ms = self.world.between(1_200, 2_800)
            request = pop_request(
                TOPIC,
                ORDERED_GROUP,
                invisibleTime=invisible_ms,
                maxMsgNums=self.world.chance.choice((1, 3, 32)),
                bornTime=self.world.wall_ms,
                order="true",
                attemptId=f"{self.name}-{self._attempt}",
            )
            answer = await self.ask(request)
            if answer is None:
                continue  # the same attempt once more: it may have been heard
            self._attempt += 1
            if answer.code == 0:
                self.go(self._work(gotten(answer), invisible_ms))

    async def _work(self, batch: list[Gotten], invisible_ms: int) -> None:
        ordered, pause_ms = self.promises.ordered, invisible_ms // (2 * len(batch))
        for one in batch:
            what = "ack" if self.settles else self.world.chance.choice(DONE_IN_ORDER)
            if what == "drop":
                self.world.count("ordered.left")
                return
            if what == "fail":
                self.world.count("ordered.failed")
                continue
            await self.pause(0, 20 if self.settles else pause_ms)
            if what == "change":
                more_ms = self.world.between(500, 2_000)
                ordered.changes(one, more_ms)
                code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
                ask = ack_request(one.handle, TOPIC, ORDERED_GROUP, code, invisibleTime=more_ms)
                await self.ask(ask)
                return
            ordered.acks(one)
            answer = await self.ask(ack_request(one.handle, TOPIC, ORDERED_GROUP))
            if answer is not None and answer.code == 0:
                self.world.count("ordered.done")


class Reader(Client):
    """Commits how far its group is in each queue, and asks for it."""

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number)
        self.go(self._run())

    async def _run(self) -> None:
        while not self.stopped:
            await self.pause(50, 500)
            queue = self.world.between(0, QUEUES - 1)
            place = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue)}
            asked_ms = self.world.now_ms
            answer = await self.ask(RemotingCommand.request(14, place))
            known = 0
            if answer is not None and answer.code == 0:
                known = int(answer.ext["offset"])
                self.promises.offset_read(queue, known, asked_ms)
            answer = await self.ask(RemotingCommand.request(30, place))
            if answer is None or answer.code != 0 or int(answer.ext["offset"]) <= known:
                continue
            offset = self.world.between(known + 1, int(answer.ext["offset"]))
            commit = self.promises.offset_said(queue, offset)
            answer = await self.ask(
                RemotingCommand.request(15, {**place, "commitOffset": str(offset)})
            )
            if answer is not None and answer.code == 0:
                self.promises.offset_told(commit)


class Locker(Client):
    """An orderly consumer: takes queues, keeps them for a while, gives them back."""

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number)
        self.go(self._run())

    async def _run(self) -> None:
        locks = self.promises.locks
        while not self.stopped:
            await self.pause(200, 1_500)
            queues = [queue for queue in range(QUEUES) if self.world.one_in(2)]
            if self.world.one_in(4):
                locks.gives_back(self.name, queues)
                await self.ask(self._about(RequestCode.UNLOCK_BATCH_MQ, queues))
                continue
            asked_ms = self.world.now_ms
            answer = await self.ask(self._about(RequestCode.LOCK_BATCH_MQ, queues))
            if answer is not None and answer.code == 0:
                body = fastjson.loads(answer.body)
                held = [row["queueId"] for row in body["lockOKMQSet"]]  # type: ignore[index, call-overload]
                locks.told(self.name, queues, held, asked_ms)

    def _about(self, code: int, queues: list[int]) -> RemotingCommand:
        rows = [{"brokerName": "b", "topic": TOPIC, "queueId": queue} for queue in queues]
        body = {"consumerGroup": LOCK_GROUP, "clientId": self.name, "mqSet": rows}
        return RemotingCommand.request(code, body=fastjson.dumps(body))


def clients_of(realm: Realm) -> list[Client]:
    """Those that the shape asks for."""
    makers: dict[str, list[Callable[[int], Client]]] = {
        "delays": [lambda number: Producer(realm, number, "delay")],
        "timers": [lambda number: TimerProducer(realm, number)],
        "transactions": [lambda number: TransactionProducer(realm, number)],
        "pops": [
            lambda number: Producer(realm, number, "plain"),
            lambda number: Popper(realm, number),
        ],
        "returns": [lambda number: Returner(realm, number)],
        "ordered": [
            lambda number: Producer(realm, number, "plain"),
            lambda number: OrderedPopper(realm, number),
            lambda number: OrderedPopper(realm, number),
        ],
        "offsets": [lambda number: Reader(realm, number)],
        "locks": [lambda number: Locker(realm, number), lambda number: Locker(realm, number)],
    }
    made = [make for use in realm.shape.uses for make in makers[use]]
    return [make(number + 1) for number, make in enumerate(made)]
