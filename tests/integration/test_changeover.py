"""A set with fixed ids joins controllers and goes back, under a load of sends: whole brokers, each
with its lives one after the other.

The controller's part is scripted; `test_changeover_set` has real ones.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from brokers.changeover.order import Kind, Lines, Order, Record
from brokers.process.changeover.folder import read_record, write_record
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.fields import FORWARDED_FOR
from brokers.reporting.event_reporter import EventReporter
from brokers.service.role import forward
from brokers.store.log.records import decode_messages
from infra.workload.client import WorkloadClient
from infra.workload.ledger import read_ledger
from infra.workload.producer import Producer
from tests.support.brokers import pull_request, send_request
from tests.support.moved_set import ACTING, CALL_MS, MovedSet, orders, until
from tests.support.noted_sends import NotedLedger, stored
from tests.support.scripted_controller import ScriptedController

pytestmark = pytest.mark.timeout(900)  # a busy machine lets three brokers begin anew in its time
QUEUES, RATE = 4, 100.0


@pytest.fixture(params=[{}, ACTING], ids=["plain", "acting"])
async def moved(
    tmp_path: Path, name_server: str, client: RemotingClient, request: pytest.FixtureRequest
) -> AsyncIterator[MovedSet]:
    made = MovedSet(tmp_path, name_server, client, **request.param)
    for one in made.brokers:
        one.begin()
    await until(lambda: made.stands("fixed"), "the set stands")
    await until(made.linked, "both slaves are linked")
    yield made
    for one in made.brokers:
        await one.end()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, dict[str, Any]]]:
    """Who reported that it has another place, with what."""
    found: list[tuple[int, dict[str, Any]]] = []
    real = EventReporter.report

    def report(reporter: EventReporter, kind: str, fields: dict[str, Any]) -> None:
        if kind == "PlaceChanged":
            found.append((reporter.broker_id, dict(fields)))
        real(reporter, kind, fields)

    monkeypatch.setattr(EventReporter, "report", report)
    return found


def places(told: list[tuple[int, dict[str, Any]]], kind: str) -> list[int]:
    return sorted(broker_id for broker_id, fields in told if fields["kind"] == kind)


async def test_what_a_replica_has_passed_on_is_answered_behind_the_end_of_its_life(
    moved: MovedSet,
    controller: ScriptedController,
    client: RemotingClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller.epoch = controller.set_epoch = 1
    leader = await moved.leader()
    replica = next(one.address for one in moved.brokers if one.address != leader)
    assert (await client.call(leader, send_request("Q", b"first"), CALL_MS)).code == 0
    passed, over, real = asyncio.Event(), asyncio.Event(), Dispatcher.__call__

    async def later(self: Dispatcher, connection: Connection, request: RemotingCommand) -> Any:
        passed.set()
        await over.wait()
        answer = real(self, connection, request)
        return await answer if inspect.isawaitable(answer) else answer

    def handle(self: Dispatcher, connection: Connection, request: RemotingCommand) -> Any:
        held = request.body == b"passed on" and FORWARDED_FOR in request.ext
        return (later if held else real)(self, connection, request)

    counted = forward.Forwarder._counted

    async def patient(
        self: Any, connection: Any, request: Any, serve: Any, _: int, *to: Any
    ) -> Any:
        """The change takes what it takes on a busy machine: longer than a send may be, too."""
        return await counted(self, connection, request, serve, CALL_MS, *to)

    async def sent() -> bool:
        """A slave that acts for a moment refuses."""
        if not sending or (sending[-1].done() and sending[-1].result().code == 14):
            request = send_request("Q", b"passed on")
            sending.append(asyncio.ensure_future(client.call(replica, request, CALL_MS)))
        return passed.is_set()

    monkeypatch.setattr(Dispatcher, "__call__", handle)
    monkeypatch.setattr(forward, "CALL_TIMEOUT_MS", CALL_MS)
    monkeypatch.setattr(forward.Forwarder, "_counted", patient)
    sending: list[asyncio.Future[RemotingCommand]] = []
    await until(sent, "a slave passes on")
    adopting = orders(moved, leader, Kind.CONTROLLERS, (controller.address,))
    assert (await moved.begin(adopting))["left"] == ""
    try:
        await until(lambda: moved.stands("controllers"), "the set is with controllers")
    finally:
        over.set()
    assert (await sending[-1]).code == 0


async def test_it_joins_controllers_and_goes_back_and_no_send_fails(
    moved: MovedSet,
    controller: ScriptedController,
    client: RemotingClient,
    name_server: str,
    tmp_path: Path,
    told: list[tuple[int, dict[str, Any]]],
) -> None:
    controller.epoch = controller.set_epoch = 1  # as the set was recorded before
    ledger, stop = NotedLedger(tmp_path / "ledger"), asyncio.Event()
    async with WorkloadClient(
        [name_server], "T", "pg", queues=QUEUES, timeout_ms=CALL_MS
    ) as workload:
        producer = Producer(workload, ledger, QUEUES, RATE, 256)
        running = asyncio.ensure_future(producer.run(stop))

        async def goes_on() -> None:
            done = producer.done
            await until(lambda: producer.done > done + 50, "the load goes on")

        await goes_on()
        first = await moved.leader()
        assert (await client.call(first, send_request("Q", b"only"), CALL_MS)).code == 0
        waits = pull_request("Q", 0, 1, suspend_ms=CALL_MS)
        pulling = asyncio.ensure_future(client.call(first, waits, CALL_MS))
        adopting = orders(moved, first, Kind.CONTROLLERS, (controller.address,))
        assert (await moved.begin(adopting))["left"] == ""
        await until(lambda: moved.stands("controllers"), "the set is with controllers")
        await until(lambda: controller.members == [1, 2, 3], "all are members")
        assert not ledger.failures(producer), producer.figures()
        assert (await pulling).code in (19, 20, 21), "a pull that waited is answered"
        await goes_on()

        led = await moved.leader()
        releasing = orders(moved, led, Kind.FIXED, ())
        assert (await moved.begin(releasing))["left"] == ""
        await until(lambda: moved.stands("fixed"), "the set has fixed ids again")
        assert await moved.leader() == led
        await until(moved.linked, "both slaves are linked")
        await goes_on()
        assert not ledger.failures(producer), producer.figures()
        stop.set()
        await running
    found = await stored(client, led, "T", QUEUES)
    acknowledged = read_ledger(tmp_path / "ledger").acknowledged
    assert len(acknowledged) > 150 and not set(acknowledged) - found
    assert places(told, "controllers") == [1, 2, 3] and places(told, "fixed") == [0, 1, 2]
    assert {fields["leader"] for _, fields in told} == {first, led}
    for one in moved.brokers:
        record = read_record(one.config.store_dir)
        assert record is not None and record.settled
        assert not (one.config.store_dir / "epochFileCheckpoint").exists()
    assert await moved.brokers[0].end() == 0
    moved.brokers[0].begin()
    await until(lambda: moved.stands("fixed"), "the old master's old file brings it back as it is")
    assert len(told) == 6, "each replica tells of a changeover once, whatever starts follow"
    assert await moved.leader() == led


async def test_a_master_that_died_when_it_had_given_up_is_followed_when_the_others_are_told(
    moved: MovedSet, controller: ScriptedController, client: RemotingClient
) -> None:
    controller.epoch = controller.set_epoch = 1
    master = moved.brokers[0]
    assert (await client.call(master.address, send_request("T", b"one"), CALL_MS)).code == 0
    adopting = orders(moved, master.address, Kind.CONTROLLERS, (controller.address,))
    assert await master.end() == 0
    record = Record(adopting[0], Lines(0), orders=tuple(adopting))
    write_record(master.config.store_dir, record)
    for order in adopting[1:]:
        request = RemotingCommand.request(
            19018, {"word": "follow"}, fastjson.dumps(order.document())
        )
        refused = await client.call(order.address, request, CALL_MS)
        assert refused.code == 1, "the master does not say that it gave up"
    master.begin()
    await until(lambda: controller.master == 1, "it is the controllers', by its record")
    for order in adopting[1:]:

        async def followed(order: Order = order) -> bool:
            return await moved.ask(order.address, "follow", order.document()) is not None

        await until(followed, "the others follow")
    await until(lambda: moved.stands("controllers"), "the set is with controllers")
    await until(lambda: controller.members == [1, 2, 3], "all are members")
    assert (await client.call(master.address, send_request("T", b"two"), CALL_MS)).code == 0
    answer = await client.call(master.address, pull_request("T", 0, 0), CALL_MS)
    assert [one.fields.body for one in decode_messages(answer.body)] == [b"one", b"two"]


async def test_a_replica_that_cannot_leave_the_controllers_keeps_all_there(
    moved: MovedSet, controller: ScriptedController, client: RemotingClient
) -> None:
    controller.epoch = controller.set_epoch = 1
    first = moved.brokers[0].address
    adopting = orders(moved, first, Kind.CONTROLLERS, (controller.address,))
    await moved.begin(adopting)
    await until(lambda: moved.stands("controllers"), "the set is with controllers")
    await until(lambda: controller.members == [1, 2, 3], "all are members")
    led = await moved.leader()
    releasing = orders(moved, led, Kind.FIXED, ())
    stuck = next(one for one in moved.brokers if one.address == releasing[2].address)
    record = stuck.config.store_dir / "placeInSet"
    record.rename(record.with_name("kept"))
    record.mkdir()  # nothing can be written there
    request = RemotingCommand.request(
        19018, {"word": "begin"}, fastjson.dumps([one.document() for one in releasing])
    )

    async def stays() -> bool:
        refused = await client.call(led, request, CALL_MS)
        assert refused.code == 1
        return f"did not follow: {stuck.address}" in str(refused.remark)

    await until(stays, "one cannot follow")
    assert await moved.leader() == led, "it serves on"
    record.rmdir()
    again = orders(moved, led, Kind.FIXED, (), "second")
    await moved.begin(again)
    await until(lambda: moved.stands("fixed"), "the set has fixed ids again")
    await until(moved.linked, "both slaves are linked")
    assert (await client.call(led, send_request("T", b"one"), CALL_MS)).code == 0
