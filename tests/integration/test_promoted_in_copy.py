"""A slave that copies a long log leads before the process that makes its queue entries has given
all of them.

Both brokers are processes, and so is the maker of entries; the test says how much is copied, and
stops that process. The controller's part is scripted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import decode_messages
from brokers.store.queue_follower import LAG_BYTES_MAX
from brokers.store.queues.dispatch import PIECE_BYTES_MIN
from infra.processes import children
from infra.processes.ports import split_address
from tests.interop.regent_broker import RegentBroker
from tests.support.brokers import pull_request, send_request
from tests.support.local_cluster import wait_until
from tests.support.scripted_controller import ScriptedController

QUEUES = 4
BODY_BYTES = 16 << 10
COUNT, AT_ONCE = 5_000, 250
MIB = 1 << 20
# The last part of the copy: fewer bytes than a slave may have without entries, or it would wait for
# them.
LAST_BYTES = LAG_BYTES_MAX * 3 // 4
WAIT_S = 60.0
IN_TIME = "in time"
"""What a master says that gave a hand-over up because it took long; it may come about all the
same.
"""
SETTINGS = {
    "commit_log_file_bytes": 8 * MIB,
    "min_in_sync_replicas": 1,
    "ha_heartbeat_ms": 5_000,
    "heartbeat_interval_ms": 100,
    "replica_poll_ms": 200,
    "metadata_sync_ms": 200,
    "ack_timeout_ms": 20_000,
}


async def until(condition: Callable[[], object], what: str) -> None:
    """With the patience that processes on a busy machine need."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        await asyncio.sleep(0.005)


