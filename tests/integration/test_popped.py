"""Pop consumption on three real brokers while the mastership moves: what is not acknowledged comes
back, what is acknowledged does not, and old handles are good.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.service.popping.handles import Handle
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.support.brokers import call, patient_set, send_request, until
from tests.support.scripted_controller import ScriptedController

MESSAGES = 12
INVISIBLE_MS = 8_000


@pytest.fixture
async def brokers(
    tmp_path: Path, controller: ScriptedController
) -> AsyncIterator[list[BrokerProcess]]:
    async with patient_set(controller, tmp_path, 3) as made:
        yield made


async def pop(client: RemotingClient, broker: BrokerProcess, **changes: object) -> list[Gotten]:
    answer = await call(client, broker, pop_request(invisibleTime=INVISIBLE_MS, **changes))
    return [] if answer.code == 210 else gotten(answer, broker.config.broker_name)


async def ack(client: RemotingClient, broker: BrokerProcess, handle: Handle) -> int:
    return (await call(client, broker, ack_request(handle))).code


async def test_82_what_is_out_at_a_change_of_master_comes_back_and_what_is_done_does_not(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    for number in range(MESSAGES):
        request = send_request("T", b"%d" % number, number % 4, key=f"K{number}")
        assert (await call(client, brokers[0], request)).code == 0
    got = await pop(client, brokers[1])  # a slave passes it on
    assert len(got) == MESSAGES
    for one in got[:4]:
        assert await ack(client, brokers[0], one.handle) == 0
    places = {queue: brokers[0].tables.offsets.query("g", "T", queue) for queue in range(4)}
    await until(
        lambda: all(brokers[1].tables.offsets.query("g", "T", q) == p for q, p in places.items()),
        "the slave has the group's places",
    )
    assert brokers[1].tables.groups.get("g") is not None
    await controller.elect(2, [1, 2, 3])
    await until(lambda: brokers[1].roles.serving and not brokers[0].roles.serving, "roles changed")
    for one in got[4:8]:
        assert await ack(client, brokers[0], one.handle) == 0  # the old master passes it on
    left = {one.body for one in got[8:]}
    back: list[Gotten] = []

    async def all_are_back() -> bool:
        back.extend(await pop(client, brokers[1], pollTime=500))
        return {one.body for one in back} >= left

    while not await all_are_back():
        continue
    assert {one.body for one in back} == left
    for one in back:
        assert one.handle.pop_ms >= got[0].handle.visible_ms
        assert one.record.fields.reconsume_times == 1
        assert await ack(client, brokers[1], one.handle) == 0


async def test_77_what_is_out_in_order_stays_out_under_the_next_master(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    for number in range(3):
        assert (await call(client, brokers[0], send_request("T", b"%d" % number))).code == 0
    got = await pop(client, brokers[0], order="true", queueId=0)
    assert [one.body for one in got] == [b"0", b"1", b"2"]
    assert await ack(client, brokers[0], got[0].handle) == 0
    await until(
        lambda: (
            brokers[1].tables.kept.table(19017) == brokers[0].service.popping.terms.ordered.table()
            and brokers[1].tables.offsets.query("g", "T", 0) == 1
        ),
        "the slave knows what is out",
    )
    await controller.elect(2, [1, 2, 3])
    await until(lambda: brokers[1].roles.serving, "roles changed")
    assert await pop(client, brokers[1], order="true", queueId=0) == []
    for one in got[1:]:
        assert await ack(client, brokers[1], one.handle) == 0
    assert brokers[1].tables.offsets.query("g", "T", 0) == 3
