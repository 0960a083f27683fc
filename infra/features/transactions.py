"""Half messages: of three one is committed, one rolled back, one left to the broker's question,
which commits every second of these.

Responsible for: ends, answers to questions, when each decision was first said. Refuses to know:
where halves wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection, Handler
from infra.features.counts import Blow, Counts, Sent, judge_copies
from infra.features.use import RATE_PER_S, CopiesSeen, now_ms

COMMIT, ROLLBACK = 8, 12
GREET_S = 1.0
END_TRIES = 10


def is_committed(number: int) -> bool:
    """What its producer decides, at once or when it is asked."""
    return number % 3 == 0 or (is_left_open(number) and number // 3 % 2 == 0)


def is_left_open(number: int) -> bool:
    return number % 3 == 2


class Transactions(CopiesSeen):
    """`asked`: how often about each number."""

    what = "transactions"

    def __init__(
        self, name_servers: Sequence[str], topic: str, *, rate: float = RATE_PER_S
    ) -> None:
        super().__init__(name_servers, topic, rate=rate)
        self.asked: Counter[int] = Counter()
        self._ends: dict[int, asyncio.Task[None]] = {}

    def asks(self, number: int) -> dict[str, str]:
        return {"TRAN_MSG": "true", "PGROUP": self.group}

    def tasks(self) -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(self._greet())]

    async def _greet(self) -> None:
        """Brokers ask whom they know."""
        body = fastjson.dumps(
            {
                "clientID": self.topic,
                "producerDataSet": [{"groupName": self.group}],
                "consumerDataSet": [],
            }
        )
        while True:
            for route in self.sets():
                request = RemotingCommand.request(RequestCode.HEART_BEAT, body=body)
                await self.ask(request, to=route.broker_name)
            await asyncio.sleep(GREET_S)

    def handler(self) -> Handler:
        def take(asker: Connection, request: RemotingCommand) -> None:
            if request.code == RequestCode.CHECK_TRANSACTION_STATE:
                number = int(request.ext["msgId"], 16)
                self.asked[number] += 1
                place = request.ext["tranStateTableOffset"], request.ext["commitLogOffset"]
                self._decide(number, *place, self.set_at(asker.peer), is_asked=True)

        return take

    def stored(self, number: int, answer: RemotingCommand) -> None:
        if not is_left_open(number):
            place = str(int(answer.ext["msgId"][-16:], 16))
            taken_by = self.sent[number].taken_by
            self._decide(number, answer.ext["queueOffset"], place, taken_by, is_asked=False)

    def _decide(self, number: int, half: str, place: str, to: str, *, is_asked: bool) -> None:
        one, commits = self.sent[number], is_committed(number)
        if commits and one.due_ms is None:
            one.due_ms = now_ms()
        fields = {
            "producerGroup": self.group,
            "tranStateTableOffset": half,
            "commitLogOffset": place,
            "commitOrRollback": str(COMMIT if commits else ROLLBACK),
            "fromTransactionCheck": "true" if is_asked else "false",
            "msgId": f"{number:032X}",
            "transactionId": f"{number:032X}",
        }
        if number not in self._ends:  # a broker that is not answered asks again
            end = self._ends[number] = asyncio.ensure_future(self._end(fields, to))
            end.add_done_callback(lambda _: self._ends.pop(number))

    async def _end(self, fields: dict[str, str], to: str) -> None:
        """Until somebody of the set that has the half answers; it asks when nobody does, and who
        acts for its master lets another set ask.
        """
        for _ in range(END_TRIES):
            request = RemotingCommand.request(RequestCode.END_TRANSACTION, fields)
            if await self.ask(request, to=to) is not None:
                return

    def wanted(self) -> dict[int, Sent]:
        """That all open ones are asked about is waited for as well, and shows in no topic."""
        good = {number: one for number, one in self.sent.items() if one.is_good}
        if any(is_left_open(number) and not self.asked[number] for number in good):
            return {-1: Sent(0)}
        return {number: one for number, one in good.items() if is_committed(number)}

    def judged(self, blows: Sequence[Blow]) -> Counts:
        counts = Counts(self.what)
        judge_copies(counts, self.sent, self.times(), blows)
        open_ones = [n for n, one in self.sent.items() if one.is_good and is_left_open(n)]
        counts.lost += [n for n in open_ones if not self.asked[n] and n not in counts.lost]
        # without a due time nobody said commit: a committed one that was not asked about is lost
        counts.note = (
            f"{sum(self.asked.values())} questions about {len(self.asked)} of {len(self.sent)}"
        )
        return counts
