"""What somebody who belongs to no set can do to real brokers on real sockets: nothing that lasts. The controller is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.broker_process import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from tests.support.brokers import PATIENT, broker_config, call, running_set, send_request, until
from tests.support.scripted_controller import ScriptedController


@pytest.fixture
async def brokers(tmp_path: Path, controller: ScriptedController) -> AsyncIterator[list[BrokerProcess]]:
    configs = [broker_config(tmp_path / f"b{number}", [controller.address], min_in_sync_replicas=2, **PATIENT) for number in range(2)]
    async with running_set(controller, configs) as made:
        yield made


def notice(**changes: str) -> RemotingCommand:
    ext = {"masterBrokerId": "2", "masterAddress": "127.0.0.1:1", "masterEpoch": "9", "syncStateSetEpoch": "9", "regentSyncStateSet": "2",
           "regentMasterHaAddress": "127.0.0.1:2", "regentReplicas": "2=127.0.0.1:1"}  # fmt: skip
    return RemotingCommand.request(1008, ext | changes)


@pytest.mark.parametrize("changes", [
    {}, {"masterBrokerId": "66"}, {"masterEpoch": str(2**31 - 2)}, {"masterEpoch": str(2**63 - 1)}, {"regentNoticeToken": "0" * 32},
], ids=["itself", "an invented master", "the last epoch", "no epoch at all", "a guessed token"])  # fmt: skip
async def test_a_strangers_1008_to_a_slave_makes_no_master_and_fences_nobody(
    brokers: list[BrokerProcess], client: RemotingClient, controller: ScriptedController, changes: dict[str, str]
) -> None:
    master, slave = brokers
    before = [(one.roles.role, one.replica.core.master_epoch, one.replica.core.log.epoch_seen) for one in brokers if one.replica.core]
    asked = controller.heard_codes().count(1004)
    for _ in range(20):
        for one in brokers:
            await call(client, one, notice(**changes))
    await until(lambda: controller.heard_codes().count(1004) > asked + 4, "the controller was asked")
    assert [(one.roles.role, one.replica.core.master_epoch, one.replica.core.log.epoch_seen) for one in brokers if one.replica.core] == before
    assert slave.membership.replicas == master.membership.replicas and 66 not in slave.membership.replicas
    assert (await call(client, slave, send_request("T", b"still there"))).code == 0
    assert slave.store.log_end == master.store.log_end > 0


@pytest.mark.parametrize("repeats_tokens", [True, False], ids=["ours", "Java's or of an earlier release"])
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
