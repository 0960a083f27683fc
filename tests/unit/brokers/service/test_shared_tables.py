"""A set of brokers keeps its tables: what was answered as done is at the members, whoever leads next (design S19)."""

from pathlib import Path

from brokers.remoting.command import RemotingCommand
from tests.support.client_service import Desk


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
