"""Three brokers on real sockets: replication, forwarding, a change of master. The controller's part
is scripted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.process.config import BrokerConfig
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.store.files.errors import LogError
from brokers.store.log.records import decode_messages
from tests.support.brokers import (
    PATIENT,
    broker_config,
    call,
    free_port,
    patient_set,
    pull_request,
    running_set,
    send_request,
    start_broker,
    until,
)
from tests.support.scripted_controller import ScriptedController


@pytest.fixture
async def brokers(
    tmp_path: Path, controller: ScriptedController
) -> AsyncIterator[list[BrokerProcess]]:
    async with patient_set(controller, tmp_path, 3) as made:
        yield made


async def test_a_message_is_acknowledged_when_every_member_has_it(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    answer = await call(client, brokers[0], send_request("T", b"hello"))
    assert answer.code == 0
    assert [broker.store.log_end for broker in brokers] == [brokers[0].store.log_end] * 3
    # Design S10: every member knew the topic before its first message was acknowledged.
    assert all(broker.tables.topics.get("T") is not None for broker in brokers)


async def test_a_slave_passes_sends_and_reads_on_to_its_master(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    answer = await call(client, brokers[1], send_request("T", b"hello"))
    assert answer.code == 0 and answer.ext["queueOffset"] == "0"
    pulled = await call(client, brokers[2], pull_request("T", 0, 0))
    assert decode_messages(pulled.body)[0].fields.body == b"hello"
    assert brokers[1].forwarder.forwarded == 1
    where = {"consumerGroup": "cg", "topic": "T", "queueId": "0"}
    await call(client, brokers[1], RemotingCommand.request(15, where | {"commitOffset": "1"}))
    assert brokers[0].tables.offsets.query("cg", "T", 0) == 1
    await until(
        lambda: brokers[2].tables.offsets.query("cg", "T", 0) == 1, "slaves copy consumer offsets"
    )


async def test_the_next_master_goes_on_and_the_old_one_forwards(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    for number in range(20):
        assert (await call(client, brokers[0], send_request("T", b"%d" % number))).code == 0
    await controller.elect(2, [1, 2, 3])
    await until(lambda: brokers[1].roles.serving and not brokers[0].roles.serving, "roles changed")
    answers = [
        await call(client, brokers[0], send_request("T", b"%d" % number))
        for number in range(20, 40)
    ]
    assert [answer.code for answer in answers] == [0] * 20 and answers[0].ext["queueOffset"] == "20"
    bodies: list[bytes] = []
    while len(bodies) < 40:
        pulled = await call(client, brokers[1], pull_request("T", 0, len(bodies), suspend_ms=5_000))
        bodies += [message.fields.body for message in decode_messages(pulled.body)]
    assert bodies == [b"%d" % number for number in range(40)]
    ends = {broker.store.log_end for broker in brokers}
    assert len(ends) == 1
    end = ends.pop()
    logs = [broker.store.read_log(0, end) for broker in brokers]
    assert logs[0] == logs[1] == logs[2]


async def test_sends_during_an_election_are_held_and_answered(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    await brokers[0].stop("test")
    held = [
        asyncio.ensure_future(call(client, brokers[1], send_request("T", b"held")))
        for _ in range(5)
    ]
    await until(lambda: brokers[1].forwarder.waiting > 0, "sends are held")
    await controller.elect(3, [2, 3])
    assert [answer.code for answer in await asyncio.gather(*held)] == [0] * 5
    status = fastjson.loads((await call(client, brokers[2], RemotingCommand.request(19002))).body)
    assert isinstance(status, dict) and status["role"] == "MASTER" and status["master_epoch"] == 2


async def test_a_killed_slave_leaves_the_set_and_writes_go_on(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    await brokers[2].stop("test")
    assert (await call(client, brokers[0], send_request("T", b"second"))).code == 0
    await until(lambda: controller.members == [1, 2], "the set shrank")
    again = await start_broker(brokers[2].config)
    brokers.append(again)
    await until(lambda: controller.members == [1, 2, 3], "the slave came back")
    assert again.store.log_end == brokers[0].store.log_end


async def test_without_enough_members_nothing_is_written(
    brokers: list[BrokerProcess], client: RemotingClient
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    await brokers[1].stop("test")
    await brokers[2].stop("test")
    await until(lambda: brokers[0].status().write_refusal, "the master notices")
    end = brokers[0].store.log_end
    answers = [await call(client, brokers[0], send_request(topic, b"x")) for topic in ("T", "New")]
    assert [(answer.code, answer.remark) for answer in answers] == [
        (1, "in-sync replicas not enough")
    ] * 2
    assert brokers[0].store.log_end == end and brokers[0].tables.topics.get("New") is None


async def test_a_send_that_does_not_wait_is_read_by_nobody_until_the_members_have_it(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    for slave in brokers[1:]:
        await slave.stop("test")
    await until(lambda: brokers[0].status().write_refusal, "the master notices")
    request = send_request("T", b"hasty")
    request.ext["i"] = request.ext["i"].replace("WAIT\x01true", "WAIT\x01false")
    answer = await call(client, brokers[0], request)
    assert (answer.code, answer.ext["queueOffset"]) == (0, "1")
    assert brokers[0].store.log_end > brokers[0].status().confirm_offset
    assert (await call(client, brokers[0], pull_request("T", 0, 1))).code == 19
    brokers[1] = await start_broker(brokers[1].config)
    await until(
        lambda: brokers[0].store.log_end == brokers[0].status().confirm_offset,
        "the members have it",
    )
    pulled = await call(client, brokers[0], pull_request("T", 0, 1))
    assert decode_messages(pulled.body)[0].fields.body == b"hasty"


async def test_a_master_whose_disk_fails_gives_the_mastership_up(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0
    brokers[0].store.log.io_error = "planted"
    answer = asyncio.ensure_future(call(client, brokers[0], send_request("T", b"second")))
    await until(lambda: not brokers[0].roles.serving, "the role was given up")
    assert (await answer).code == 14
    await controller.elect(2, [2, 3])
    await until(lambda: brokers[1].roles.serving, "another one leads")
    assert (await call(client, brokers[1], send_request("T", b"third"))).code == 0


async def test_a_replica_that_cannot_read_its_log_does_not_stay_master(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController
) -> None:
    assert (await call(client, brokers[0], send_request("T", b"first"))).code == 0

    def unreadable() -> None:
        raise LogError("planted")

    brokers[1].store.rebuild_queue_offsets = unreadable  # type: ignore[method-assign]
    await controller.elect(2, [1, 2, 3])
    await until(
        lambda: brokers[1].roles.current.source == "storage_failed", "the mastership was given up"
    )
    await controller.elect(3, [1, 3])
    await until(lambda: brokers[2].roles.serving, "another one leads")
    assert (await call(client, brokers[1], send_request("T", b"second"))).code == 0


async def test_a_learner_copies_and_joins_no_set(
    tmp_path: Path, controller: ScriptedController, client: RemotingClient
) -> None:
    async with running_set(controller, [broker_config(tmp_path / "1", [controller.address])]) as (
        master,
    ):
        learner = await start_broker(
            broker_config(tmp_path / "2", [controller.address], async_learner=True)
        )
        try:
            assert (await call(client, master, send_request("T", b"hello"))).code == 0
            await until(
                lambda: learner.store.dispatched_offset == master.store.log_end,
                "the learner has the message",
            )
            assert controller.members == [1] and learner.status().async_learner
            assert [slave.in_sync for slave in master.replica.ha_status().slaves] == [False]
        finally:
            await learner.stop("test")


async def test_a_store_that_begins_with_the_last_file_serves_what_it_has_once_elected(
    tmp_path: Path, controller: ScriptedController, client: RemotingClient
) -> None:
    small = {"commit_log_file_bytes": 1 << 16}
    async with running_set(
        controller, [broker_config(tmp_path / "1", [controller.address], **small)]
    ) as (master,):
        for number in range(30):
            assert (
                await call(client, master, send_request("T", bytes(10_000), key=f"K{number}"))
            ).code == 0
        late = await start_broker(
            broker_config(tmp_path / "2", [controller.address], sync_from_last_file=True, **small)
        )
        try:
            await until(lambda: controller.members == [1, 2], "the late one is a member")
            begin, end = late.store.log_min, late.store.log_end
            assert begin == end - end % (1 << 16) > 0 and master.store.log_min == 0
            assert late.store.read_log(begin, end - begin) == master.store.read_log(
                begin, end - begin
            )
            await controller.elect(2, [1, 2])
            await until(lambda: late.roles.serving and not master.roles.serving, "it leads")
            too_old = await call(client, late, pull_request("T", 0, 0))
            first = int(too_old.ext["minOffset"])
            assert (
                too_old.code == 21
                and 0 < first < 30
                and too_old.ext["nextBeginOffset"] == str(first)
            )
            assert (await call(client, late, send_request("T", b"next", key="K30"))).ext[
                "queueOffset"
            ] == "30"
            pulled = await call(client, late, pull_request("T", 0, first))
            assert decode_messages(pulled.body)[0].queue_offset == first
            await until(
                lambda: master.store.log_end == late.store.log_end, "the former master follows"
            )
            assert master.store.log_min == 0 and master.store.queue_bounds("T", 0)[0] == 0
        finally:
            await late.stop("test")


async def test_a_set_on_ipv6_addresses(
    tmp_path: Path, controller: ScriptedController, client: RemotingClient
) -> None:
    def config(number: int) -> BrokerConfig:
        at = {name: f"[::1]:{free_port()}" for name in ("listen", "ha_listen")}
        return broker_config(
            tmp_path / str(number), [controller.address], min_in_sync_replicas=2, **PATIENT, **at
        )

    async with running_set(controller, [config(0), config(1)]) as made:
        # A topic that is new reaches the members by a request that only a replica of the set may
        # make (S10).
        assert (await call(client, made[1], send_request("T", b"hello"))).code == 0
        assert made[0].store.log_end == made[1].store.log_end > 0
        assert made[1].tables.topics.get("T") is not None
        slaves = made[0].replica.ha_status().slaves
        assert [slave.address.startswith("[::1]:") for slave in slaves] == [True]
        await controller.elect(2, [1, 2])
        await until(lambda: made[1].roles.serving and not made[0].roles.serving, "roles changed")
        assert (await call(client, made[0], send_request("T", b"again"))).code == 0
