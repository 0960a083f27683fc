"""A set of brokers keeps its tables: what was answered as done is at the members, whoever leads
next (design S19).
"""

import asyncio
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.service.tables.table_files import TableFiles
from tests.support.brokers import (
    PATIENT,
    broker_config,
    call,
    hand_overs_take_their_time,
    running_set,
    send_request,
    start_broker,
    until,
)
from tests.support.client_service import Desk
from tests.support.scripted_controller import ScriptedController

QUEUE = {"consumerGroup": "g", "topic": "T", "queueId": "0"}


@pytest.fixture
async def controller():
    scripted = ScriptedController()
    await scripted.start()
    yield scripted
    await scripted.close()


async def test_settings_of_a_group_answered_as_done_are_those_of_the_next_master(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        assert (
            await master.ask(
                RemotingCommand.request(200, body=(b'{"groupName":"g","consumeEnable":false}'))
            )
        ).code == 0
        slave.lead(2)  # the master dies before the next copy
        assert not slave.tables.groups.consume_enabled("g")
    async with Desk(tmp_path / "s") as restarted:
        assert not restarted.tables.groups.consume_enabled("g")


def slowly(broker: BrokerProcess, seconds: float) -> None:
    """Its copies of tables are under way for that long."""
    copy = broker.shared.sync.copy_from

    async def later(master: str, epoch: int) -> str | None:
        await asyncio.sleep(seconds)
        return await copy(master, epoch)

    broker.shared.sync.copy_from = later  # type: ignore[method-assign]


async def test_a_replica_that_joined_a_moment_ago_leads_with_the_tables(
    tmp_path: Path, controller: ScriptedController
) -> None:
    client = RemotingClient()
    one = await start_broker(broker_config(tmp_path / "1", [controller.address], **PATIENT))
    await until(lambda: one.roles.serving, "the first leads")
    assert (await call(client, one, send_request("T", b"x"))).code == 0
    assert (
        await call(
            client,
            one,
            RemotingCommand.request(200, body=(b'{"groupName":"g","consumeEnable":false}')),
        )
    ).code == 0
    assert (
        await call(client, one, RemotingCommand.request(15, QUEUE | {"commitOffset": "77"}))
    ).code == 0
    two = BrokerProcess(broker_config(tmp_path / "2", [controller.address], **PATIENT))
    slowly(two, 0.5)
    await two.start()
    await until(lambda: one.replica.core.sync_state_set == (1, 2), "the second is a member")
    two.shared.sync.copy_from = lambda master, epoch: asyncio.sleep(3600)  # type: ignore[method-assign, assignment]
    await one.stop("killed")
    await controller.elect(2, [2])
    await until(lambda: two.roles.serving, "the second leads")
    assert two.tables.topics.get("T") is not None and not two.tables.groups.consume_enabled("g")
    assert (await call(client, two, RemotingCommand.request(14, QUEUE))).ext == {"offset": "77"}
    await client.close()
    await two.stop("test")


async def test_what_was_answered_as_done_is_there_when_the_master_dies_before_the_next_copy(
    tmp_path: Path, controller: ScriptedController
) -> None:
    configs = [
        broker_config(tmp_path / str(number), [controller.address], **PATIENT) for number in (1, 2)
    ]
    client = RemotingClient()
    async with running_set(controller, configs) as (one, two):
        assert (await call(client, one, send_request("T", b"x"))).code == 0
        slowly(two, 3600)
        two.shared.sync._copied = lambda code, master, epoch: asyncio.sleep(3600)  # type: ignore[method-assign, assignment]
        assert (await call(client, one, send_request("U", b"x"))).code == 0
        assert (
            await call(
                client,
                one,
                RemotingCommand.request(200, body=(b'{"groupName":"g","consumeEnable":false}')),
            )
        ).code == 0
        assert (
            await call(client, one, RemotingCommand.request(15, QUEUE | {"commitOffset": "77"}))
        ).code == 0
        assert (await call(client, one, RemotingCommand.request(215, {"topic": "U"}))).code == 0
        await one.stop("killed")
        await controller.elect(2, [2])
        await until(lambda: two.roles.serving, "the second leads")
        assert (await call(client, two, RemotingCommand.request(14, QUEUE))).ext == {"offset": "77"}
        assert not two.tables.groups.consume_enabled("g") and two.tables.topics.get("U") is None
    await client.close()


async def test_a_master_without_offsets_takes_none_from_those_who_follow_it(tmp_path: Path) -> None:
    async with Desk(tmp_path / "new") as new, Desk(tmp_path / "old") as old:
        old.tables.offsets.commit("g", "T", 0, 1_000_000, 1)
        old.tables.groups.ensure("g", 1)
        topics = dict(old.tables.topics.configs)
        new.lead(3)
        old.follow(new.address, 3)
        for _ in range(2):
            assert await old.shared.copy_whole(new.address, 3) is None
        assert (
            old.tables.offsets.query("g", "T", 0) == 1_000_000
            and old.tables.groups.get("g") is not None
        )
        assert topics.keys() <= old.tables.topics.configs.keys()


async def test_offsets_are_at_most_a_second_behind_and_a_hand_over_takes_all_of_them(
    tmp_path: Path, controller: ScriptedController
) -> None:
    configs = [
        broker_config(
            tmp_path / str(number), [controller.address], metadata_sync_ms=60_000, **PATIENT
        )
        for number in (1, 2)
    ]
    client = RemotingClient()
    async with running_set(controller, configs) as (one, two):
        assert (await call(client, one, send_request("T", b"x"))).code == 0
        for offset in (5, 6, 2):  # also backwards
            assert (
                await call(
                    client, one, RemotingCommand.request(15, QUEUE | {"commitOffset": str(offset)})
                )
            ).code == 0
            began = one.clock.now_ms()
            await until(
                lambda offset=offset: two.tables.offsets.query("g", "T", 0) == offset,
                "the slave has the offset",
            )
            # half a second where nobody else needs the machine, never the next round
            assert one.clock.now_ms() - began < 10_000
        assert (
            await call(client, one, RemotingCommand.request(15, QUEUE | {"commitOffset": "77"}))
        ).code == 0
        with hand_overs_take_their_time():
            assert (await call(client, one, RemotingCommand.request(19012))).code == 0
        await until(lambda: two.roles.serving, "the other leads")
        assert (await call(client, two, RemotingCommand.request(14, QUEUE))).ext == {"offset": "77"}
    await client.close()


async def test_a_table_of_full_size_keeps_no_master_from_starting_and_is_copied(
    tmp_path: Path,
) -> None:
    queues = ",".join(f'"{queue}":{10**12 + queue}' for queue in range(8))
    entries = ",".join(
        f'"topic_of_a_usual_name_{number % 10:03d}@group_of_a_usual_name_{number:06d}":{{{queues}}}'
        for number in range(100_000)
    )
    (tmp_path / "m" / "config").mkdir(parents=True)
    (tmp_path / "m" / "config" / ("consumerOffset.json")).write_text(
        f'{{"offsetTable":{{{entries}}}}}'
    )
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        asked_by_java = await master.ask(RemotingCommand.request(43))
        assert asked_by_java.code == 1 and "does not fit a frame" in (asked_by_java.remark or "")
        assert await slave.shared.copy_whole(master.address, 1) is None
        assert (
            slave.tables.offsets.query(
                "group_of_a_usual_name_099999", "topic_of_a_usual_name_009", 7
            )
            == 10**12 + 7
        )
        assert len(slave.tables.offsets.text()) == len(master.tables.offsets.text())
        assert master.tables.offsets.commit(
            "group_of_a_usual_name_000000", "topic_of_a_usual_name_000", 0, 1, 1
        )
        assert await slave.shared.copy_whole(master.address, 1) is None
        assert (
            slave.tables.offsets.query(
                "group_of_a_usual_name_000000", "topic_of_a_usual_name_000", 0
            )
            == 1
        )
    assert (
        TableFiles(tmp_path / "s").offsets.query(
            "group_of_a_usual_name_099999", "topic_of_a_usual_name_009", 7
        )
        == 10**12 + 7
    )
