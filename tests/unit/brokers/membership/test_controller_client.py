"""Finding and following the controllers' leader."""

import asyncio

import pytest

from brokers.membership.controller_client import ControllerClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from tests.support.brokers import free_port, until


class Controller:
    """One controller that names a leader and counts what it hears."""

    def __init__(self) -> None:
        self.server = RemotingServer(self._handle)
        self.leader: str | None = None
        self.not_leader = False
        self.heard: list[int] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def _handle(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code == 1005:
            ext = {"isLeader": str(self.leader == self.address).lower()}
            return request.reply(
                ext=ext | ({"controllerLeaderAddress": self.leader} if self.leader else {})
            )
        self.heard.append(request.code)
        return request.reply(2007 if self.not_leader else 0, remark=self.address)


async def two() -> tuple[Controller, Controller]:
    first, second = Controller(), Controller()
    await first.server.start()
    await second.server.start()
    first.leader = second.leader = first.address
    return first, second


async def test_the_leader_is_asked_whoever_named_it() -> None:
    first, second = await two()
    client = ControllerClient([second.address], lambda: None)
    client.start()
    answer = await client.ask(RemotingCommand.request(1004))
    assert answer is not None and answer.remark == first.address and client.leader == first.address
    await client.close()
    await first.server.close()
    await second.server.close()


async def test_a_controller_that_is_not_reached_is_told_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    client = ControllerClient([nobody, "no-such-host.invalid:9878"], lambda: None)
    client.start()
    told = lambda: [one.getMessage() for one in caplog.records if "is not reached" in one.message]
    await until(lambda: len(told()) >= 2, "both are told")
    assert await client.ask(RemotingCommand.request(1004), timeout_ms=1_000) is None
    await client.close()
    assert len(told()) == len(set(told())) and any(nobody in text for text in told())
    assert any("no-such-host.invalid:9878: " in text for text in told())


async def test_a_new_leader_is_found_when_the_old_one_says_2007_or_dies() -> None:
    first, second = await two()
    client = ControllerClient([first.address, second.address], lambda: None)
    client.start()
    assert await client.ask(RemotingCommand.request(1004)) is not None
    first.not_leader, first.leader, second.leader = True, second.address, second.address
    answer = await client.ask(RemotingCommand.request(1004))
    assert answer is not None and answer.code == 0 and answer.remark == second.address
    first.not_leader, first.leader = False, first.address
    await second.server.close()
    answer = await client.ask(RemotingCommand.request(1004))
    assert answer is not None and answer.remark == first.address
    await client.close()
    await first.server.close()


async def test_no_leader_in_time_is_unknown() -> None:
    client = ControllerClient([f"127.0.0.1:{free_port()}"], lambda: None)
    client.start()
    assert await client.ask(RemotingCommand.request(1004), 200) is None
    await client.close()


async def test_every_new_connection_begins_with_a_greeting_and_all_get_heartbeats() -> None:
    first, second = await two()
    client = ControllerClient(
        [first.address, second.address], lambda: RemotingCommand.request(904, oneway=True)
    )
    client.start()
    await until(lambda: first.heard == [904] and second.heard == [904], "both were greeted")
    assert client.heartbeat(RemotingCommand.request(904, oneway=True)) == 2
    await until(lambda: len(first.heard) == len(second.heard) == 2, "both heard the heartbeat")
    for connection in first.server.connections:
        connection.close("planted")
    await until(lambda: len(first.heard) == 3, "the new connection was greeted")
    await client.close()
    await first.server.close()
    await second.server.close()


async def test_a_leader_outside_the_list_gets_heartbeats_too() -> None:
    first, second = await two()
    client = ControllerClient([second.address], lambda: RemotingCommand.request(904, oneway=True))
    client.start()
    await client.ask(RemotingCommand.request(1004))
    await until(lambda: 904 in first.heard, "the leader was greeted")
    await client.close()
    await asyncio.gather(first.server.close(), second.server.close())
