"""A group's settings are answered as done when the members of the set hold them."""

import asyncio
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.remoting.server import RemotingServer
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.subscription_groups import SubscriptionGroups
from tests.support.brokers import free_port, until
from tests.support.client_service import Desk


def disabled(name: str = "g") -> RemotingCommand:
    return RemotingCommand.request(
        200, body=fastjson.dumps({"groupName": name, "consumeEnable": False})
    )


def groups(counter: int, **retries: int) -> SubscriptionGroups:
    table = SubscriptionGroups()
    for name, count in retries.items():
        table.put({"groupName": name, "retryMaxTimes": count}, 1)
    table.version = DataVersion(0, 1, counter)
    return table


def retries(desk: Desk, name: str) -> object:
    found = desk.tables.groups.get(name)
    return found and found["retryMaxTimes"]


async def test_a_group_is_on_the_members_disk_when_it_is_answered(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        slave.tables.groups.ensure("other", 1)
        master.members = {2: slave.address}
        assert (await master.ask(disabled())).code == 0
        assert (
            not slave.tables.groups.consume_enabled("g")
            and slave.tables.groups.get("other") is not None
        )
        assert (b'"consumeEnable":false') in (
            tmp_path / "s" / "config" / "subscriptionGroup.json"
        ).read_bytes()


async def test_a_member_that_does_not_answer_holds_the_group_up_until_it_leaves_the_set(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        master.members = {2: f"127.0.0.1:{free_port()}"}
        answer = await master.ask(disabled())
        assert answer.code == 14 and "not every in-sync replica" in (answer.remark or "")
        asked_again = asyncio.ensure_future(master.ask(disabled()))
        await until(lambda: master.shared.held.begun == 2, "the same settings are asked for again")
        master.members = {}
        assert (await asked_again).code == 0


async def test_a_java_member_copies_groups_by_itself(tmp_path: Path) -> None:
    async with Desk(tmp_path) as master:
        master.lead()
        java = RemotingServer(
            lambda link, request: request.reply(3, remark=("request type not supported"))
        )
        await java.start()
        master.members = {2: f"127.0.0.1:{java.port}"}
        assert (await master.ask(disabled())).code == 0
        await java.close()


async def test_an_answer_from_before_a_push_takes_it_not_back(tmp_path: Path) -> None:
    async with Desk(tmp_path) as slave:
        slave.follow("127.0.0.1:1", 3)
        changes = slave.shared.groups
        assert await changes.take_push(groups(7, g=3), 3)
        changes.adopt(groups(6, g=16), 3)
        assert retries(slave, "g") == 3
        assert not await changes.take_push(groups(6, g=16), 3) and await changes.take_push(
            groups(6, g=3), 3
        )
        changes.adopt(groups(7, g=3, h=1), 3)
        assert retries(slave, "h") == 1
        changes.adopt(groups(2, g=5), 4)  # another mastership counts anew
        assert retries(slave, "g") == 5


async def test_groups_of_an_older_mastership_or_for_a_master_are_not_taken(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.follow("127.0.0.1:1", 3)
        assert not await desk.shared.groups.take_push(groups(1, g=1), 2)
        desk.lead(4)
        assert (
            not await desk.shared.groups.take_push(groups(1, g=1), 9)
            and desk.tables.groups.get("g") is None
        )


async def test_a_stranger_pushes_no_groups(tmp_path: Path) -> None:
    async with Desk(tmp_path) as slave:
        slave.follow("127.0.0.1:1", 3)
        slave.believes = False
        body = groups(1, g=1).text()
        assert (
            await slave.ask(RemotingCommand.request(19013, {"regentMasterEpoch": "3"}, body))
        ).code == 16
        slave.believes = True
        for told, ext, code in ((b"x", "3", 1), (body, "x", 1), (body, "2", 14), (body, "3", 0)):
            assert (
                await slave.ask(RemotingCommand.request(19013, {"regentMasterEpoch": ext}, told))
            ).code == code
