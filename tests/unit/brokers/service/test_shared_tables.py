"""A set of brokers keeps its tables: what was answered as done is at the members, whoever leads next (design S19)."""

import asyncio
from pathlib import Path

import pytest

from brokers.broker_process import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from tests.support.brokers import PATIENT, broker_config, call, send_request, start_broker, until
from tests.support.client_service import Desk
from tests.support.scripted_controller import ScriptedController

QUEUE = {"consumerGroup": "g", "topic": "T", "queueId": "0"}


@pytest.fixture
async def controller():
    scripted = ScriptedController()
    await scripted.start()
    yield scripted
    await scripted.close()


async def test_settings_of_a_group_answered_as_done_are_those_of_the_next_master(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: slave.address}
        assert (await master.ask(RemotingCommand.request(200, body=b'{"groupName":"g","consumeEnable":false}'))).code == 0
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


async def test_a_replica_that_joined_a_moment_ago_leads_with_the_tables(tmp_path: Path, controller: ScriptedController) -> None:
    client = RemotingClient()
    one = await start_broker(broker_config(tmp_path / "1", [controller.address], **PATIENT))
    await until(lambda: one.roles.serving, "the first leads")
    assert (await call(client, one, send_request("T", b"x"))).code == 0
    assert (await call(client, one, RemotingCommand.request(200, body=b'{"groupName":"g","consumeEnable":false}'))).code == 0
    assert (await call(client, one, RemotingCommand.request(15, QUEUE | {"commitOffset": "77"}))).code == 0
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
