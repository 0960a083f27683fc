"""Consumers that pop: a third of the messages they leave the first time, all others they
acknowledge, until everything is acknowledged.

Responsible for: what was handed out when and by which check point, what was acknowledged in time.
Refuses to know: what is promised of it (`judged_pops`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from brokers.remoting.codes import ResponseCode
from infra.features.counts import Blow, Counts
from infra.features.judged_pops import Given, Unanswered, judge_pops
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from infra.features.use import CALL_MS, COMES_WITHIN_S, POLL_S, RATE_PER_S, FeatureUse, now_ms

INVISIBLE_MS, POLL_MS = 6_000, 1_000
POPPERS, ACK_TRIES = 2, 3
# What was acknowledged would come back behind its time, and a few seconds more.
QUIET_S = INVISIBLE_MS / 1000 + 4


class Pops(FeatureUse):
    """`given`: of each number, in the order in which they came."""

    what = "pops"

    def __init__(
        self, name_servers: Sequence[str], topic: str, *, rate: float = RATE_PER_S
    ) -> None:
        super().__init__(name_servers, topic, rate=rate)
        self.given: dict[int, list[Given]] = {}
        self._unanswered: list[Unanswered] = []
        self._acks: set[asyncio.Task[None]] = set()

    def asks(self, number: int) -> dict[str, str]:
        self.sent[number].due_ms = self.sent[number].begun_ms
        return {}

    def tasks(self) -> list[asyncio.Task[None]]:
        sets = range(max(1, len(self.sets())))
        return [asyncio.ensure_future(self._pop(n)) for n in sets for _ in range(POPPERS)]

    async def _pop(self, number: int) -> None:
        """At the set of that number."""
        while True:
            sets = [route.broker_name for route in self.sets()]
            if number >= len(sets):
                await self.calm()
                continue
            name = sets[number]
            begun_ms = now_ms()
            request = pop_request(
                self.topic,
                self.group,
                invisibleTime=INVISIBLE_MS,
                pollTime=POLL_MS,
                bornTime=begun_ms,
            )
            answer = await self.ask(request, POLL_MS + CALL_MS, to=name)
            if answer is None:
                self._unanswered.append(Unanswered(begun_ms, now_ms(), INVISIBLE_MS))
            elif answer.code == ResponseCode.SUCCESS:
                for one in gotten(answer, name):
                    self._took(one)
            elif answer.code not in (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL):
                await self.calm()

    def _took(self, one: Gotten) -> None:
        number = int(one.body)
        handle = one.handle
        is_back = handle.kind != "0"
        given = Given(is_back, handle.pop_ms, handle.visible_ms, given_by=handle.broker_name)
        earlier = self.given.setdefault(number, [])
        earlier.append(given)
        if number % 3 or len(earlier) > 1:
            ack = asyncio.ensure_future(self._acknowledge(one, given))
            self._acks.add(ack)
            ack.add_done_callback(self._acks.discard)

    async def _acknowledge(self, one: Gotten, given: Given) -> None:
        given.is_asked = True
        for _ in range(ACK_TRIES):
            request = ack_request(one.handle, self.topic, self.group)
            answer = await self.ask(request, to=one.handle.broker_name)
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                given.answered_ms = now_ms()
                return

    async def comes(self) -> None:
        deadline = time.monotonic() + COMES_WITHIN_S
        while self._open() and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(QUIET_S)

    def _open(self) -> bool:
        return any(
            not any(given.answered_ms for given in self.given.get(number, ()))
            for number, one in self.sent.items()
            if one.is_good
        )

    def crossed(self) -> list[int]:
        """Numbers that one set handed out and another one handed out again."""
        given = {number: {one.given_by for one in found} for number, found in self.given.items()}
        return [number for number, sets in given.items() if len(sets) > 1]

    def judged(self, blows: Sequence[Blow]) -> Counts:
        counts = Counts(self.what)
        judge_pops(counts, self.sent, self.given, self._unanswered, blows)
        return counts
