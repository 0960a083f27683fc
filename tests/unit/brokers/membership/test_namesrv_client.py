"""Registering at real name servers: at once, over a kept connection, and again when it is lost."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.membership import namesrv_client
from brokers.membership.namesrv_client import NameServers, RouteEntry
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import Dispatcher, RemotingServer
from brokers.service.tables.topics import TopicConfig, TopicTable, system_topics
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.brokers import free_port, until


def entry(broker_id: int = 0, *topics: str, state_version: int = 1) -> RouteEntry:
    table = TopicTable(
        [*system_topics("C", "b", True), *(TopicConfig(topic, 4, 4) for topic in topics)]
    )
    table.mastership_began(state_version, 1)
    return RouteEntry(
        "C", "b", broker_id, "127.0.0.1:10911", "127.0.0.1:10912", 120_000, table.text()
    )


async def name_server(port: int = 0) -> NameServer:
    server = NameServer(NameServerConfig(listen=f"127.0.0.1:{port}"))
    await server.start()
    return server


async def route(client: RemotingClient, server: NameServer, topic: str) -> object:
    answer = await client.call(
        f"127.0.0.1:{server.port}", RemotingCommand.request(105, {"topic": topic}), 5_000
    )
    return fastjson.loads(answer.body) if answer.code == 0 else answer.code


async def test_a_registration_is_known_at_every_name_server_when_the_wait_ends() -> None:
    first, second, client = await name_server(), await name_server(), RemotingClient()
    servers = NameServers(
        [f"127.0.0.1:{each.port}" for each in (first, second)], lambda: entry(0, "T"), 60_000
    )
    servers.start()
    assert await servers.register() == 2
    for server in (first, second):
        known = await route(client, server, "T")
        assert isinstance(known, dict) and known["brokerDatas"][0]["brokerAddrs"] == {
            "0": "127.0.0.1:10911"
        }
    await servers.close(entry(0, "T"))
    assert await route(client, first, "T") == 17
    await client.close()
    await asyncio.gather(first.close(), second.close())


async def test_a_change_is_registered_at_once() -> None:
    server, client, topics = await name_server(), RemotingClient(), ["T"]
    servers = NameServers([f"127.0.0.1:{server.port}"], lambda: entry(0, *topics), 60_000)
    servers.start()
    await servers.register()
    topics.append("U")
    servers.changed()
    deadline = asyncio.get_running_loop().time() + 20
    while await route(client, server, "U") == 17:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)
    await servers.close(None)
    await client.close()
    await server.close()


async def test_a_name_server_that_is_not_there_delays_nobody() -> None:
    server = await name_server()
    servers = NameServers(
        [f"127.0.0.1:{server.port}", f"127.0.0.1:{free_port()}"], lambda: entry(0, "T"), 60_000
    )
    servers.start()
    assert await servers.register() == 1
    await servers.close(None)
    await server.close()


async def test_a_name_server_that_is_away_is_told_once_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "regent.broker.nameservers")
    port = free_port()
    address = f"127.0.0.1:{port}"
    servers = NameServers([address], lambda: entry(0, "T"), 60_000)
    servers.start()
    for _ in range(3):
        assert await servers.register() == 0
        await servers.tell(address, RemotingCommand.request(904))
    server = await name_server(port)
    deadline = asyncio.get_running_loop().time() + 20
    while not await servers.register():
        assert asyncio.get_running_loop().time() < deadline
    await servers.close(None)
    await server.close()
    told = [one.getMessage() for one in caplog.records if address in one.getMessage()]
    assert sum("is not reached" in text for text in told) == 1
    assert sum("is reached again" in text for text in told) == 1 and len(told) == 2


async def test_a_restarted_name_server_is_registered_at_again() -> None:
    server, client = await name_server(), RemotingClient()
    port = server.port
    servers = NameServers([f"127.0.0.1:{port}"], lambda: entry(0, "T"), 60_000)
    servers.start()
    await servers.register()
    await server.close()
    again = await name_server(port)
    deadline = asyncio.get_running_loop().time() + 20
    while await route(client, again, "T") == 17:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)
    await servers.close(None)
    await client.close()
    await again.close()


async def test_a_slave_hears_which_master_a_name_server_knows_and_where_it_takes_links() -> None:
    server, heard = await name_server(), []
    address = f"127.0.0.1:{server.port}"
    slave = replace(entry(2), address="127.0.0.1:20911", ha_address="127.0.0.1:20912")
    servers = NameServers([address], lambda: slave, 60_000)
    servers.tell_of_masters(lambda *told: heard.append(told))
    servers.start()
    assert await servers.register() == 1 and not heard
    master = NameServers([address], lambda: replace(entry(0), ha_address="127.0.0.1:4711"), 60_000)
    master.tell_of_masters(lambda *told: heard.append(("master", told)))
    master.start()
    await master.register()
    assert await servers.register() == 1
    assert heard == [("127.0.0.1:10911", "127.0.0.1:4711")]
    for each in (servers, master):
        await each.close(None)
    await server.close()


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        pytest.param("true", [["T", "U"]], id="returnOrderTopicConfigToBroker"),
        pytest.param("false", [], id="switched off"),
    ],
)
async def test_a_broker_hears_with_its_registration_which_topics_are_read_in_order(
    tmp_path: Path, told: str, heard: list[list[str]]
) -> None:
    config = NameServerConfig(
        listen="127.0.0.1:0", data_dir=str(tmp_path), return_order_topic_config=told == "true"
    )
    server, found = NameServer(config), []
    await server.start()
    servers = NameServers([f"127.0.0.1:{server.port}"], lambda: entry(0, "T"), 60_000)
    servers.tell_of_order(lambda topics: found.append(sorted(topics)))
    servers.start()
    assert await servers.register() == 1 and not found  # there are none
    client = RemotingClient()
    for topic in ("U", "T"):
        put = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": "b:4"}
        answer = await client.call(
            f"127.0.0.1:{server.port}", RemotingCommand.request(100, put), 5_000
        )
        assert answer.code == 0
    assert await servers.register() == 1
    assert found == heard
    await servers.close(None)
    await client.close()
    await server.close()


@pytest.mark.parametrize("body", [b"x", b"[]", b"{}", b'{"table":[]}', b'{"table":null}'])
async def test_an_answer_that_says_nothing_of_order_registers_all_the_same(body: bytes) -> None:
    dispatcher, heard = Dispatcher(), []
    dispatcher.register(103, lambda connection, request: request.reply(body=body))
    server = RemotingServer(dispatcher)
    await server.start()
    servers = NameServers([f"127.0.0.1:{server.port}"], entry, 60_000)
    servers.tell_of_order(lambda topics: heard.extend(topics))
    servers.start()
    assert await servers.register() == 1 and not heard
    await servers.close(None)
    await server.close()


async def test_without_a_place_in_the_routes_nothing_is_sent() -> None:
    server = await name_server()
    servers = NameServers([f"127.0.0.1:{server.port}"], lambda: None, 60_000)
    servers.start()
    assert await servers.register() == 0
    await until(lambda: True, "nothing hangs")
    await servers.close(None)
    await server.close()


class Roles:
    """A broker whose role the test says, and another one that becomes master; both register."""

    def __init__(self, *ports: int) -> None:
        self.own = entry(0, "T")
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self.servers = NameServers(addresses, lambda: self.own, 60_000)
        other = replace(entry(0, "T", state_version=2), address="127.0.0.1:20911")
        self.other = NameServers(addresses, lambda: other, 60_000)

    def step_down(self) -> None:
        self.own = replace(entry(2, "T", state_version=2))
        self.servers.changed()

    async def close(self) -> None:
        await self.servers.close(None)
        await self.other.close(None)


async def addresses_at(client: RemotingClient, server: NameServer) -> dict[str, str]:
    known = await route(client, server, "T")
    assert isinstance(known, dict)
    found: dict[str, str] = known["brokerDatas"][0]["brokerAddrs"]
    return found


async def test_a_former_master_stays_in_a_route_until_another_one_stands_in_it() -> None:
    first, second, client = await name_server(), await name_server(), RemotingClient()
    roles = Roles(first.port, second.port)
    roles.servers.start()
    assert await roles.servers.register() == 2
    roles.step_down()
    assert await roles.servers.register() == 0  # it tried, and found itself the only master
    assert await addresses_at(client, first) == {"0": "127.0.0.1:10911"}
    roles.other.start()
    both = {"0": "127.0.0.1:20911", "2": "127.0.0.1:10911"}
    for server in (first, second):
        while (seen := await addresses_at(client, server)) != both:
            assert "0" in seen  # no client reads a route without a master
            await asyncio.sleep(0.01)
    await roles.close()
    await client.close()
    await asyncio.gather(first.close(), second.close())


async def test_where_no_other_master_comes_it_stands_as_a_slave_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(namesrv_client, "REPLACED_WITHIN_MS", 100)
    server, client = await name_server(), RemotingClient()
    roles = Roles(server.port)
    roles.servers.start()
    assert await roles.servers.register() == 1
    roles.step_down()
    while await addresses_at(client, server) != {"2": "127.0.0.1:10911"}:
        await asyncio.sleep(0.01)
    await roles.close()
    await client.close()
    await server.close()


async def test_a_name_server_that_does_not_tell_who_is_registered_is_given_a_moment() -> None:
    told: list[str] = []

    def registered(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        told.append(request.ext["brokerId"])
        return request.reply()

    server = RemotingServer(Dispatcher({103: registered}))
    await server.start()
    roles = Roles(server.port)
    roles.servers.start()
    assert await roles.servers.register() == 1
    roles.step_down()
    assert await roles.servers.register() == 0
    await until(lambda: told == ["0", "2"], "it is registered as a slave")
    await roles.close()
    await server.close()


async def test_a_broker_that_leaves_has_a_place_as_a_master_only() -> None:
    server, client = await name_server(), RemotingClient()
    roles = Roles(server.port)
    roles.servers.start()
    roles.other.start()
    await roles.servers.register()
    roles.step_down()
    roles.servers.leave()
    only_the_other = {"0": "127.0.0.1:20911"}
    while await addresses_at(client, server) != only_the_other:
        await asyncio.sleep(0.01)
    roles.servers.changed()
    assert await roles.servers.register() == 0
    assert await addresses_at(client, server) == only_the_other
    roles.own = entry(0, "T", state_version=3)  # elected again while it leaves
    assert await roles.servers.register() == 1
    assert (await addresses_at(client, server))["0"] == "127.0.0.1:10911"
    await roles.close()
    await client.close()
    await server.close()
