"""Whole brokers of a set without controllers: a master, its slave, a name server."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.membership.fixed_membership import FixedMembership
from brokers.membership.membership import Membership
from brokers.process.broker import BrokerProcess
from brokers.process.config import BrokerConfig
from brokers.process.fixed_core import make_fixed_core
from brokers.process.memberships import make_membership
from brokers.process.replica import LocalReplica
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.replica.fixed.core import FixedCore
from tests.support.brokers import (
    broker_config,
    call,
    pull_request,
    send_request,
    start_broker,
    until,
)

UNHURRIED = {"ack_timeout_ms": 20_000, "name_server_register_ms": 1_000}


def fixed(folder: Path, broker_id: int, name_server: str, **changes: object) -> BrokerConfig:
    return broker_config(
        folder / f"b{broker_id}",
        [],
        [name_server] if name_server else [],
        broker_id=broker_id,
        **(UNHURRIED | changes),
    )


def log_of(broker: BrokerProcess) -> bytes:
    store = broker.store
    return b"".join(
        store.read_log(at, 1 << 20) for at in range(store.log_min, store.log_end, 1 << 20)
    )


async def same_logs(first: BrokerProcess, second: BrokerProcess) -> None:
    await until(lambda: first.store.log_end == second.store.log_end, "both logs end alike")
    assert log_of(first) == log_of(second)


async def test_a_send_is_answered_once_the_slave_has_it_and_a_slave_passes_it_on(
    tmp_path: Path, name_server: str, client: RemotingClient
) -> None:
    master = await start_broker(fixed(tmp_path, 0, name_server))
    slave = await start_broker(fixed(tmp_path, 1, name_server))
    await until(lambda: master.replica.ha_status().slaves, "the slave is linked")
    for number in range(20):
        to = master if number % 2 else slave
        answer = await call(client, to, send_request("T", b"m%d" % number))
        assert answer.code == 0, answer.remark
        assert slave.store.log_end >= int(answer.ext["queueOffset"])
    await same_logs(master, slave)
    assert master.roles.role == "MASTER" and slave.roles.role == "SLAVE"
    assert slave.roles.master_address == master.config.advertised
    assert not (master.config.store_dir / "epochFileCheckpoint").exists()
    await until(lambda: slave.tables.topics.get("T"), "the slave copied the topics")
    for broker in (slave, master):
        await broker.stop("test")


async def test_without_a_slave_a_send_is_stored_and_answered_as_unsure(
    tmp_path: Path, name_server: str, client: RemotingClient
) -> None:
    master = await start_broker(fixed(tmp_path, 0, name_server, ack_timeout_ms=200))
    await until(lambda: master.roles.serving, "it leads at once")
    assert (await call(client, master, send_request("T", b"alone"))).code == 12
    found = await call(client, master, pull_request("T", 0, 0))
    assert found.code == 0 and b"alone" in found.body
    await master.stop("test")


async def test_an_asynchronous_master_waits_for_nobody(
    tmp_path: Path, client: RemotingClient
) -> None:
    master = await start_broker(fixed(tmp_path, 0, "", broker_role="ASYNC_MASTER"))
    await until(lambda: master.roles.serving, "it leads at once")
    assert (await call(client, master, send_request("T", b"alone"))).code == 0
    assert master.status().ack_mode == "asynchronous (may lose)"
    await master.stop("test")


async def test_a_master_that_comes_back_goes_on_with_its_log(
    tmp_path: Path, name_server: str, client: RemotingClient
) -> None:
    config = fixed(tmp_path, 0, name_server)
    master = await start_broker(config)
    slave = await start_broker(fixed(tmp_path, 1, name_server))
    await until(lambda: master.replica.ha_status().slaves, "the slave is linked")
    assert (await call(client, master, send_request("T", b"before"))).code == 0
    await master.stop("test")
    master = await start_broker(config)
    await until(lambda: master.replica.ha_status().slaves, "the slave is linked again")
    assert (await call(client, master, send_request("T", b"after"))).code == 0
    await same_logs(master, slave)
    for broker in (slave, master):
        await broker.stop("test")


async def test_a_slave_finds_its_master_by_a_configured_address(
    tmp_path: Path, client: RemotingClient
) -> None:
    master = await start_broker(fixed(tmp_path, 0, ""))
    slave = await start_broker(
        fixed(tmp_path, 2, "", ha_master_address=master.config.ha_advertised)
    )
    await until(lambda: master.replica.ha_status().slaves, "the slave is linked")
    assert (await call(client, master, send_request("T", b"x"))).code == 0
    await same_logs(master, slave)
    for broker in (slave, master):
        await broker.stop("test")


async def test_a_slave_whose_log_went_its_own_way_is_cut_and_keeps_a_copy(
    tmp_path: Path, name_server: str, client: RemotingClient
) -> None:
    """As when a master lost the end of its log with its power."""
    config = fixed(tmp_path, 0, name_server, broker_role="ASYNC_MASTER")
    master = await start_broker(config)
    other = fixed(tmp_path, 1, name_server)
    slave = await start_broker(other)
    await until(lambda: master.replica.ha_status().slaves, "the slave is linked")
    assert (await call(client, master, send_request("T", b"both have it"))).code == 0
    await same_logs(master, slave)
    await slave.stop("test")
    alone = await start_broker(
        other.model_copy(update={"broker_id": 0, "broker_role": "ASYNC_MASTER"})
    )
    await until(lambda: alone.roles.serving, "it leads")
    assert (await call(client, alone, send_request("T", b"nobody else has it"))).code == 0
    await alone.stop("test")
    assert (await call(client, master, send_request("T", b"the set has this"))).code == 0
    slave = await start_broker(other)
    await same_logs(master, slave)
    kept = list((other.store_dir / "cutAtStart").iterdir())
    assert len(kept) == 1 and b"nobody else has it" in kept[0].read_bytes()
    for broker in (slave, master):
        await broker.stop("test")


async def test_a_slave_with_nothing_in_common_with_its_master_says_so_once_and_what_to_do(
    tmp_path: Path, name_server: str, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    other = fixed(tmp_path, 1, name_server)
    role = {"broker_id": 0, "broker_role": "ASYNC_MASTER"}
    alone = await start_broker(other.model_copy(update=role))
    await until(lambda: alone.roles.serving, "it leads")
    assert (await call(client, alone, send_request("T", b"nobody else has it"))).code == 0
    held = log_of(alone)
    await alone.stop("test")
    master = await start_broker(fixed(tmp_path, 0, name_server))
    slave = await start_broker(other)
    await until(lambda: "start this replica with an empty store" in caplog.text, "it is said")
    asked = slave.replica.ha_status().master
    assert asked is not None and asked.read_ms_ago is None
    assert log_of(slave) == held and not (other.store_dir / "cutAtStart").exists()
    assert caplog.text.count("the master is not followed") == 1
    for broker in (slave, master):
        await broker.stop("test")


@pytest.mark.parametrize("slaves_file_bytes", [1 << 19, 1 << 21])
async def test_a_slave_with_files_of_another_size_counts_as_no_copy_and_says_why(
    tmp_path: Path,
    name_server: str,
    client: RemotingClient,
    caplog: pytest.LogCaptureFixture,
    slaves_file_bytes: int,
) -> None:
    """Its next start would cut what it held."""
    master = await start_broker(fixed(tmp_path, 0, name_server, ack_timeout_ms=1_000))
    slave = await start_broker(
        fixed(tmp_path, 1, name_server, commit_log_file_bytes=slaves_file_bytes)
    )
    await until(lambda: master.replica.ha_status().slaves, "the slave is linked")
    for _ in range(30):
        await call(client, master, send_request("T", bytes(100_000)))
    await until(lambda: "the master is not followed" in caplog.text, "it is said")
    assert "commit_log_file_bytes" in caplog.text
    await until(lambda: not master.replica.ha_status().slaves, "the master lost its slave")
    assert (await call(client, master, send_request("T", b"nobody else has it"))).code == 12
    for broker in (slave, master):
        await broker.stop("test")


async def test_name_servers_and_tools_see_a_set_of_rocketmqs_kind(
    tmp_path: Path, name_server: str, client: RemotingClient
) -> None:
    master = await start_broker(fixed(tmp_path, 0, name_server))
    slave = await start_broker(fixed(tmp_path, 1, name_server))

    async def members() -> object:
        ext = {"clusterName": "regent", "brokerName": "broker-a"}
        answer = await client.call(name_server, RemotingCommand.request(901, ext), 5_000)
        return fastjson.loads(answer.body)["brokerMemberGroup"]["brokerAddrs"]

    wanted = {"0": master.config.advertised, "1": slave.config.advertised}
    await until(lambda: master.membership.replicas == slave.membership.replicas != {}, "all heard")
    assert await members() == wanted
    assert master.replica.core is not None and isinstance(master.replica.core, FixedCore)
    assert master.replica.core.master is not None
    await until(lambda: master.replica.core.master.alive == 2, "both count as alive")
    status = await call(client, master, RemotingCommand.request(907))
    seen = fastjson.loads(status.body)
    assert seen["master"] is True and len(seen["haConnectionInfo"]) == 1
    settings = (await call(client, slave, RemotingCommand.request(26))).body.decode()
    told = dict(line.split("=", 1) for line in settings.splitlines() if "=" in line)
    assert (told["brokerRole"], told["brokerId"], told["enableControllerMode"]) == (
        "SLAVE",
        "1",
        "false",
    )
    for broker in (slave, master):
        await broker.stop("test")


def test_settings_reach_the_core_and_a_folder_of_a_set_with_controllers_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = fixed(
        tmp_path, 0, "", in_sync_replicas=3, ha_in_sync_gap_bytes=5, ha_flow_control=True
    )
    replica = LocalReplica(config)
    core = make_fixed_core(config, replica.boot, replica.store)
    rule = core.config.ack_rule
    assert (rule.waits, rule.in_sync, rule.gap_bytes_max, rule.counts_in_sync) == (
        True,
        3,
        5,
        False,
    )
    assert core.config.ha_flow_bytes_per_s == config.ha_transfer_bytes_per_s
    assert "min_in_sync_replicas has no effect" in caplog.text  # 1 here, and 2 where nobody says
    caplog.clear()
    usual = config.model_copy(update={"min_in_sync_replicas": 2})
    make_fixed_core(usual, replica.boot, replica.store)
    assert "min_in_sync_replicas" not in caplog.text
    assert "nobody takes over" in caplog.text and "with controllers" not in caplog.text
    (config.store_dir / "epochFileCheckpoint").write_text("")
    make_fixed_core(config, replica.boot, replica.store)
    assert "comes from a set with controllers" in caplog.text
    replica.close()


@pytest.mark.parametrize(("broker_id", "kind"), [(0, FixedMembership), (None, Membership)])
async def test_the_configuration_says_who_gives_the_place(
    tmp_path: Path, client: RemotingClient, broker_id: int | None, kind: type
) -> None:
    controllers = [] if broker_id is not None else ["127.0.0.1:1"]
    config = broker_config(tmp_path, controllers, broker_id=broker_id)
    replica = LocalReplica(config)
    nothing = lambda *_: None
    made = make_membership(config, replica, client, Clock(), nothing, nothing, nothing, nothing)
    assert isinstance(made, kind)
    await made.close()
    replica.close()
