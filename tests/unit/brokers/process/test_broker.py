"""Starting and stopping: in order, with one line for what cannot be."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from brokers.membership.identity_file import IdentityFiles
from brokers.membership.registration import Identity
from brokers.process import program
from brokers.process.broker import BrokerProcess
from brokers.process.opening import StartRefused
from brokers.process.program import run
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from events.last_resort import EXIT_STUCK, LastResort
from infra.migration.import_plan import ha_facts
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.brokers import PATIENT, broker_config, call, send_request, start_broker, until
from tests.support.scripted_controller import ScriptedController


@pytest.fixture
async def controller():
    scripted = ScriptedController()
    await scripted.start()
    yield scripted
    await scripted.close()


async def test_a_taken_port_is_named(tmp_path: Path, controller: ScriptedController) -> None:
    broker = await start_broker(broker_config(tmp_path / "a", [controller.address]))
    second = BrokerProcess(
        broker_config(tmp_path / "b", [controller.address], listen=broker.config.listen)
    )
    with pytest.raises(StartRefused, match=broker.config.listen):
        await second.start()
    await second.stop("failed")
    await broker.stop("test")


async def test_before_it_has_a_role_clients_wait_and_are_never_told_that_it_knows_nothing(
    tmp_path: Path,
) -> None:
    """Code 3 is one that stock clients do not try again."""
    config = broker_config(tmp_path / "a", ["127.0.0.1:1"], hold_without_master_ms=50)
    broker, client = await start_broker(config), RemotingClient()
    try:
        answer = await call(client, broker, send_request("T", b"too early"))
        assert answer.code == 14 and "not the master" in str(answer.remark)
        greeting = RemotingCommand(34, body=fastjson.dumps({"clientID": "c"}))
        assert (await call(client, broker, greeting)).code == 0
    finally:
        await client.close()
        await broker.stop("test")


async def test_a_refused_start_ends_with_code_2(
    tmp_path: Path, controller: ScriptedController, caplog: pytest.LogCaptureFixture
) -> None:
    IdentityFiles(tmp_path / "store").write_identity(Identity("regent", "other", 1))
    assert await run(broker_config(tmp_path / "store", [controller.address])) == 2
    assert "other" in caplog.text


async def test_a_store_folder_that_is_none_is_named(
    tmp_path: Path, controller: ScriptedController, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert await run(broker_config(tmp_path / "file" / "store", [controller.address])) == 2
    assert "cannot be used" in caplog.text


async def test_both_ports_serve_and_the_second_may_be_taken(
    tmp_path: Path, controller: ScriptedController
) -> None:
    config = broker_config(tmp_path, [controller.address], second_listen=True)
    host, port = config.listen.split(":")
    broker = await start_broker(config)
    await until(lambda: broker.roles.serving, "the broker serves")
    client = RemotingClient()
    answer = await client.call(f"{host}:{int(port) - 2}", RemotingCommand.request(21), 5_000)
    assert answer.code == 0
    await client.close()
    await broker.stop("test")


async def test_the_route_appears_with_the_role_and_goes_with_the_stop(
    tmp_path: Path, controller: ScriptedController
) -> None:
    name_server, client = NameServer(NameServerConfig(listen="127.0.0.1:0")), RemotingClient()
    await name_server.start()
    address = f"127.0.0.1:{name_server.port}"
    broker = await start_broker(broker_config(tmp_path, [controller.address], [address]))
    await until(lambda: broker.roles.serving, "the broker serves")
    assert (await call(client, broker, send_request("T", b"x"))).code == 0
    # The send was acknowledged, so the name server knows its topic.
    assert (
        await client.call(address, RemotingCommand.request(105, {"topic": "T"}), 5_000)
    ).code == 0
    await broker.stop("test")
    assert (
        await client.call(address, RemotingCommand.request(105, {"topic": "T"}), 5_000)
    ).code == 17
    await client.close()
    await name_server.close()


async def test_a_topic_that_the_name_server_says_is_in_order_is_one_at_the_broker(
    tmp_path: Path, controller: ScriptedController
) -> None:
    config = NameServerConfig(listen="127.0.0.1:0", data_dir=str(tmp_path / "names"))
    name_server, client = NameServer(config), RemotingClient()
    await name_server.start()
    address = f"127.0.0.1:{name_server.port}"
    # given: what updateOrderConf puts there
    put = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "b:4"}
    assert (await client.call(address, RemotingCommand.request(100, put), 5_000)).code == 0
    broker = await start_broker(broker_config(tmp_path, [controller.address], [address]))
    await until(lambda: broker.roles.serving, "the broker serves")
    # when: the topic is made, and registered
    assert (await call(client, broker, send_request("T", b"x"))).code == 0
    # then: 351 shows it, and it is pulled and sent to as before
    shown = await call(client, broker, RemotingCommand.request(351, {"topic": "T"}))
    assert b'"order":true' in shown.body
    assert (await call(client, broker, send_request("T", b"y"))).code == 0
    await broker.stop("test")
    await client.close()
    await name_server.close()


async def test_controllers_see_the_port_closed_before_the_connection_ends(
    tmp_path: Path, controller: ScriptedController
) -> None:
    """Their probe must find a broker that is gone, else the election waits for the heartbeat
    timeout.
    """
    refused: list[bool] = []

    def closed(_connection: object) -> None:
        refused.append(not broker.opening.server._server.is_serving())

    controller.server._on_close = closed
    broker = await start_broker(broker_config(tmp_path, [controller.address]))
    await until(lambda: broker.roles.serving, "the broker serves")
    await broker.stop("test")
    await until(lambda: refused, "the connection ended")
    assert refused == [True]


async def test_waiting_sends_are_answered_before_the_end(
    tmp_path: Path, controller: ScriptedController
) -> None:
    # the absent member stays one
    broker = await start_broker(broker_config(tmp_path, [controller.address], **PATIENT))
    await until(lambda: broker.roles.serving, "the broker serves")
    client = RemotingClient()
    assert (await call(client, broker, send_request("T", b"x"))).code == 0
    controller.members, controller.set_epoch = [1, 2], controller.set_epoch + 1
    await until(
        lambda: broker.replica.core.sync_state_set == (1, 2), "a member that is not there counts"
    )
    waiting = asyncio.ensure_future(call(client, broker, send_request("T", b"y")))
    await until(lambda: waiting.done() or broker.service.sends.waiting == 1, "the send waits")
    await broker.stop("test")
    assert (await waiting).code in (1, 14)
    await client.close()


async def test_a_running_pair_proves_its_set_to_who_imports_it(
    tmp_path: Path, controller: ScriptedController
) -> None:
    first = await start_broker(broker_config(tmp_path / "1", [controller.address]))
    await until(lambda: first.roles.serving, "the first one serves")
    second = await start_broker(broker_config(tmp_path / "2", [controller.address]))
    await until(lambda: first.replica.core.sync_state_set == (1, 2), "the second one is in sync")
    client = RemotingClient()
    bodies = [
        fastjson.loads((await call(client, broker, RemotingCommand.request(907))).body)
        for broker in (first, second)
    ]
    master, slave = (ha_facts("", body) for body in bodies)
    assert master is not None and (
        master.is_master,
        master.in_sync_slaves,
        master.links_in_sync,
    ) == (True, 1, 1)
    assert slave is not None and not slave.is_master and slave.end_offset >= master.end_offset
    assert slave.master_ha_address == first.config.ha_listen
    await client.close()
    for broker in (second, first):
        await broker.stop("test")


HUNG_DISK = """
import asyncio, os, sys, threading
from functools import partial
from pathlib import Path
from brokers.process import program
from tests.support.brokers import broker_config

