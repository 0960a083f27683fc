"""One application in a thread of its own: it sends numbered messages to masters by the route, until
it is told to end.

Responsible for: the thread, the lanes that send, which set gets what, asking again, reading a
topic. Refuses to know: what the messages ask for, and what is judged.

Where the topic lives in several sets, messages go to all that take sends in turn, as stock
producers do it, and are read from all, also from a slave that acts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Handler
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import SYS_FLAG_PREPARED, StoredMessage
from infra.features.counts import Blow, Counts, Sent
from infra.problems import Problem
from infra.workload.client import CallFailed, Route, WorkloadClient, send_request

QUEUES, LANES, RATE_PER_S = 4, 8, 60.0
CALL_MS, RETRY_PAUSE_S, POLL_S = 2_000, 0.05, 0.5
FLOWS_WITHIN_S = 90.0
# Behind the last blow, and behind the last message's time. No healthy run needs it.
COMES_WITHIN_S = 120.0
ENDS_WITHIN_S = COMES_WITHIN_S * 2
FAREWELL_S = 60.0
"""How long a message that is under way is sent again when the use shall end."""
NOT_NOW = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)

Place = tuple[str, int]
"""A queue: the name of its set, and its number."""


def now_ms() -> int:
    """Of the wall clock, which clients and brokers of one machine share."""
    return time.time_ns() // 1_000_000


class FeatureUse(ABC):
    """`what` names it in figures. `sent`: all that it sent so far, by number."""

    what: str

    def __init__(
        self, name_servers: Sequence[str], topic: str, *, rate: float = RATE_PER_S
    ) -> None:
        self.topic, self.group = topic, f"{topic}-group"
        self.sent: dict[int, Sent] = {}
        self._name_servers, self._rate = list(name_servers), rate
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._live, name=topic, daemon=True)
        self._routes: WorkloadClient
        self._client: RemotingClient

    # -- for whoever hits the brokers --------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        self._begun.wait()

    @property
    def good(self) -> int:
        """How many messages were acknowledged."""
        return sum(one.is_good for one in list(self.sent.values()))

    def flows(self, messages: int) -> None:
        """Wait until so many more are acknowledged. Problem when they are not."""
        goal, deadline = self.good + messages, time.monotonic() + FLOWS_WITHIN_S
        self.check()
        while self.good < goal:
            self.check()
            if time.monotonic() > deadline:
                raise Problem(
                    f"messages of {self.topic} do not flow: {goal - self.good} of {messages} are "
                    f"not acknowledged after {FLOWS_WITHIN_S:.0f} s",
                    "",
                )
            time.sleep(RETRY_PAUSE_S)

    def stop(self) -> None:
        """Send no more; what is to come is waited for meanwhile."""
        self._tell(lambda: self._stop.set() if self._stop else None)

    def finish(self, blows: Sequence[Blow]) -> Counts:
        """Send no more, wait for what is to come, end; what became of everything. `blows`: when
        somebody was hit.
        """
        self.stop()
        self._thread.join(ENDS_WITHIN_S)
        self.check()
        if self._thread.is_alive():
            raise Problem(f"{self.topic} does not end", "")
        return self.judged(blows)

    def end(self) -> None:
        """The hard end."""
        self._tell(lambda: self._main.cancel() if self._main else None)
        if self._thread.ident is not None:
            self._thread.join(FAREWELL_S)

    def _tell(self, call: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(call)

    def check(self) -> None:
        """Problem when it has ended by an error."""
        if self._error is not None:
            raise Problem(f"{self.topic} ended: {self._error!r}", "") from self._error

    # -- what each does ----------------------------------------------------------------------------

    @abstractmethod
    def asks(self, number: int) -> dict[str, str]:
        """The properties by which this message asks for the feature; called once, before its first
        call: `sent` has it already.
        """

    @abstractmethod
    async def comes(self) -> None:
        """Returns when everything that is to come is there, or after COMES_WITHIN_S."""

    @abstractmethod
    def judged(self, blows: Sequence[Blow]) -> Counts:
        """What became of everything."""

    def stored(self, number: int, answer: RemotingCommand) -> None:  # noqa: B027  most need nothing
        """It is acknowledged."""

    def tasks(self) -> list[asyncio.Task[None]]:
        """What runs beside the lanes until the end."""
        return []

    def handler(self) -> Handler | None:
        """Answers what brokers ask."""
        return None

    def place(self, number: int, calls: int) -> Place | None:
        """Where that message goes in this call of it, the first one being 1: to the sets that take
        sends in turn, and again to another one. None: nobody takes it now.
        """
        takes = [route.broker_name for route in self.sets() if route.is_writable]
        if not takes:
            return None
        return takes[(number // QUEUES + calls - 1) % len(takes)], number % QUEUES

    # -- the thread --------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._begun.set()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._main = asyncio.current_task()
        self._client = RemotingClient(self.handler(), connect_timeout_ms=CALL_MS)
        self._routes = WorkloadClient(
            self._name_servers, self.topic, self.group, timeout_ms=CALL_MS, queues=QUEUES
        )
        running: list[asyncio.Task[None]] = []
        try:
            async with self._routes:
                self._begun.set()
                beside = self.tasks()
                running = [asyncio.ensure_future(self._life()), *beside]
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if running[0] not in done:
                    raise Problem(f"what runs beside {self.topic} has ended", "")
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._client.close()

    async def _life(self) -> None:
        async with asyncio.TaskGroup() as lanes:
            for lane in range(LANES):
                lanes.create_task(self._lane(lane))
        await self.comes()

    async def _lane(self, lane: int) -> None:
        assert self._stop is not None
        number, began = lane, time.monotonic()
        while not self._stop.is_set():
            wait_s = began + number / self._rate - time.monotonic()
            await asyncio.sleep(max(0.0, wait_s))
            await self._deliver(number)
            number += LANES

    async def _deliver(self, number: int) -> None:
        """Until it is acknowledged, or the use has ended for long."""
        assert self._stop is not None
        one = self.sent[number] = Sent(now_ms())
        properties = {"KEYS": str(number), "UNIQ_KEY": f"{number:032X}", "WAIT": "true"}
        text = encode_properties({**properties, **self.asks(number)}).decode()
        flag = SYS_FLAG_PREPARED if "TRAN_MSG" in text else 0
        give_up: float | None = None
        while give_up is None or time.monotonic() < give_up:
            if self._stop.is_set():
                give_up = give_up or time.monotonic() + FAREWELL_S
            place = self.place(number, one.calls + 1)
            if place is None:
                await self.calm()
                continue
            one.calls += 1
            request = send_request(
                self.group, self.topic, QUEUES, place, text, b"%d" % number, flag=flag
            )
            answer = await self.ask(request, to=place[0])
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                one.answered_ms, one.taken_by = now_ms(), place[0]
                self.stored(number, answer)
                return
            if answer is not None:
                await self.calm()

    # -- calls -------------------------------------------------------------------------------------

    def sets(self) -> list[Route]:
        """All sets in which the topic lives, by name."""
        return sorted(self._routes.routes.values(), key=lambda route: route.broker_name)

    def set_at(self, address: str) -> str:
        """The set to which that address belongs; the first one where no route says it."""
        known = (one.broker_name for one in self.sets() if address in one.addresses.values())
        first = self._routes.route
        return next(known, first.broker_name if first else "")

    def leader(self, to: str) -> str:
        """Who stands as the master of that set. CallFailed: nobody does."""
        route = self._routes.routes.get(to)
        if route is None or route.master is None:
            raise CallFailed("the route names no master", "-")
        return route.master

    async def ask(
        self, request: RemotingCommand, timeout_ms: int = CALL_MS, *, to: str
    ) -> RemotingCommand | None:
        """The answer of that set's master, or of who acts for it, whatever it is. None, and a fresh
        route behind a pause, when there is none in time or when it cannot now.
        """
        try:
            answer = await self._client.call(self.leader(to), request, timeout_ms)
            if answer.code not in NOT_NOW:
                return answer
        except (CallFailed, RemotingError, OSError):
            pass
        await self.calm()
        return None

    async def calm(self) -> None:
        """Before it is asked again: a fresh route, and a pause."""
        await self._routes.refresh()
        await asyncio.sleep(RETRY_PAUSE_S)

    async def read(self, places: dict[Place, int]) -> list[tuple[str, StoredMessage]]:
        """All messages of the topic from these places on, which go behind them, and the set of
        each. A queue that cannot be read now is read next time.
        """
        found: list[tuple[str, StoredMessage]] = []
        for route in self.sets():
            for queue in range(QUEUES):
                with suppress(CallFailed):
                    found += await self._read_queue(route, queue, places)
        return found

    async def _read_queue(
        self, route: Route, queue: int, places: dict[Place, int]
    ) -> list[tuple[str, StoredMessage]]:
        name, address = route.broker_name, self.leader(route.broker_name)
        end = await self._routes.offset(RequestCode.GET_MAX_OFFSET, queue, address)
        found: list[tuple[str, StoredMessage]] = []
        while places.setdefault((name, queue), 0) < end:
            at = places[name, queue]
            pulled = await self._routes.pull(queue, at, suspend_ms=0, address=address)
            found += ((name, message) for message in pulled.messages)
            if pulled.next_offset <= at:
                break
            places[name, queue] = pulled.next_offset
        return found

    async def visible(
        self, wanted: Callable[[], Mapping[int, Sent]]
    ) -> dict[int, list[tuple[int, str]]]:
        """When each number's copies were stored under the topic, and in which set: read until all
        that is wanted is there, or time is up, and then once more from the start.
        """
        places: dict[Place, int] = {}
        seen: set[int] = set()
        deadline = time.monotonic() + COMES_WITHIN_S
        while time.monotonic() < deadline:
            seen |= {int(bytes(one.fields.body)) for _, one in await self.read(places)}
            if wanted().keys() <= seen:
                break
            await asyncio.sleep(POLL_S)
        copies: dict[int, list[tuple[int, str]]] = {}
        again: dict[Place, int] = {}
        deadline = time.monotonic() + COMES_WITHIN_S
        while True:
            for name, one in await self.read(again):
                copies.setdefault(int(bytes(one.fields.body)), []).append((one.store_ms, name))
            if all(again.get(queue, 0) >= place for queue, place in places.items()):
                return copies
            if time.monotonic() > deadline:
                raise Problem(f"{self.topic} cannot be read", "")
            await asyncio.sleep(POLL_S)


class CopiesSeen(FeatureUse):
    """One whose messages become visible once, behind what they waited for."""

    def __init__(
        self, name_servers: Sequence[str], topic: str, *, rate: float = RATE_PER_S
    ) -> None:
        super().__init__(name_servers, topic, rate=rate)
        self.copies: dict[int, list[tuple[int, str]]] = {}
        """Of each number: (when stored, in which set)."""

    @abstractmethod
    def wanted(self) -> Mapping[int, Sent]:
        """Those that are to come."""

    async def comes(self) -> None:
        self.copies = await self.visible(self.wanted)

    def times(self) -> dict[int, list[int]]:
        """When each number's copies were stored."""
        return {number: [at for at, _ in found] for number, found in self.copies.items()}

    def crossed(self) -> list[int]:
        """Numbers that one set acknowledged and another one delivered, by a single call."""
        return [
            number
            for number, found in self.copies.items()
            if (one := self.sent.get(number)) is not None
            and one.is_good
            and one.calls == 1
            and any(name != one.taken_by for _, name in found)
        ]
