"""A setting that is changed while a broker runs counts at once, and after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.configuration.names import SETTINGS
from brokers.process import in_force
from brokers.process.broker import BrokerProcess
from brokers.process.config import BrokerConfig
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.store.log.delay_levels import DELAY_LEVELS, delay_levels, use_delay_levels
from events.config_changes import Counts
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.brokers import (
    broker_config,
    call,
    pull_request,
    send_request,
    start_broker,
    until,
)
from tests.support.scripted_controller import ScriptedController


class Lone:
    """One broker that leads, with a controller and a name server, and a client of it."""

    broker: BrokerProcess

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.controller, self.client = ScriptedController(), RemotingClient()
        self.name_server = NameServer(NameServerConfig(listen="127.0.0.1:0"))

    async def start(self) -> None:
        await self.controller.start()
        await self.name_server.start()
        servers = [f"127.0.0.1:{self.name_server.port}"]
        await self.run(broker_config(self.folder, [self.controller.address], servers))

    async def run(self, config: BrokerConfig) -> None:
        self.config = config
        self.broker = await start_broker(config)
        await until(lambda: self.broker.roles.serving, "the broker serves")

    async def set(self, text: str) -> RemotingCommand:
        return await call(self.client, self.broker, RemotingCommand.request(25, body=text.encode()))

    async def perm(self) -> int | None:
        answer = await self.client.call(
            self.config.name_servers[0], RemotingCommand.request(105, {"topic": "T"}), 30_000
        )
        route = fastjson.loads(answer.body) if answer.code == 0 else {"queueDatas": [{}]}
        assert isinstance(route, dict)
        return route["queueDatas"][0].get("perm")

    async def stop(self) -> None:
        await self.client.close()
        await self.broker.stop("test")
        await self.name_server.close()
        await self.controller.close()


@pytest.fixture
async def lone(tmp_path: Path) -> AsyncIterator[Lone]:
    made = Lone(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def test_73_each_setting_that_counts_at_once_is_in_force(lone: Lone) -> None:
    service, broker = lone.broker.service, lone.broker
    changes = {
        "fileReservedTime": "5", "deleteWhen": "07", "diskMaxUsedSpaceRatio": "50",
        "disk_clean_forcibly_percent": "90", "disk_full_percent": "91",
        "transactionCheckMax": "3", "transactionTimeOut": "9",
        "timerMaxDelaySec": "60", "timerStopDequeue": "true", "recallMessageEnable": "true",
        "rejectTransactionMessage": "true", "waitTimeMillsInSendQueue": "77",
        "popFromRetryProbability": "33", "enablePropertyFilter": "false",
        "autoCreateTopicEnable": "false", "slaveReadEnable": "true",
    }  # fmt: skip
    answer = await lone.set("\n".join(f"{key}={value}" for key, value in changes.items()))
    assert (answer.code, answer.remark) == (0, None)
    policy = broker.retention.policy
    assert (policy.reserved_ms, policy.hours) == (18_000_000, frozenset({7}))
    assert (policy.max_percent, policy.full_percent) == (50, 91)
    terms, rules = service.checks._terms, service.timers.rules
    assert (terms.checks_max, terms.timeout_ms, terms.reserved_ms) == (3, 9, 18_000_000)
    assert service.transactions._terms is terms
    assert (rules.delay_max_ms, rules.stop_dequeue, rules.recall_enabled) == (60_000, True, True)
    assert service.timers.timed._rules is rules
    assert service.sends.rejects_transactions and service.sends.gate.queue_wait_ms == 77
    assert service.popping.terms.settings.retry_first_percent == 33
    assert not service.filters.by_properties and service.pulls.slave_reads.enabled
    assert (await call(lone.client, broker, send_request("New", b"x"))).code == 17


def test_every_setting_that_counts_at_once_is_put_into_force_somewhere() -> None:
    live = {name for name, one in SETTINGS.items() if one.counts is Counts.AT_ONCE}
    kept = {*in_force.RETENTION, *in_force.TRANSACTIONS, *in_force.TIMERS, *in_force.SENDS}
    assert live == kept | {*in_force.POPS, *in_force.ASKED, *in_force.PERMISSION, *in_force.READS}


async def test_brokers_permission_counts_for_requests_and_routes_at_once(lone: Lone) -> None:
    assert (await call(lone.client, lone.broker, send_request("T", b"x"))).code == 0
    assert await lone.perm() == 6
    assert (await lone.set("brokerPermission=2")).code == 0
    assert (await call(lone.client, lone.broker, pull_request("T", 0, 0))).code == 16
    while await lone.perm() != 2:
        pass
    assert (await lone.set("brokerPermission=6")).code == 0
    assert (await call(lone.client, lone.broker, pull_request("T", 0, 0))).code != 16
    while await lone.perm() != 6:
        pass


async def test_messages_are_not_to_be_refused_while_old_files_stay(lone: Lone) -> None:
    before = lone.broker.retention.policy
    answer = await lone.set("disk_clean_forcibly_percent=85\ndisk_full_percent=80")
    assert answer.code == 1
    assert (answer.remark or "").startswith("nothing is changed: disk_full_percent (80) must not")
    assert lone.broker.retention.policy is before
    assert (await lone.set("disk_clean_forcibly_percent=79\ndisk_full_percent=80")).code == 0
    assert lone.broker.retention.policy.full_percent == 80


async def test_73_a_restart_keeps_what_was_changed(lone: Lone) -> None:
    answer = await lone.set("messageDelayLevel=1s 2s\nfileReservedTime=9")
    assert answer.remark == "from the next start on: message_delay_level"
    await lone.broker.stop("test")
    await lone.run(lone.config)
    assert lone.broker.config.message_delay_level == "1s 2s"
    assert lone.broker.retention.policy.reserved_ms == 9 * 3_600_000
    shown = (await call(lone.client, lone.broker, RemotingCommand.request(26))).body.decode()
    assert "messageDelayLevel=1s 2s\n" in shown and "brokerRole=ASYNC_MASTER\n" in shown
    use_delay_levels(delay_levels(DELAY_LEVELS))
