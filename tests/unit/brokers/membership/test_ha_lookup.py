"""Finding where a master takes HA links when the controller does not say: over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.membership.controller_messages import usual_ha_address
from brokers.membership.ha_lookup import HaLookup
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from brokers.replica.ha_address import HaAddressSource
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.brokers import broker_config, free_port, start_broker, until
from tests.support.scripted_controller import ScriptedController


class Asked:
    """A lookup, what it told, and how often it had the name servers asked."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, HaAddressSource]] = []
        self.registered = 0
        self.client = RemotingClient()
        self.lookup = HaLookup(self.client, self._register, lambda *told: self.told.append(told))

    def _register(self) -> None:
        self.registered += 1


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    one = Asked()
    yield one
    await one.lookup.close()
    await one.client.close()


async def master(**answer: str) -> RemotingServer:
    """Answers every request as a Java broker answers 906."""

    def reply(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        assert request.code == 906 and "masterHaAddress" not in request.ext
        return request.reply(ext=answer)

    server = RemotingServer(reply)
    await server.start()
    return server


async def test_a_master_says_itself_where_it_takes_links(asked: Asked) -> None:
    server = await master(
        masterHaAddress="10.0.0.1:4711", masterFlushOffset="0", masterAddress="10.0.0.1:1"
    )
    address = f"127.0.0.1:{server.port}"
    asked.lookup.ask(address)
    assert asked.registered == 1
    await until(lambda: asked.told, "the master's word")
    assert asked.told == [(address, "10.0.0.1:4711", HaAddressSource.MASTER)]
    await server.close()


async def test_one_that_is_not_yet_master_says_nothing_and_is_asked_again(asked: Asked) -> None:
    silent = await master()
    asked.lookup.ask(f"127.0.0.1:{silent.port}")
    await asked.lookup._asking
    assert not asked.told
    server = await master(masterHaAddress="10.0.0.1:4711")
    asked.lookup.ask(f"127.0.0.1:{server.port}")
    await until(lambda: asked.told, "the master's word")
    await silent.close()
    await server.close()


async def test_who_cannot_be_asked_is_no_error(asked: Asked) -> None:
    asked.lookup.ask(f"127.0.0.1:{free_port()}")
    await asked.lookup._asking
    asked.lookup.ask("no address")
    await asked.lookup._asking
    assert not asked.told and asked.registered == 2


async def test_what_is_no_address_is_not_handed_on(asked: Asked) -> None:
    asked.lookup.name_server_said("h:1", "nonsense")
    asked.lookup.name_server_said("h:1", "h:2")
    assert asked.told == [("h:1", "h:2", HaAddressSource.NAME_SERVER)]


@pytest.mark.parametrize("who_knows", ["name server", "master"])
async def test_a_slave_links_to_a_port_that_no_rule_gives(tmp_path: Path, who_knows: str) -> None:
    """Both brokers are of the kind whose HA address the controller does not know; the HA port is
    any port.
    """
    controller = ScriptedController()
    controller.knows_ha_addresses = False
    await controller.start()
    names = NameServer(NameServerConfig(listen="127.0.0.1:0"))
    await names.start()
    name_servers = [f"127.0.0.1:{names.port}"] if who_knows == "name server" else []
    config = broker_config(tmp_path / "1", [controller.address], name_servers)
    while usual_ha_address(config.listen) == config.ha_listen:
        config = broker_config(tmp_path / "1", [controller.address], name_servers)
    first = await start_broker(config)
    if who_knows == "name server":
        first._dispatcher.register(906, lambda _connection, request: request.reply(3))
    await until(lambda: first.roles.serving, "the first one serves")
    second = await start_broker(broker_config(tmp_path / "2", [controller.address], name_servers))
    await until(lambda: first.replica.core.sync_state_set == (1, 2), "the second one is in sync")
    for broker in (second, first):
        await broker.stop("test")
    await names.close()
    await controller.close()
