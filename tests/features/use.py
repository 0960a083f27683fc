"""One application in a thread of its own: it sends numbered messages to whoever is master by the
route, until it is told to end.

Responsible for: the thread, the lanes that send, asking again, reading a topic. Refuses to know:
what the messages ask for, and what is judged.
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
from brokers.store.log.records import StoredMessage
from infra.workload.client import CallFailed, WorkloadClient
from tests.bench.send_load import send_request
from tests.features.counts import Blow, Counts, Sent
from tests.support.local_cluster import wait_until

QUEUES, LANES, RATE_PER_S = 4, 8, 60.0
CALL_MS, RETRY_PAUSE_S, POLL_S = 2_000, 0.05, 0.5
# Behind the last blow, and behind the last message's time. No healthy run needs it.
COMES_WITHIN_S = 120.0
ENDS_WITHIN_S = COMES_WITHIN_S * 2
FAREWELL_S = 60.0
"""How long a message that is under way is sent again when the use shall end."""
NOT_NOW = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


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
        """Wait until so many more are acknowledged."""
        goal = self.good + messages

        def there() -> bool:
            self._alive()
            return self.good >= goal

        wait_until(there, f"messages of {self.topic} flow")

    def stop(self) -> None:
        """Send no more; what is to come is waited for meanwhile."""
        self._tell(lambda: self._stop.set() if self._stop else None)

    def finish(self, blows: Sequence[Blow]) -> Counts:
        """Send no more, wait for what is to come, end; what became of everything. `blows`: when
        somebody was hit.
        """
        self.stop()
        self._thread.join(ENDS_WITHIN_S)
        self._alive()
        assert not self._thread.is_alive(), f"{self.topic} does not end"
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

    def _alive(self) -> None:
        if self._error is not None:
            raise AssertionError(f"{self.topic} ended: {self._error!r}") from self._error

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
                assert running[0] in done, "what runs beside a use has ended"
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
        flag = "4" if "TRAN_MSG" in text else "0"
        give_up: float | None = None
        while give_up is None or time.monotonic() < give_up:
            if self._stop.is_set():
                give_up = give_up or time.monotonic() + FAREWELL_S
            one.calls += 1
            request = send_request(self.topic, number % QUEUES, text, self.group, self.set, flag)
            request.body = b"%d" % number
            answer = await self.ask(request)
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                one.answered_ms = now_ms()
                self.stored(number, answer)
                return
            if answer is not None:
                await self.calm()

    # -- calls -------------------------------------------------------------------------------------

    @property
    def set(self) -> str:
        """The name of the broker set."""
        return self._routes.route.broker_name if self._routes.route else ""

    async def ask(
        self, request: RemotingCommand, timeout_ms: int = CALL_MS
    ) -> RemotingCommand | None:
        """The master's answer, whatever it is. None, and a fresh route behind a pause, when there
        is none in time or when it cannot now.
        """
        try:
            answer = await self._client.call(self._routes.master(), request, timeout_ms)
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

    async def read(self, places: dict[int, int]) -> list[StoredMessage]:
        """All messages of the topic from these places on, which go behind them. A queue that cannot
        be read now is read next time.
        """
        found: list[StoredMessage] = []
        for queue in range(QUEUES):
            with suppress(CallFailed):
                end = await self._routes.offset(RequestCode.GET_MAX_OFFSET, queue)
                while places.setdefault(queue, 0) < end:
                    pulled = await self._routes.pull(queue, places[queue], suspend_ms=0)
                    found += pulled.messages
                    if pulled.next_offset <= places[queue]:
                        break
                    places[queue] = pulled.next_offset
        return found

    async def visible(self, wanted: Callable[[], Mapping[int, Sent]]) -> dict[int, list[int]]:
        """When each number's copies were stored under the topic: read until all that is wanted is
        there, or time is up, and then once more from the start.
        """
        places: dict[int, int] = {}
        seen: set[int] = set()
        deadline = time.monotonic() + COMES_WITHIN_S
        while time.monotonic() < deadline:
            seen |= {int(bytes(one.fields.body)) for one in await self.read(places)}
            if wanted().keys() <= seen:
                break
            await asyncio.sleep(POLL_S)
        copies: dict[int, list[int]] = {}
        again: dict[int, int] = {}
        deadline = time.monotonic() + COMES_WITHIN_S
        while True:
            for one in await self.read(again):
                copies.setdefault(int(bytes(one.fields.body)), []).append(one.store_ms)
            if all(again.get(queue, 0) >= place for queue, place in places.items()):
                return copies
            assert time.monotonic() < deadline, f"{self.topic} cannot be read"
            await asyncio.sleep(POLL_S)