class Valve:
    """Stands before a master's HA port: slaves get no more of its bytes than they are given."""

    def __init__(self) -> None:
        self.left = 0
        self._more = asyncio.Event()

    @asynccontextmanager
    async def listening(self, target: Callable[[], str]) -> AsyncIterator[str]:
        """Gives the address for slaves; `target` is where the master listens."""
        self._target = target
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        finally:
            server.close()

    def give(self, count: int) -> None:
        self.left += count
        self._more.set()

    async def _serve(self, slave: asyncio.StreamReader, to_slave: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            master, to_master = await asyncio.open_connection(*split_address(self._target()))
            ways = [
                asyncio.ensure_future(self._pass_on(slave, to_master)),
                asyncio.ensure_future(self._pass_on(master, to_slave, self._given)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            to_master.close()
        to_slave.close()

    async def _pass_on(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        given: Callable[[], Any] | None = None,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(await given() if given else MIB):
                self.left -= len(data) if given else 0
                sink.write(data)
                await sink.drain()

    async def _given(self) -> int:
        while not self.left:
            self._more.clear()
            await self._more.wait()
        return self.left


@dataclass(frozen=True, slots=True)
class Place:
    """Where the brokers' folders are."""

    folder: Path

    def wait_until(self, condition: Callable[[], bool], what: str, limit_s: float) -> float:
        began = time.monotonic()
        wait_until(condition, what, limit_s)
        return time.monotonic() - began


class Pair:
    """A master whose log is long, and a slave that gets it through a valve."""

    def __init__(
        self,
        folder: Path,
        controller: ScriptedController,
        client: RemotingClient,
        valve: Valve,
        ha_address: str,
    ) -> None:
        self.valve, self.controller, self._client = valve, controller, client
        self.master, self.slave = (
            RegentBroker(
                Place(folder),
                name,
                controllers=[controller.address],
                name_servers=[],
                broker_set="broker-a",
                cluster="regent",  # type: ignore[arg-type]
                settings=SETTINGS | more,
            )
            for name, more in (("first", {"ha_advertise": ha_address}), ("second", {}))
        )
        self.sent = 0
        self._acknowledged: list[dict[int, int]] = [{} for _ in range(QUEUES)]

    def end(self) -> None:
        for one in (self.master, self.slave):
            one.end()

    async def call(self, broker: RegentBroker, request: RemotingCommand) -> RemotingCommand:
        return await self._client.call(broker.address, request, 30_000)

    async def until(
        self, broker: RegentBroker, condition: Callable[[dict[str, Any]], bool], what: str
    ) -> dict[str, Any]:
        """Its status, once it meets the condition."""
        deadline = time.monotonic() + WAIT_S
        while True:
            status: Any = {}
            with suppress(RemotingError):
                status = fastjson.loads(
                    (await self.call(broker, RemotingCommand.request(19002))).body
                )
            if status and condition(status):
                return status
            assert broker.is_running and time.monotonic() < deadline, (
                f"waited in vain until {what}: {status} {broker.logs(3)}"
            )
            await asyncio.sleep(0.005)

    async def send(self, broker: RegentBroker, count: int) -> None:
        """All of them are acknowledged, and no queue has a gap. Their order is not promised: the
        first of a topic wait until it is there.
        """
        numbers = range(self.sent, self.sent + count)
        answers = await asyncio.gather(*(self._sent(broker, number) for number in numbers))
        assert {answer.code for answer in answers} == {0}
        for number, answer in zip(numbers, answers, strict=True):
            assert (
                self._acknowledged[number % QUEUES].setdefault(
                    int(answer.ext["queueOffset"]), number
                )
                == number
            ), "an offset is given once"
        self.sent += count
        assert all(max(queue) + 1 == len(queue) for queue in self._acknowledged)

    async def _sent(self, broker: RegentBroker, number: int) -> RemotingCommand:
        """A broker that the machine kept from running sheds load: nothing of that is stored, and
        clients ask again.
        """
        request = send_request("T", (b"%08d" % number).ljust(BODY_BYTES), number % QUEUES)
        while (answer := await self.call(broker, request)).code == ResponseCode.SYSTEM_BUSY:
            pass
        return answer

    def acknowledged(self) -> list[list[int]]:
        """The number at each offset of each queue, as producers were told."""
        return [[queue[offset] for offset in sorted(queue)] for queue in self._acknowledged]

    async def read(self, broker: RegentBroker) -> list[list[int]]:
        """The numbers in each queue, as a consumer gets them."""
        found: list[list[int]] = [[] for _ in range(QUEUES)]
        for queue, numbers in enumerate(found):
            while (
                answer := await self.call(broker, pull_request("T", queue, len(numbers)))
            ).code == 0:
                numbers += [int(message.fields.body) for message in decode_messages(answer.body)]
                assert int(answer.ext["nextBeginOffset"]) == len(numbers)
        return found

    # -- the copy

    def makers(self) -> list[int]:
        """The slave's processes, dead ones that nobody has waited for included."""
        pid = self.slave.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def maker_at_work(self) -> int:
        """So much is copied that the slave has a process for its entries, and that one makes them:
        it reads what was copied.
        """
        while not self.makers():
            self.valve.give(4 * MIB)
            await until(
                lambda: not self.valve.left or self.makers(),
                "more is copied, or there is a process for entries",
            )
        (maker,) = self.makers()
        steps = 0
        while steps < 2:  # while it loads it may read as much by chance
            await self.all_readable()
            await until(lambda: is_waiting(maker), "it has loaded and has nothing to do")
            before = read_bytes(maker)
            self.valve.give(2 * MIB)
            await self.all_readable()
            steps = steps + 1 if read_bytes(maker) - before >= MIB else 0
        return maker

    async def all_readable(self) -> int:
        """What was given is copied, and has its entries but for a short rest; gives the end of the
        slave's log.
        """
        await until(lambda: not self.valve.left, "it is passed on")
        status = await self.until(
            self.slave,
            lambda one: 0 <= one["log_end"] - one["dispatched_offset"] < PIECE_BYTES_MIN,
            "all is readable",
        )
        return int(status["log_end"])

    async def copy_but_the_last(self, end: int) -> None:
        """All but LAST_BYTES, with entries."""
        have = await self.all_readable()
        assert end - have > LAST_BYTES, "the copy was no long one"
        while end - have > LAST_BYTES:
            # Never so much that the slave has to wait for entries: it would give the process up if
            # that is slow.
            self.valve.give(min(LAG_BYTES_MAX // 2, end - have - LAST_BYTES + BODY_BYTES))
            have = await self.all_readable()


def is_waiting(pid: int) -> bool:
    """Neither at work nor kept from it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def read_bytes(pid: int) -> int:
    """How much a process has read so far."""
    return int(Path(f"/proc/{pid}/io").read_text().partition("rchar:")[2].split()[0])


@pytest.fixture
async def pair(
    tmp_path: Path, controller: ScriptedController, client: RemotingClient
) -> AsyncIterator[Pair]:
    """The slave has everything and is a member; its entries lag, since the process that makes them
    is stopped.
    """
    valve = Valve()
    async with valve.listening(lambda: made.master.settings["ha_listen"]) as address:
        made = Pair(tmp_path, controller, client, valve, address)
        try:
            made.master.start(wait=False)
            await made.until(
                made.master, lambda one: one["role"] == "MASTER", "the first broker leads"
            )
            for _ in range(COUNT // AT_ONCE):
                await made.send(made.master, AT_ONCE)
            yield made
        finally:
            made.end()


async def stopped_with_a_lag(pair: Pair) -> int:
    """The slave copies to the end and becomes a member while the process that makes its entries
    stands still; gives that process.
    """
    end = (await pair.until(pair.master, lambda one: True, "the master answers"))["log_end"]
    pair.slave.start(wait=False)
    maker = await pair.maker_at_work()
    await pair.copy_but_the_last(end)
    os.kill(maker, signal.SIGSTOP)
    pair.valve.give(1 << 40)
    await until(lambda: pair.controller.members == [1, 2], "the slave is a member")
    await pair.send(pair.master, QUEUES * 5)  # acknowledged by both
    status = await pair.until(pair.slave, lambda one: True, "the slave answers")
    assert status["role"] == "SLAVE" and pair.makers() == [maker]
    assert status["log_end"] - status["dispatched_offset"] > PIECE_BYTES_MIN, "entries lag"
    return maker


async def handed_over(pair: Pair) -> asyncio.Future[RemotingCommand]:
    """The controller has made the slave master; what the former one will answer. It gives up when
    the machine makes a step too slow.
    """
    deadline = time.monotonic() + WAIT_S
    while True:
        handing = asyncio.ensure_future(
            pair.call(pair.master, RemotingCommand.request(19012, {"targetBrokerId": "2"}))
        )
        await until(
            lambda handing=handing: pair.controller.master == 2 or handing.done(),
            "the controller was asked",
        )  # type: ignore[misc]
        if pair.controller.master == 2:
            return handing
        assert time.monotonic() < deadline, handing.result().remark


async def everything_is_there(pair: Pair) -> None:
    """At the slave that leads now, and queues go on without a gap."""
    await pair.send(pair.slave, QUEUES)
    assert await pair.read(pair.slave) == pair.acknowledged()


async def test_one_whose_master_is_killed_waits_no_longer_for_entries_that_do_not_come(
    pair: Pair,
) -> None:
    maker = await stopped_with_a_lag(pair)
    pair.master.kill()
    await pair.controller.elect(2, [2])
    await pair.until(pair.slave, lambda one: one["role"] == "MASTER", "it leads")
    await everything_is_there(pair)
    # by now it may have a new one
    assert maker not in pair.makers() and not children.is_alive(maker)


async def test_one_that_is_handed_the_mastership_takes_the_entries_that_come(pair: Pair) -> None:
    maker = await stopped_with_a_lag(pair)
    handing = await handed_over(pair)
    os.kill(maker, signal.SIGCONT)
    answer = await handing
    assert (answer.code, answer.ext.get("masterBrokerId")) == (0, "2") or IN_TIME in str(
        answer.remark
    ), answer.remark
    await pair.until(pair.slave, lambda one: one["role"] == "MASTER", "it leads")
    await everything_is_there(pair)
    assert all(children.is_alive(one) for one in pair.makers()), (
        "nobody is left that is dead and not waited for"
    )
    await asyncio.to_thread(pair.slave.stop)
    assert not children.is_alive(maker)
