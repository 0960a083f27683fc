"""The place of a broker whose role is configured: who else is there, as name servers say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from brokers.membership.fixed_membership import FixedHooks, FixedMembership, FixedPlace
from brokers.membership.member_group import member_group_question, read_member_group
from brokers.membership.place import PlaceInSet
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from tests.support.brokers import free_port, until


class ToldNameServer:
    """Answers 901 as it is told."""

    def __init__(self) -> None:
        self.members: object = {}
        self.code = 0
        self.asked = 0
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.server = RemotingServer(self._answer, host="127.0.0.1", port=self.port)

    def _answer(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.asked += 1
        body = {"brokerMemberGroup": {"brokerAddrs": self.members}}
        return request.reply(self.code, body=fastjson.dumps(body))


class Heard:
    def __init__(self) -> None:
        self.ids: list[int] = []
        self.alive: list[int | None] = []
        self.masters: list[str] = []
        self.hooks = FixedHooks(self.ids.append, self.alive.append, self.masters.append)


@pytest.fixture
async def name_server() -> AsyncIterator[ToldNameServer]:
    one = ToldNameServer()
    await one.server.start()
    yield one
    await one.server.close()


def membership(
    client: RemotingClient, name_servers: list[str], broker_id: int = 1
) -> tuple[FixedMembership, Heard]:
    heard = Heard()
    place = FixedPlace("c", "g", broker_id, f"b:{broker_id}", name_servers, 20)
    return FixedMembership(place, client, heard.hooks), heard


async def test_it_has_its_place_at_once_and_hears_who_is_there(
    client: RemotingClient, name_server: ToldNameServer
) -> None:
    one, heard = membership(client, [name_server.address])
    name_server.members = {"0": "m:1", "1": "b:1"}
    await one.register()
    assert heard.ids == [1] and one.registered.is_set() and one.leader is None
    await until(lambda: heard.masters, "it hears of the master")
    assert one.addresses() == {0: "m:1", 1: "b:1"} and heard.alive[-1] == 2
    name_server.members = {"0": "m:2"}
    await until(lambda: heard.masters[-1] == "m:2", "it hears of another master")
    assert heard.masters == ["m:1", "m:2"]  # once for each
    await until(lambda: heard.alive[-1] == 2, "it counts itself")
    await one.close()


async def test_a_name_server_that_does_not_tell_gives_place_to_the_next_one(
    client: RemotingClient, name_server: ToldNameServer
) -> None:
    one, heard = membership(client, [f"127.0.0.1:{free_port()}", name_server.address])
    name_server.members = {"0": "m:1"}
    await one.register()
    await until(lambda: heard.masters == ["m:1"], "the second one tells")
    name_server.code = 3
    asked = name_server.asked
    await until(lambda: name_server.asked > asked, "it is asked again")
    assert one.addresses() == {0: "m:1"}  # what was known stays
    await one.close()


async def test_nobody_registered_yet_says_nothing_about_who_lives(
    client: RemotingClient, name_server: ToldNameServer
) -> None:
    one, heard = membership(client, [name_server.address], broker_id=0)
    await one.register()
    await until(lambda: heard.alive, "it was answered")
    assert heard.alive[-1] is None and heard.masters == []
    await one.close()


async def test_a_second_process_with_its_id_is_said(
    client: RemotingClient, name_server: ToldNameServer, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = membership(client, [name_server.address], broker_id=0)
    name_server.members = {"0": "x:1"}
    await one.register()
    await until(lambda: "two processes with one id" in caplog.text, "it is said")
    asked = name_server.asked
    await until(lambda: name_server.asked > asked + 2, "it is asked again")
    assert caplog.text.count("two processes with one id") == 1
    await one.close()


async def test_nobody_is_elected_and_nothing_proposed(client: RemotingClient) -> None:
    one, _ = membership(client, [])
    place: PlaceInSet = one
    place.start()
    await place.register()
    place.ask(elect=True)
    place.register_again()
    answer = await place.elect(1, designate=True)
    assert answer is not None and answer.code and "no controllers" in str(answer.remark)
    failed = place.failed()
    await asyncio.sleep(0)
    assert not failed.done()
    failed.cancel()
    await place.close()


@pytest.mark.parametrize(
    "addresses",
    [None, [], {"x": "a:1"}, {"-1": "a:1"}, {"0": 5}, {"0": "a" * 513}, {"9" * 19: "a:1"}],
)
def test_an_answer_that_makes_no_sense_is_refused(addresses: object) -> None:
    body = fastjson.dumps({"brokerMemberGroup": {"brokerAddrs": addresses}})
    with pytest.raises(ValueError):
        read_member_group(member_group_question("c", "g").reply(0, body=body))


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b'{"brokerMemberGroup":{}}', b"x"])
def test_another_body_is_no_answer(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_member_group(member_group_question("c", "g").reply(0, body=body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"a:1",1:"b:1"}}}',
        b'{"brokerMemberGroup":{"brokerAddrs":{"0":"a:1","1":"b:1"},"brokerName":"a"}}',
    ],
)
def test_ids_are_read_with_and_without_quotes(body: bytes) -> None:
    answer = member_group_question("c", "g").reply(0, body=body)
    assert read_member_group(answer) == {0: "a:1", 1: "b:1"}
