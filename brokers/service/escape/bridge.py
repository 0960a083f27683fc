"""The shell around the escape of messages (PROTOCOL 7.4).

Responsible for: carrying out what `brokers.acting.escape` wants: puts (310) to masters of other
sets, routes of topics; its answers; saying once why messages wait. Refuses to know: what is due,
what is tried again and when, places.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

from brokers.acting import effects as fx
from brokers.acting.escape import Escape
from brokers.acting.forms import Kind, send_request
from brokers.acting.messages import Place
from brokers.acting.outcomes import Got, get_request, got_of
from brokers.acting.targets import Route
from brokers.clock import Clock
from brokers.remoting.calls import RemotingError
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.service.escape.awaited import Awaited
from brokers.service.escape.away import Away
from brokers.service.role.services import Served, Service
from brokers.store.log.records import RecordError, StoredMessage, decode_messages

PUT_TIMEOUT_MS, GET_TIMEOUT_MS = 3_000, 10_000
SETTLE_MS = PUT_TIMEOUT_MS + 500
"""The end of acting waits so long for puts under way: by then each is answered or given up, and
what became of those is not known.
"""

Call = Callable[[str, RemotingCommand, int], Awaitable[RemotingCommand]]
Routes = Callable[[str], Awaitable[Route | None]]
Addresses = Callable[[str, str], Awaitable[str | None]]
Report = Callable[[str, Mapping[str, object]], None]

_log = logging.getLogger("regent.broker.escape")


class EscapeBridge(Service):
    """`call(address, request, timeout ms)`: RemotingError without an answer. `routes(topic)`:
    masters of other sets, None: no name server says. `addresses(topic, set)`: where its messages
    can be read, None: nobody says. `place()`: this broker as name servers know it.
    `report(kind, fields)`: a broker event. `look_first()`: before anything is sent, whether it is
    this broker's turn still; where it is not, `hold` has been called when it returns.
    """

    def __init__(
        self,
        call: Call,
        routes: Routes,
        addresses: Addresses,
        place: Callable[[], Place],
        clock: Clock,
        *,
        allowed: bool,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._call = call
        self._routes = routes
        self._addresses = addresses
        self._place = place
        self._clock = clock
        self._chance = chance
        self.report: Report = lambda kind, fields: None
        self.look_first: Callable[[], object] = lambda: None
        self.escape = Escape(allowed=allowed, has_local_master=lambda: False)
        self.awaited = Awaited(
            self.escape, lambda: self._acts and not self.escape.holds, self._go_on
        )
        self._outlets: dict[str, Away] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._puts: set[asyncio.Task[None]] = set()
        self._acts = self._again = False
        self._said: frozenset[object] = frozenset()

    # -- who uses it -------------------------------------------------------------------------------

    def outlet(self, source: str, kind: Kind) -> Away:
        """Where a service puts what is due of one source; the next acting takes a new one."""
        made = self._outlets[source] = Away(self.escape, source, kind)
        return made

    def serves(self) -> dict[int, Served]:
        """Nothing: nobody asks for what leaves."""
        return {}

    def acting_begins(self) -> None:
        """Before the services that put something."""
        self._forget()
        self._acts = True
        self.awaited.changed()

    def acting_over(self) -> None:
        """Answers that come now are none for whoever goes on: it does so from the places that are
        told.
        """
        self._acts = False
        self.awaited.changed()

    def hold(self) -> None:
        """Nothing more is sent; services go on to tell what is taken."""
        self.escape.hold()

    def _forget(self) -> None:
        self._carry_out_all(self.escape.last_batch(self._clock.now_ms()))
        for outlet in self._outlets.values():
            outlet.forget()
        self._outlets = {}
        self.escape.forget()
        self._said = frozenset()

    async def get(
        self, topic: str, queue_id: int, offset: int, broker_name: str
    ) -> StoredMessage | Got:
        """One message of another set, whoever acts; ABSENT, or RETRY."""
        address = await self._addresses(topic, broker_name)
        if address is None:
            return got_of(None, has_address=False)
        wall_ms = self._clock.wall_ms()
        request = get_request(topic, queue_id, offset, broker_name, self._place(), wall_ms)
        try:
            answer = await self._call(address, request, GET_TIMEOUT_MS)
            if (got := got_of(answer.code)) is not Got.FOUND:
                return got
            records = decode_messages(answer.body)
        except (RemotingError, RecordError, ValueError) as error:
            _log.info("message %d of queue %d of %s: %s", offset, queue_id, topic, error)
            return Got.RETRY
        if records and (records[0].fields.topic, records[0].queue_offset) == (topic, offset):
            return records[0]
        return Got.ABSENT

    @property
    def counts(self) -> Mapping[str, int]:
        """What came of puts since the start of the process."""
        return {put.value: count for put, count in self.escape.counts.items()}

    @property
    def left(self) -> Mapping[str, int]:
        """Messages that left since the start of the process, by what they waited for."""
        return {kind.value: count for kind, count in self.escape.by_kind.items()}

    @property
    def waits_for(self) -> Counter[str]:
        """Messages that are to be tried again now, by why."""
        return self.escape.waits_for

    # -- going on ----------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """What is to be sent now."""
        if not self._acts:
            if self._outlets or self.escape.in_hand:  # the services have told how far they are
                self._forget()
            return
        self.look_first()
        for outlet in self._outlets.values():
            outlet.feed()
        self._carry_out_all(self.escape.tick(now_ms, self._chance()))
        if not self.escape.waits_for:
            self._said = frozenset()

    def _carry_out_all(self, effects: Iterable[fx.Effect]) -> None:
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: fx.Effect) -> None:
        match effect:
            case fx.SendAway():
                task = self._begin(self._send(effect))
                self._puts.add(task)
                task.add_done_callback(self._puts.discard)
            case fx.AskRoute(topic):
                self._begin(self._ask_route(topic))
            case fx.Report("EscapeWaits", fields):
                self._say(fields)
                self.report("EscapeWaits", _with_reasons(fields))
            case fx.Report(kind, fields):
                self.report(kind, fields)
            case fx.PutLocally(token):  # no other broker is in this process
                self.escape.answered(token, None, self._clock.now_ms(), self._chance())

    def _begin(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _send(self, away: fx.SendAway) -> None:
        code = await self._answer(away)
        put = self.escape.answered(away.token, code, self._clock.now_ms(), self._chance())
        if put is not None:
            self._go_on()

    async def _answer(self, away: fx.SendAway) -> int | None:
        try:
            request = send_request(away.message, away.target, self._place())
            return (await self._call(away.target.address, request, PUT_TIMEOUT_MS)).code
        except RemotingError as error:
            _log.debug("a put to %s: %s", away.target.broker_name, error)
            return None
        except ValueError as error:
            _log.warning("a put to %s: %s", away.target.broker_name, error)
            return ResponseCode.MESSAGE_ILLEGAL

    async def _ask_route(self, topic: str) -> None:
        route = await self._routes(topic)
        self.escape.route_told(topic, route, self._clock.now_ms())
        self._go_on()

    def _go_on(self) -> None:
        """Once for all answers of one turn of the loop."""
        if not self._again:
            self._again = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._again = False
        self.tick(self._clock.now_ms())

    def _say(self, fields: Mapping[str, object]) -> None:
        """Once, until nothing waits or it waits for something else."""
        reasons = fields.get("reasons")
        why = frozenset(reasons) if isinstance(reasons, Mapping) else frozenset()
        if why != self._said:
            self._said = why
            _log.warning(
                "%s messages are due and wait: %s", fields.get("messages"), "; ".join(sorted(why))
            )

    async def settled(self, timeout_ms: int = SETTLE_MS) -> bool:
        """Wait for the answers to puts that are under way; whether all came."""
        puts = set(self._puts)
        if not puts:
            return True
        _, late = await asyncio.wait(puts, timeout=timeout_ms / 1000)
        return not late

    def close(self) -> None:
        """The broker ends."""
        self._acts = False
        self._carry_out_all(self.escape.last_batch(self._clock.now_ms()))
        for task in self._under_way:
            task.cancel()


def _with_reasons(fields: Mapping[str, object]) -> dict[str, object]:
    reasons = fields.get("reasons")
    known = dict(reasons) if isinstance(reasons, Mapping) else {}
    return {**fields, "reasons": list(known), "waiting": list(known.values())}
