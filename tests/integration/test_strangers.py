"""What somebody who belongs to no set can do to real brokers on real sockets: nothing that lasts.
The controller is scripted.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.ha.log_sender import LinkLimits
from brokers.process.broker import BrokerProcess
from brokers.remoting.addresses import split_address
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.replica.config import LINKS_MAX
from tests.support.brokers import (
    PATIENT,
    broker_config,
    call,
    patient_set,
    send_request,
    start_broker,
    until,
)
from tests.support.scripted_controller import ScriptedController


@pytest.fixture
async def brokers(
    tmp_path: Path, controller: ScriptedController
) -> AsyncIterator[list[BrokerProcess]]:
    async with patient_set(controller, tmp_path, 2) as made:
        yield made


def notice(**changes: str) -> RemotingCommand:
    ext = {
        "masterBrokerId": "2",
        "masterAddress": "127.0.0.1:1",
        "masterEpoch": "9",
        "syncStateSetEpoch": "9",
        "regentSyncStateSet": "2",
        "regentMasterHaAddress": "127.0.0.1:2",
        "regentReplicas": "2=127.0.0.1:1",
    }
    return RemotingCommand.request(1008, ext | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"masterBrokerId": "66"},
        {"masterEpoch": str(2**31 - 2)},
        {"masterEpoch": str(2**63 - 1)},
        {"regentNoticeToken": "0" * 32},
    ],
    ids=["itself", "an invented master", "the last epoch", "no epoch at all", "a guessed token"],
)
async def test_a_strangers_1008_to_a_slave_makes_no_master_and_fences_nobody(
    brokers: list[BrokerProcess],
    client: RemotingClient,
    controller: ScriptedController,
    changes: dict[str, str],
) -> None:
    master, slave = brokers
    before = [
        (one.roles.role, one.replica.core.master_epoch, one.replica.core.log.epoch_seen)
        for one in brokers
        if one.replica.core
    ]
    asked = controller.heard_codes().count(1004)
    for _ in range(20):
        for one in brokers:
            await call(client, one, notice(**changes))
    await until(
        lambda: controller.heard_codes().count(1004) > asked + 4, "the controller was asked"
    )
    assert [
        (one.roles.role, one.replica.core.master_epoch, one.replica.core.log.epoch_seen)
        for one in brokers
        if one.replica.core
    ] == before
    assert (
        slave.membership.replicas == master.membership.replicas
        and 66 not in slave.membership.replicas
    )
    assert (await call(client, slave, send_request("T", b"still there"))).code == 0
    assert slave.store.log_end == master.store.log_end > 0


@pytest.mark.parametrize(
    "repeats_tokens", [True, False], ids=["ours", "Java's or of an earlier release"]
)
async def test_an_election_is_followed_whichever_controller_tells_it(
    brokers: list[BrokerProcess], controller: ScriptedController, repeats_tokens: bool
) -> None:
    controller.repeats_tokens = repeats_tokens
    asked = controller.heard_codes().count(1004)
    began = asyncio.get_running_loop().time()
    await controller.elect(2, [1, 2])
    await until(lambda: brokers[1].roles.serving and not brokers[0].roles.serving, "roles changed")
    assert asyncio.get_running_loop().time() - began < 30
    assert repeats_tokens or controller.heard_codes().count(1004) > asked


class Crowd:
    """Says nothing on as many connections as it is left, and opens more all the time."""

    def __init__(self, address: str) -> None:
        self._address = split_address(address)
        self.idle: list[socket.socket] = []
        self.opened = 0
        self._opening = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            one = socket.socket()
            one.setblocking(False)
            self.idle.append(one)
            await loop.sock_connect(one, self._address)
            self.opened += 1
            if self.opened % LINKS_MAX == 0:
                self.idle = [one for one in self.idle if _is_open(one)]
            await asyncio.sleep(0.002)

    async def end(self) -> None:
        self._opening.cancel()
        await asyncio.gather(self._opening, return_exceptions=True)
        for one in self.idle:
            one.close()


def _is_open(one: socket.socket) -> bool:
    try:
        is_open = one.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        is_open = False
    if not is_open:
        one.close()
    return is_open


async def test_idle_links_keep_no_slave_out(
    tmp_path: Path, client: RemotingClient, controller: ScriptedController
) -> None:
    """They are opened again as fast as the master ends them, while a slave links for the first
    time.
    """
    configs = [
        broker_config(
            tmp_path / f"b{number}", [controller.address], min_in_sync_replicas=2, **PATIENT
        )
        for number in range(2)
    ]
    master = await start_broker(configs[0])
    await until(lambda: master.replica.leads(), "the first broker leads")
    crowd = Crowd(configs[0].ha_listen)
    await until(
        lambda: crowd.opened > 2 * LINKS_MAX, "more idle links were opened than a master takes"
    )
    began = asyncio.get_running_loop().time()
    slave = await start_broker(configs[1])
    try:
        await until(lambda: controller.members == [1, 2], "the slave is a member")
        took_ms = (asyncio.get_running_loop().time() - began) * 1_000
        assert took_ms < LinkLimits(1).handshake_timeout_ms, (
            "it waited until the first idle links were ended for their silence"
        )
        assert (await call(client, master, send_request("T", b"on both"))).code == 0
        assert slave.store.log_end == master.store.log_end > 0
    finally:
        await crowd.end()
        for broker in (slave, master):
            await broker.stop("test")
