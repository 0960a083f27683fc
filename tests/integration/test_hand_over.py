"""Planned hand-overs of a set of three on real sockets: under load no send fails and none is stored
twice.

The controller's part is scripted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import decode_messages
from infra.workload.client import WorkloadClient
from infra.workload.ledger import Ledger, read_ledger
from infra.workload.message import sequence_of
from infra.workload.producer import Producer
from tests.support.brokers import (
    PATIENT,
    broker_config,
    call,
    hand_overs_take_their_time,
    pull_request,
    running_set,
    send_request,
    until,
)
from tests.support.scripted_controller import ScriptedController

QUEUES = 4
HAND_OVERS = 5
CALL_MS = 30_000
"""A producer whose patience ends before its answer comes does not know what became of its send."""


@pytest.fixture(autouse=True)
def unhurried() -> Iterator[None]:
    with hand_overs_take_their_time():
        yield


@pytest.fixture
async def brokers(
    tmp_path: Path, controller: ScriptedController, name_server: str
) -> AsyncIterator[list[BrokerProcess]]:
    # Slaves copy tables by themselves only when they begin to follow.
    configs = [
        broker_config(
            tmp_path / f"b{number}",
            [controller.address],
            [name_server],
            min_in_sync_replicas=2,
            metadata_sync_ms=60_000,
            **PATIENT,
        )
        for number in range(3)
    ]
    async with running_set(controller, configs) as made:
        yield made


def hand_over(target: int | None = None) -> RemotingCommand:
    return RemotingCommand.request(19012, {} if target is None else {"targetBrokerId": str(target)})


def commit_request(group: str, offset: int) -> RemotingCommand:
    where = {"consumerGroup": group, "topic": "T", "queueId": "0"}
    return RemotingCommand.request(15, where | {"commitOffset": str(offset)})


async def ask_and_hold(
    client: RemotingClient,
    master: BrokerProcess,
    monkeypatch: pytest.MonkeyPatch,
    target: int | None = None,
) -> asyncio.Future[RemotingCommand]:
    """A hand-over that does not get beyond holding writes until the patch is taken back."""
    monkeypatch.setattr(master.hand_over, "_unfinished", lambda: 1)
    asking = asyncio.ensure_future(call(client, master, hand_over(target)))
    await until(lambda: master.roles.draining, "writes are held")
    return asking


async def everything(client: RemotingClient, master: BrokerProcess, topic: str) -> list[bytes]:
    bodies: list[bytes] = []
    for queue in range(QUEUES):
        offset = 0
        while (answer := await call(client, master, pull_request(topic, queue, offset))).code == 0:
            bodies += [message.fields.body for message in decode_messages(answer.body)]
            offset = int(answer.ext["nextBeginOffset"])
    return bodies


async def test_no_send_fails_and_none_is_stored_twice(
    brokers: list[BrokerProcess],
    client: RemotingClient,
    controller: ScriptedController,
    name_server: str,
    tmp_path: Path,
) -> None:
    ledger, stop = Ledger(tmp_path / "ledger"), asyncio.Event()
    async with WorkloadClient(
        [name_server], "T", "pg", queues=QUEUES, timeout_ms=CALL_MS
    ) as workload:
        producer = Producer(workload, ledger, QUEUES, 300.0, 256)
        running = asyncio.ensure_future(producer.run(stop))
        await until(lambda: producer.done > 50, "the load runs")
        for _, target in zip(range(HAND_OVERS), itertools.cycle((2, 3, 1)), strict=False):
            answer = await call(client, brokers[controller.master - 1], hand_over(target))  # type: ignore[operator]
            assert (answer.code, answer.ext.get("masterBrokerId")) == (0, str(target)), (
                answer.remark
            )
            assert (
                int(answer.ext["masterEpoch"]) == controller.epoch and controller.master == target
            )
            done = producer.done
            await until(lambda done=done: producer.done > done + 50, "the load goes on")  # type: ignore[misc]
            await until(lambda: controller.members == [1, 2, 3], "all are members again")
            master = brokers[target - 1]
            await until(
                lambda master=master: master.replica.core.sync_state_set == (1, 2, 3),
                "the master knows",
            )  # type: ignore[misc]
            await until(
                lambda master=master: len(master.replica.ha_status().slaves) == 2,
                "both are linked to it",
            )  # type: ignore[misc]
        stop.set()
        await running
    ledger.close()
    kept = read_ledger(tmp_path / "ledger")
    assert kept.unknown_calls == 0 and kept.calls == len(kept.acknowledged) > HAND_OVERS * 50
    stored = Counter(
        sequence_of(body) for body in await everything(client, brokers[controller.master - 1], "T")
    )  # type: ignore[operator]
    assert stored == Counter(dict.fromkeys(kept.acknowledged, 1))


async def test_sends_through_a_slave_go_on_and_consumer_offsets_go_along(
    brokers: list[BrokerProcess], client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    await call(client, brokers[0], commit_request("early", 1))
    asking = await ask_and_hold(client, brokers[0], monkeypatch)
    commit = asyncio.ensure_future(call(client, brokers[0], commit_request("late", 1)))
    sends = [
        asyncio.ensure_future(call(client, broker, send_request("T", b"held")))
        for broker in brokers
        for _ in range(3)
    ]
    await until(lambda: brokers[0].forwarder.writing == 10, "all of them wait at the master")
    monkeypatch.undo()
    assert (await asking).ext["masterBrokerId"] == "2"
    assert [answer.code for answer in await asyncio.gather(commit, *sends)] == [0] * 10
    assert brokers[1].roles.serving
    assert [brokers[1].tables.offsets.query(group, "T", 0) for group in ("early", "late")] == [1, 1]
    assert await everything(client, brokers[1], "T") == [b"first"] + [b"held"] * 9


async def test_without_a_member_that_is_caught_up_nothing_is_handed_over(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    assert (await call(client, brokers[0], hand_over(9))).code == 1
    assert (await call(client, brokers[1], hand_over())).code == 1
    await brokers[1].stop("test")
    await brokers[2].stop("test")
    await until(lambda: brokers[0].status().write_refusal, "the master notices")
    answer = await call(client, brokers[0], hand_over())
    assert (answer.code, answer.remark) == (1, "no other member is in sync")
    assert 1002 not in [
        request.code for request in controller.heard if request.ext.get("designateElect") == "true"
    ]


async def test_a_controller_that_refuses_leaves_the_master_where_it_is(
    brokers: list[BrokerProcess],
    client: RemotingClient,
    controller: ScriptedController,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller.refuse[1002] = 2012
    asking = await ask_and_hold(client, brokers[0], monkeypatch)
    held = asyncio.ensure_future(call(client, brokers[0], send_request("T", b"held")))
    await until(lambda: brokers[0].forwarder.writing, "a send is held")
    monkeypatch.undo()
    assert "2012" in str((await asking).remark)
    assert (await held).code == 0 and brokers[0].roles.serving and controller.epoch == 1


async def test_a_target_that_dies_while_writes_are_held_leaves_the_master_where_it_is(
    brokers: list[BrokerProcess],
    client: RemotingClient,
    controller: ScriptedController,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    asking = await ask_and_hold(client, brokers[0], monkeypatch, 3)
    held = asyncio.ensure_future(call(client, brokers[0], send_request("T", b"held")))
    await until(lambda: brokers[0].forwarder.writing, "a send is held")
    await brokers[2].stop("test")
    answer = await asking
    assert answer.code == 1 and "not handed over to replica 3" in str(answer.remark)
    assert (await held).code == 0 and brokers[0].roles.serving and controller.epoch == 1


async def test_a_master_that_is_asked_to_stop_hands_over_first(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    leaving = asyncio.ensure_future(brokers[0].hand_over.before_stop())
    await until(lambda: controller.master == 2, "another one was asked for")
    # Clients with an old route are served until they are quiet.
    assert (await call(client, brokers[0], send_request("T", b"second"))).code == 0
    assert not leaving.done()
    await leaving
    assert brokers[1].roles.serving and brokers[0].roles.role == "SLAVE"
    await brokers[0].hand_over.before_stop()  # a slave just stops
    assert controller.master == 2