opened = program.BrokerProcess

def opened_before_the_disk_hangs(*parts, **others):
    made = opened(*parts, **others)
    os.fdatasync = os.fsync = lambda fd: threading.Event().wait()
    print("up", flush=True)
    return made

program.BrokerProcess = opened_before_the_disk_hangs
program.LastResort = partial(program.LastResort, limit_s=1.0)
sys.exit(asyncio.run(program.run(broker_config(Path(sys.argv[1]), [sys.argv[2]]))))
"""


async def test_a_stop_that_the_disk_holds_up_ends_all_the_same(
    tmp_path: Path, controller: ScriptedController
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HUNG_DISK,
        str(tmp_path),
        controller.address,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and await process.stdout.readline() == b"up\n"
    process.terminate()
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert (
        process.returncode == EXIT_STUCK
        and (b"has not stopped within 1 s: something hangs") in errors
    )


async def test_a_master_that_is_told_to_end_hands_over_first(
    tmp_path: Path, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[LastResort] = []
    monkeypatch.setattr(
        program, "LastResort", lambda who: limits.append(LastResort(who)) or limits[-1]
    )
    config, client = broker_config(tmp_path / "1", [controller.address]), RemotingClient()
    ending = asyncio.ensure_future(run(config))
    await until(lambda: controller.master == 1, "the first one leads")
    second = await start_broker(broker_config(tmp_path / "2", [controller.address]))
    await until(lambda: controller.members == [1, 2], "the second one is in sync")
    # The master hears that its proposal was taken a moment later, and hands over to members only.
    while fastjson.loads(
        (await client.call(config.listen, RemotingCommand.request(19002), 30_000)).body
    )["sync_state_set"] != [1, 2]:
        await asyncio.sleep(0.005)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await ending == 0
    limits[0].disarm()  # it covers what comes until the process is gone, and this one stays
    assert controller.master == 2 and controller.epoch == 2
    await until(lambda: second.roles.serving, "the second one leads")
    await client.close()
    await second.stop("test")
