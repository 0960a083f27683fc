"""Applications that send: messages with a level, with a time, in two steps, and ones that come back
once more; what they believe of the answers.

Responsible for: requests as stock clients make them, telling the promises what was answered.
Refuses to know: who leads, by any other way than trying; what must hold.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import parse_offset_message_id
from tests.simulation.services.calls import Calls
from tests.simulation.services.promises import AGAIN, BACK_GROUP, COMMIT, DEAD, ROLLBACK, TOPIC
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
    """A process that does one thing after the other. `stopped`: nothing new is begun; `settles`:
    what is left is brought to its end.
    """

    def __init__(self, realm: Realm, number: int) -> None:
        self.realm, self.world, self.promises = realm, realm.world, realm.promises
        self.name = f"c{number}"
        self.life, self.up, self.paused = 1, True, False
        self.stopped = self.settles = False
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


class TimerProducer(Producer):
    """Recalls some of its messages before their time."""

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number, "timer")

    def stored(self, key: str, answer: RemotingCommand) -> None:
        handle = answer.ext.get("recallHandle")
        if handle and self.world.one_in(3):
            self.go(self._recall(key, handle))

    async def _recall(self, key: str, handle: str) -> None:
        await self.pause(0, 2_000)
        self.promises.recalls(key)
        ext = {"topic": TOPIC, "recallHandle": handle}
        answer = await self.ask(RemotingCommand.request(RequestCode.RECALL_MESSAGE, ext))
        if answer is not None and answer.code == 0:
            self.promises.recalled(key)


class Returner(Producer):
    """A consumer of its own messages that fails with most: it sends them back, for later or as dead
    letters.
    """

    def __init__(self, realm: Realm, number: int) -> None:
        super().__init__(realm, number, "back")

    def stored(self, key: str, answer: RemotingCommand) -> None:
        level = self.world.chance.choice((1, 1, 2, -1, None))
        if level is not None:
            _, place = parse_offset_message_id(answer.ext["msgId"])
            self.go(self._send_back(key, place, level, answer.ext["msgId"]))

    async def _send_back(self, key: str, place: int, level: int, message_id: str) -> None:
        await self.pause(0, 500)
        name = key + (DEAD if level < 0 else AGAIN)
        self.promises.waits(name, level=max(0, level))
        fields = {
            "offset": str(place),
            "group": BACK_GROUP,
            "delayLevel": str(level),
            "originMsgId": message_id,
            "originTopic": TOPIC,
        }
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        answer = await self.ask(RemotingCommand.request(code, fields))
        if answer is not None and answer.code == 0:
            self.promises.told(name)
