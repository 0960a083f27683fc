"""Applications: what they send, pop, end and lock, and what they believe of the answers.

Responsible for: requests as stock clients make them, telling the promises what was answered.
Refuses to know: who leads, by any other way than trying; what must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import parse_offset_message_id
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.simulation.services.calls import Calls
from tests.simulation.services.lock_promises import LOCK_GROUP
from tests.simulation.services.promises import (
    COMMIT,
    GROUP,
    POP_GROUP,
    ROLLBACK,
    TOPIC,
    TOPICS_OF_KINDS,
    Popped,
)
from tests.simulation.virtual_loop import VirtualLoop
from tests.support.brokers import send_request

if TYPE_CHECKING:
    from tests.simulation.services.realm import Realm

TIMEOUT_MS = 1_500
QUEUES = 2
GREET_MS = 1_500
TRIES_OF_ENDS = 3
STORED = (0, 10, 11, 12)  # only 0 is a promise


class Client:
    """A process that does one thing after the other. `stopped`: nothing new is begun."""

    def __init__(self, realm: Realm, number: int) -> None:
        self.realm, self.world, self.promises = realm, realm.world, realm.promises
        self.name = f"c{number}"
        self.life, self.up, self.paused, self.stopped = 1, True, False, False
        self.loop = VirtualLoop(realm.world, self)
        self._calls = Calls(realm, self, self.loop, self.asked)
        self._target = number % len(realm.members)

    def go(self, work: Coroutine[object, object, None]) -> None:
        """In the background."""

        def begin() -> None:
            task = self.loop.create_task(work)
            task.add_done_callback(lambda done: done.cancelled() or done.result())

        self.world.after(0, lambda: self.loop.within(begin))

    def asked(self, request: RemotingCommand) -> None:
        """A broker asks."""

    async def ask(self, request: RemotingCommand) -> RemotingCommand | None:
        """Of whom it takes for the master. None: nobody knows what became of it."""
        members = self.realm.members
        address = members[self._target % len(members)].address
        try:
            answer = await self._calls.call(address, request, TIMEOUT_MS)
        except RemotingError:
            self._target += 1
            return None
        if answer.code not in (0, 10, 11, 12, 22, 208, 210, 604):
            self._target += 1
        return answer

    async def pause(self, low_ms: int, high_ms: int) -> None:
        await self.loop.sleep(self.world.between(low_ms, high_ms))

    async def greet(self, request: RemotingCommand) -> None:
        """Every broker."""
        for member in self.realm.members:
            try:
                await self._calls.call(member.address, request, TIMEOUT_MS)
            except RemotingError:
                continue


class Producer(Client):
    """Sends one kind of message. `properties(id)`: by which it asks for that."""

    def __init__(self, realm: Realm, number: int, kind: str) -> None:
        super().__init__(realm, number)
        self.kind = kind
        self._sent = 0
        self.go(self._run())

    async def _run(self) -> None:
        while not self.stopped:
            await self.pause(40, 400)
            self._sent += 1
            key = f"{self.kind}{self.number_text}x{self._sent}"
            await self._send(key)

    @property
    def number_text(self) -> str:
        return self.name[1:]

    async def _send(self, key: str) -> None:
        request = send_request(TOPIC, key.encode(), self.world.between(0, QUEUES - 1), key=key)
        request.ext["g"] = str(self.world.wall_ms)
        request.ext["d"] = str(QUEUES)
        more = self._asks(key)
        request.ext["i"] += "".join(f"{name}\x01{value}\x02" for name, value in more.items())
        self.promises.sends(key)
        answer = await self.ask(request)
        if answer is not None and answer.code == 0:
            self.promises.told(key)
            self.stored(key, answer)

    def _asks(self, key: str) -> dict[str, str]:
        chance = self.world.chance
        if self.kind == "delay":
            level = chance.choice((1, 1, 1, 2))
            self.promises.waits(key, level=level)
            return {"DELAY": str(level)}
        if self.kind == "timer":
            after_ms = chance.randint(300, 3_500)
            self.promises.waits(key, due_ms=self.world.now_ms + after_ms)
            if self.world.one_in(2):
                return {"TIMER_DELIVER_MS": str(self.world.wall_ms + after_ms)}
            return {"TIMER_DELAY_MS": str(after_ms)}
        return {}

    def stored(self, key: str, answer: RemotingCommand) -> None:
        """It is acknowledged."""


class TransactionProducer(Producer):
    """Ends most of its halves itself, some when it is asked."""

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number, "half")
        self.go(self._greet())

    async def _greet(self) -> None:
        body = {
            "clientID": self.name,
            "producerDataSet": [{"groupName": "pg"}],
            "consumerDataSet": [],
        }
        while True:
            await self.greet(RemotingCommand.request(34, body=fastjson.dumps(body)))
            await self.loop.sleep(GREET_MS)

    def _asks(self, key: str) -> dict[str, str]:
        self.promises.is_half(key)
        return {"TRAN_MSG": "true", "PGROUP": "pg"}

    def stored(self, key: str, answer: RemotingCommand) -> None:
        how = self.world.chance.choice((COMMIT, COMMIT, ROLLBACK, 0, 0))
        if not how:
            return
        self.promises.decides(key, how)
        _, place = parse_offset_message_id(answer.ext["msgId"])
        self.go(self._end(key, answer.ext["queueOffset"], str(place), how, TRIES_OF_ENDS))

    async def _end(self, key: str, half: str, place: str, how: int, tries: int) -> None:
        await self.pause(0, 600)
        fields = {
            "producerGroup": "pg",
            "tranStateTableOffset": half,
            "commitLogOffset": place,
            "commitOrRollback": str(how),
            "msgId": key,
        }
        for _ in range(tries):
            answer = await self.ask(RemotingCommand.request(37, fields))
            if answer is not None:
                if answer.code == 0:
                    self.promises.ended()
                return

    def asked(self, request: RemotingCommand) -> None:
        if request.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        self.world.count("transaction.asked")
        key = request.ext["msgId"]
        how = self.promises.decision(key)
        if how is None and self.promises.was_told(key):
            how = self.world.chance.choice((COMMIT, ROLLBACK, 0))
        elif how is None:
            how = ROLLBACK  # its send never came back: nothing was done locally
        if not how:
            return
        self.promises.decides(key, how)
        fields = {
            "producerGroup": "pg",
            "tranStateTableOffset": request.ext["tranStateTableOffset"],
            "commitLogOffset": request.ext["commitLogOffset"],
            "commitOrRollback": str(how),
            "fromTransactionCheck": "true",
            "msgId": key,
        }
        self.go(self._answer(fields))

    async def _answer(self, fields: dict[str, str]) -> None:
        answer = await self.ask(RemotingCommand.request(37, fields))
        if answer is not None and answer.code == 0:
            self.promises.ended()


class Popper(Client):
    """Pops, and does this or that with what it gets; all is acknowledged once it shall end."""

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number)
        self.settles = False
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
        "timers": [lambda number: Producer(realm, number, "timer")],
        "transactions": [lambda number: TransactionProducer(realm, number)],
        "pops": [
            lambda number: Producer(realm, number, "plain"),
            lambda number: Popper(realm, number),
        ],
        "offsets": [lambda number: Reader(realm, number)],
        "locks": [lambda number: Locker(realm, number), lambda number: Locker(realm, number)],
    }
    made = [make for use in realm.shape.uses for make in makers[use]]
    return [make(number + 1) for number, make in enumerate(made)]
