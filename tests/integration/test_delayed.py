"""Delayed messages and retries on three real brokers, while the mastership moves: none is lost,
none comes early.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.store.log.properties import SCHEDULE_TOPIC
from brokers.store.log.records import StoredMessage, decode_messages
from tests.support.brokers import call, patient_set, send_request, until
from tests.support.scripted_controller import ScriptedController

MESSAGES = 40


@pytest.fixture
async def brokers(
    tmp_path: Path, controller: ScriptedController
) -> AsyncIterator[list[BrokerProcess]]:
    async with patient_set(controller, tmp_path, 3) as made:
        yield made


def delayed(number: int, level: int) -> RemotingCommand:
    request = send_request("T", b"%d" % number, number % 4)
    request.ext["i"] += f"DELAY\x01{level}\x02"
    return request


def records(broker: BrokerProcess) -> list[StoredMessage]:
    return decode_messages(broker.store.read_log(0, broker.store.log_end))


def bodies(broker: BrokerProcess) -> set[bytes]:
    return {each.fields.body for each in records(broker) if each.fields.topic == "T"}


async def test_what_was_delayed_comes_through_two_changes_of_master(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    for number in range(MESSAGES):
        answer = await call(client, brokers[0], delayed(number, 1 + number % 2))
        assert answer.code == 0 and answer.ext["queueId"] == str(number % 4)
    wanted = {b"%d" % number for number in range(MESSAGES)}
    await until(lambda: len(bodies(brokers[0])) >= 5, "some were delivered")
    await controller.elect(2, [1, 2, 3])
    await until(lambda: brokers[1].roles.serving and not brokers[0].roles.serving, "roles changed")
    await until(lambda: len(bodies(brokers[1])) >= MESSAGES // 2 + 2, "more were delivered")
    await controller.elect(3, [1, 2, 3])
    await until(lambda: brokers[2].roles.serving, "roles changed again")
    await until(lambda: bodies(brokers[2]) == wanted, "all were delivered")
    waiting = {
        each.fields.body: each
        for each in records(brokers[2])
        if each.fields.topic == SCHEDULE_TOPIC
    }
    for copy in records(brokers[2]):
        if copy.fields.topic == "T":
            first = waiting[copy.fields.body]
            level = 1 + first.fields.queue_id
            assert copy.store_ms - first.store_ms >= {1: 1_000, 2: 5_000}[level]
            assert copy.fields.queue_id == int(copy.fields.body) % 4


async def test_the_places_of_deliveries_are_on_the_members_soon(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    for number in range(8):
        assert (await call(client, brokers[0], delayed(number, 1))).code == 0
    for broker in brokers:
        await until(
            lambda broker=broker: broker.tables.kept.table(45) == {"1": 8},  # type: ignore[misc]
            "every replica knows what was delivered for good",
        )
    await until(lambda: len({broker.store.log_end for broker in brokers}) == 1, "logs are equal")


async def test_what_a_consumer_sends_back_to_a_slave_comes_again(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"failed"))).code == 0
    (failed,) = records(brokers[0])
    ext = {"offset": str(failed.physical_offset), "group": "cg", "delayLevel": "1"}
    answer = await call(client, brokers[1], RemotingCommand.request(36, ext))
    assert answer.code == 0
    # design S10: the members knew the retry topic before that was answered
    assert all(broker.tables.topics.get("%RETRY%cg") is not None for broker in brokers)
    await until(
        lambda: any(each.fields.topic == "%RETRY%cg" for each in records(brokers[0])),
        "it comes again",
    )
