"""A broker that has not opened its store yet passes on what belongs to another master, and holds
the rest for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from brokers.process import opening as opening_module
from brokers.process.broker import BrokerProcess
from brokers.process.config import BrokerConfig
from brokers.process.opening import OPENING_REMARK, Opening
from brokers.remoting.calls import ConnectFailed
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from tests.support.brokers import (
    PATIENT,
    broker_config,
    call,
    pull_request,
    send_request,
    start_broker,
    until,
)
from tests.support.scripted_controller import ScriptedController

TIMEOUT_MS = 30_000


@pytest.fixture
async def controller() -> AsyncIterator[ScriptedController]:
    scripted = ScriptedController()
    await scripted.start()
    yield scripted
    await scripted.close()


@asynccontextmanager
async def opening_beside_a_master(
    controller: ScriptedController, folder: Path, **changes: object
) -> AsyncIterator[tuple[BrokerProcess, Opening, BrokerConfig, RemotingClient]]:
    """One broker leads; another one has not opened its store yet, and listens."""
    master = await start_broker(broker_config(folder / "a", [controller.address]))
    await until(lambda: master.roles.serving, "the first broker serves")
    config = broker_config(folder / "b", [controller.address], **PATIENT | changes)
    opening, client = Opening(config), RemotingClient()
    opening.begin(config)
    try:
        await until(lambda: opening.roles.master_address is not None, "it knows the master")
        await until(lambda: opening._listens, "it listens")
        yield master, opening, config, client
    finally:
        await client.close()
        await opening.close()
        await master.stop("test")


async def test_what_is_sent_before_the_store_is_open_is_with_the_master(
    tmp_path: Path, controller: ScriptedController
) -> None:
    async with opening_beside_a_master(controller, tmp_path) as (master, _, config, client):
        answer = await client.call(config.listen, send_request("T", b"early"), TIMEOUT_MS)
        assert answer.code == 0
        found = await call(client, master, pull_request("T", 0, 0))
        assert found.code == 0 and b"early" in found.body


async def test_the_connection_stays_when_the_broker_has_opened_its_store(
    tmp_path: Path, controller: ScriptedController
) -> None:
    async with opening_beside_a_master(controller, tmp_path) as (master, opening, config, client):
        assert (await client.call(config.listen, send_request("T", b"1"), TIMEOUT_MS)).code == 0
        before = [one.id for one in opening.server.connections]
        broker = BrokerProcess(config, opening=opening)
        await broker.start()
        try:
            await until(lambda: broker.roles.role == "SLAVE", "it follows the master")
            assert (await client.call(config.listen, send_request("T", b"2"), TIMEOUT_MS)).code == 0
            assert broker.forwarder.forwarded == 1
            assert set(before) <= {one.id for one in opening.server.connections}
            assert (await call(client, master, pull_request("T", 0, 1))).code == 0
        finally:
            await broker.stop("test")


async def test_what_is_no_send_waits_for_the_store(
    tmp_path: Path, controller: ScriptedController
) -> None:
    async with opening_beside_a_master(controller, tmp_path) as (_, opening, config, client):
        greeting = RemotingCommand(34, body=b'{"clientID": "c"}')
        waits = asyncio.ensure_future(client.call(config.listen, greeting, TIMEOUT_MS))
        await until(lambda: opening._waiting, "the heartbeat waits")
        broker = BrokerProcess(config, opening=opening)
        await broker.start()
        try:
            assert (await waits).code == 0
            assert opening._waiting == 0
        finally:
            await broker.stop("test")


async def test_what_waited_long_enough_is_refused(
    tmp_path: Path, controller: ScriptedController
) -> None:
    async with opening_beside_a_master(controller, tmp_path, hold_without_master_ms=20) as (
        _,
        _,
        config,
        client,
    ):
        answer = await client.call(config.listen, pull_request("T", 0, 0), TIMEOUT_MS)
        assert (answer.code, answer.remark) == (14, OPENING_REMARK)


async def test_more_than_can_wait_is_refused_at_once(
    tmp_path: Path, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening_module, "WAITING_BYTES_MAX", 10)
    async with opening_beside_a_master(controller, tmp_path) as (_, _, config, client):
        large = RemotingCommand(34, body=b"x" * 11)
        answer = await client.call(config.listen, large, TIMEOUT_MS)
        assert (answer.code, answer.remark) == (14, OPENING_REMARK)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(RemotingCommand(19002), id="who asks for the status wants to know it now"),
        pytest.param(
            RemotingCommand(310, ext={"regentForwardedFor": "10.0.0.1:5"}),
            id="what another replica passed on goes back to it",
        ),
    ],
)
async def test_what_must_not_wait_is_refused_at_once(
    tmp_path: Path, controller: ScriptedController, request_: RemotingCommand
) -> None:
    async with opening_beside_a_master(controller, tmp_path) as (_, opening, config, client):
        answer = await client.call(config.listen, request_, TIMEOUT_MS)
        assert answer.code == 14
        assert opening._waiting == opening._forwarder.waiting == 0


async def test_while_nobody_else_leads_the_port_is_closed(
    tmp_path: Path, controller: ScriptedController
) -> None:
    """Controllers probe it to learn that the master is gone."""
    config = broker_config(tmp_path, [controller.address])
    controller.addresses[1], controller.master = (config.listen, config.ha_listen), 1
    opening, client = Opening(config), RemotingClient()
    opening.begin(config)
    try:
        await until(lambda: controller.heard_codes().count(1004) > 2, "it asked who leads")
        with pytest.raises(ConnectFailed):
            await client.call(config.listen, RemotingCommand(19002), TIMEOUT_MS)
        assert opening.roles.master_address is None
    finally:
        await client.close()
        await opening.close()


async def test_an_address_that_is_still_its_predecessors_is_taken_when_it_is_free(
    tmp_path: Path, controller: ScriptedController
) -> None:
    master = await start_broker(broker_config(tmp_path / "a", [controller.address]))
    await until(lambda: master.roles.serving, "the first broker serves")
    config = broker_config(tmp_path / "b", [controller.address])
    before, opening = Opening(config), Opening(config)
    await before._listen()
    opening.begin(config)
    try:
        asked = controller.heard_codes().count(1004)
        await until(lambda: controller.heard_codes().count(1004) > asked + 1, "it tried")
        assert not opening._listens
        await before.close()
        await until(lambda: opening._listens, "it listens")
    finally:
        await before.close()
        await opening.close()
        await master.stop("test")
