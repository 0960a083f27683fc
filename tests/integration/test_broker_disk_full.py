"""Brokers on disks that fill up: what clients see, what stays, that it passes by itself. The
controller's part is scripted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.store.log.records import decode_messages
from tests.support.brokers import (
    PATIENT,
    broker_config,
    call,
    pull_request,
    running_set,
    send_request,
    until,
)
from tests.support.scripted_controller import ScriptedController
from tests.support.small_disk import SmallDisk, small_disk

MESSAGE = bytes(100_000)


@pytest.fixture
async def stage(
    tmp_path: Path, controller: ScriptedController
) -> AsyncIterator[tuple[list[BrokerProcess], list[SmallDisk]]]:
    """Three brokers, each with a disk of its own."""
    with contextlib.ExitStack() as mounts:
        disks = [
            mounts.enter_context(small_disk(tmp_path / f"disk{number}", 48 << 20))
            for number in range(3)
        ]
        # a slave without room is to leave the set, in a while
        timers = PATIENT | {"ack_wait_shrink_ms": 3_000}
        configs = [
            broker_config(
                disk.root / "store", [controller.address], min_in_sync_replicas=2, **timers
            )
            for disk in disks
        ]
        async with running_set(controller, configs) as brokers:
            yield brokers, disks


async def send_until(client: RemotingClient, broker: BrokerProcess, code: int) -> int:
    """Sends until the answer is `code`; how many were acknowledged before. Anything else but
    success fails.
    """
    for sent in range(1000):
        answer = await call(client, broker, send_request("T", MESSAGE))
        if answer.code == code:
            return sent
        assert answer.code == 0
    raise AssertionError(f"code {code} never came")


async def readable(client: RemotingClient, broker: BrokerProcess) -> int:
    count = 0
    while True:
        pulled = await call(client, broker, pull_request("T", 0, count))
        if pulled.code != 0:
            return count
        count += len(decode_messages(pulled.body))


async def test_a_master_without_room_refuses_serves_reads_and_goes_on_when_there_is_room(
    stage: tuple[list[BrokerProcess], list[SmallDisk]],
    client: RemotingClient,
    controller: ScriptedController,
) -> None:
    brokers, disks = stage
    assert (await call(client, brokers[0], send_request("T", MESSAGE))).code == 0
    disks[0].fill()
    acknowledged = 1 + await send_until(client, brokers[0], 14)
    refused = await asyncio.gather(
        *(call(client, brokers[0], send_request("T", MESSAGE)) for _ in range(20))
    )
    assert {answer.code for answer in refused} == {14}
    assert all("the broker's disk is full [CL:" in str(answer.remark) for answer in refused)
    assert await readable(client, brokers[0]) == acknowledged
    assert brokers[0].roles.serving and controller.members == [1, 2, 3]
    disks[0].free()
    tries = 0
    while (await call(client, brokers[0], send_request("T", MESSAGE))).code != 0:
        tries += 1
        assert tries < 10_000
    assert brokers[0].roles.current.master_epoch == 1 and brokers[0].replica.clean()
    end = brokers[0].store.log_end
    await until(
        lambda: all(broker.store.log_end == end for broker in brokers), "the slaves have all"
    )
    assert await readable(client, brokers[0]) == acknowledged + 1
    assert len({broker.store.read_log(0, 1 << 20) for broker in brokers}) == 1


async def test_a_slave_without_room_leaves_the_set_and_joins_it_again(
    stage: tuple[list[BrokerProcess], list[SmallDisk]],
    client: RemotingClient,
    controller: ScriptedController,
) -> None:
    brokers, disks = stage
    assert (await call(client, brokers[0], send_request("T", MESSAGE))).code == 0
    disks[2].fill()
    for _ in range(25):  # into the third file of the log
        assert (await call(client, brokers[0], send_request("T", MESSAGE))).code in (0, 12)
    await until(lambda: controller.members == [1, 2], "the full one left the set")
    assert brokers[2].roles.role == "SLAVE" and brokers[2].replica.clean()
    assert brokers[2].store.log_end < brokers[0].store.log_end
    disks[2].free()
    await until(lambda: controller.members == [1, 2, 3], "it is a member again")
    assert brokers[2].store.log_end == brokers[0].store.log_end and brokers[2].replica.clean()


async def test_a_full_disk_does_not_keep_a_slave_from_leading(
    stage: tuple[list[BrokerProcess], list[SmallDisk]],
    client: RemotingClient,
    controller: ScriptedController,
) -> None:
    """It has all that was acknowledged; its mastership begins with an entry that must find room."""
    brokers, disks = stage
    assert (await call(client, brokers[0], send_request("T", MESSAGE))).code == 0
    disks[1].fill()
    await brokers[0].stop("test")
    await controller.elect(2, [2, 3])
    await until(lambda: brokers[1].roles.serving, "the full one leads")
    more = await send_until(client, brokers[1], 14)  # its file of the log has room
    assert more > 0
    disks[1].free()
    await until(lambda: brokers[1].store.writable() is None, "the room is noticed")
    assert (await call(client, brokers[1], send_request("T", MESSAGE))).code == 0
    await until(
        lambda: brokers[1].store.queue_bounds("T", 0)[1] == more + 2,
        "the queue, which found no room either, grows",
    )
    assert await readable(client, brokers[1]) == more + 2
