"""Records that a client waits for while this slave acts: check points and acknowledgements of pops
go to the master of another set (PROTOCOL 7.4).

Responsible for: how many are waited for, and for how long; whether one is tried on when its client
waits no more. Refuses to know: what they say, when one is tried again (`brokers.acting.escape`).

A check point that nobody waits for is withdrawn: its messages are not handed out, and the group
does not go on. An acknowledgement is tried on for ever: it can do no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from brokers.acting.escape import Escape
from brokers.acting.forms import Kind, Stays, of_own
from brokers.replica.put_rules import PutStatus, code_of
from brokers.service.sending.log_writes import NotPut
from brokers.store.log.records import MessageFields

AWAITED_MAX = 256
"""Records on their way or to be tried again; then pops and acknowledgements are refused."""
NOTED_MS = 2_500
"""A client of RocketMQ's waits for 3 s for the answer to an acknowledgement."""


class Awaited:
    """`acts()`: whether anything leaves now. `go_on()`: something is to be sent."""

    def __init__(self, escape: Escape, acts: Callable[[], bool], go_on: Callable[[], None]) -> None:
        self._escape, self.acts = escape, acts
        self._go_on = go_on
        self._numbers = 0
        self._early: set[asyncio.Future[None]] = set()
        self.waiting = 0

    async def begun(self, timeout_ms: int) -> bool:
        """Whether anything leaves, now or within this time."""
        if not self.acts():
            begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._early.add(begins)
            try:
                await asyncio.wait((begins,), timeout=timeout_ms / 1000)
            finally:
                self._early.discard(begins)
        return self.acts()

    def changed(self) -> None:
        """The acting begins, or is over: who waited for it looks again."""
        for one in self._early:
            if not one.done():
                one.set_result(None)

    async def put(self, record: MessageFields, *, withdraws: bool) -> None:
        """Another set's master has the record when this returns. NotPut: perhaps not."""
        if not self.acts() or self.waiting >= AWAITED_MAX:
            raise _refused("this slave takes no more for other sets")
        try:
            form = of_own(Kind.REVIVAL, record)
        except Stays as why:
            raise NotPut(*code_of(PutStatus.MESSAGE_ILLEGAL, str(why))) from None
        self._numbers += 1
        source = f"awaited {self._numbers}"
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def told(taken: bool) -> None:
            self.waiting -= 1
            if not done.done():
                done.set_result(taken)

        if not self._escape.offer(source, 0, Kind.REVIVAL, form, told):
            raise _refused("this slave takes no more for other sets")
        self.waiting += 1
        self._go_on()
        try:
            taken = await asyncio.wait_for(done, NOTED_MS / 1000)
        except TimeoutError:
            why_not = self._escape.why(source) or "no answer"
            if withdraws:
                self._escape.withdraw(source)
                self.waiting -= 1
            raise _refused(f"no master of another set has taken it: {why_not}") from None
        if not taken:
            raise _refused("this slave acts no more")


def _refused(why: str) -> NotPut:
    return NotPut(*code_of(PutStatus.SERVICE_NOT_AVAILABLE, why))
