"""Damaged files under three brokers on real sockets, and messages by key. The controller's part is
scripted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.process.scrubber import Scrubber
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.service.reading import repair
from brokers.store.log.records import decode_messages
from tests.support.brokers import (
    PATIENT,
    broker_config,
    call,
    pull_request,
    running_set,
    send_request,
    start_broker,
    until,
)
from tests.support.scripted_controller import ScriptedController

COUNT = 20


@pytest.fixture(autouse=True)
def patient_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a damaged message waits until it is repaired, however long this machine takes
    for it.
    """
    monkeypatch.setattr(repair, "WAIT_MS", 20_000)


@pytest.fixture
async def brokers(
    tmp_path: Path, controller: ScriptedController, client: RemotingClient
) -> AsyncIterator[list[BrokerProcess]]:
    """The first is master; all three hold COUNT messages of topic T."""
    configs = [
        broker_config(
            tmp_path / f"b{number}", [controller.address], min_in_sync_replicas=2, **PATIENT
        )
        for number in range(3)
    ]
    async with running_set(controller, configs) as made:
        for number in range(COUNT):
            assert (
                await call(client, made[0], send_request("T", b"%03d" % number, key=f"k{number}"))
            ).code == 0
        end = made[0].store.log_end
        await until(
            lambda: all(broker.store.dispatched_offset == end for broker in made), "all have all"
        )
        yield made


def place_of(broker: BrokerProcess, number: int) -> int:
    """Where the body of a message begins in the log's first file."""
    return broker.store.read_log(0, 1 << 20).index(b"%03d" % number)


def flip(broker: BrokerProcess, position: int) -> None:
    with (broker.config.store_dir / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(position)
        byte = log.read(1)[0]
        log.seek(position)
        log.write(bytes((byte ^ 1,)))


async def read_all(client: RemotingClient, broker: BrokerProcess) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < COUNT:
        pulled = await call(client, broker, pull_request("T", 0, len(bodies)))
        assert pulled.code == 0, pulled.remark
        bodies += [message.fields.body for message in decode_messages(pulled.body)]
        assert int(pulled.ext["nextBeginOffset"]) == len(bodies)
    return bodies


WANTED = [b"%03d" % number for number in range(COUNT)]


async def test_a_consumer_of_a_damaged_master_gets_every_message_in_order(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    master = brokers[0]
    for number in (0, 7, 8, COUNT - 1):
        flip(master, place_of(master, number))
    flip(master, place_of(master, 12) - 4)  # its body's length
    assert await read_all(client, master) == WANTED
    # The right bytes are served as soon as they are written, and count when they are durable.
    await until(lambda: not master.repairs.damaged, "all are repaired")
    assert (master.repairs.refused, master.repairs.repaired) == (5, 5)
    assert master.store.read_log(0, master.store.log_end) == brokers[1].store.read_log(
        0, master.store.log_end
    )


async def test_what_all_have_damaged_is_never_given_and_never_passed_over(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    position = place_of(brokers[0], 7)
    for broker in brokers:
        flip(broker, position)
    answer = await call(client, brokers[0], pull_request("T", 0, 0))
    assert (answer.code, answer.ext["nextBeginOffset"], len(decode_messages(answer.body))) == (
        0,
        "7",
        7,
    )
    for _ in range(3):
        refused = await call(client, brokers[0], pull_request("T", 0, 7))
        assert refused.code == 1 and not refused.body and "damaged" in str(refused.remark)
    rest = await call(client, brokers[0], pull_request("T", 0, 8))
    assert len(decode_messages(rest.body)) == COUNT - 8


async def test_a_slaves_damage_is_found_without_a_reader_and_the_master_helps(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    slave = brokers[1]
    flip(slave, place_of(slave, 3))
    flip(slave, place_of(slave, 9) - 85)  # the length of the record
    await Scrubber(slave.store, slave.repairs, 1 << 30, 0).look_through()
    assert (slave.repairs.repaired, slave.repairs.damaged) == (2, 0)
    end = slave.store.log_end
    assert slave.store.read_log(0, end) == brokers[0].store.read_log(0, end)


async def test_a_message_is_found_by_its_key_at_every_replica_and_after_a_restart(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    ext = {
        "topic": "T",
        "key": "k5",
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(1 << 50),
    }
    query = RemotingCommand.request(12, ext)
    await brokers[2].stop("test")
    await until(lambda: controller.members == [1, 2], "the slave is gone")
    again = brokers[2] = await start_broker(brokers[2].config)
    await until(lambda: controller.members == [1, 2, 3], "the slave came back")
    # A slave answers with what it was told to be confirmed, which it may hear a moment after it has
    # joined.
    await until(lambda: again.store.dispatched_offset == brokers[0].store.log_end, "it has all")
    for broker in brokers:
        answer = await call(client, broker, query)
        assert [message.fields.body for message in decode_messages(answer.body)] == [b"005"]
        (found,) = decode_messages(answer.body)
        viewed = await call(
            client, broker, RemotingCommand.request(33, {"offset": str(found.physical_offset)})
        )
        assert viewed.body == answer.body
