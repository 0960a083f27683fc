"""A controller process that cannot start, or has not yet (the rest needs a real Kafka:
tests/integration).
"""

import asyncio
import json
import logging
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from brokers.remoting.calls import ConnectFailed
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from events import last_resort
from processors.process import controller, data_folder
from processors.process.controller import ControllerProcess
from processors.settings.config import ControllerConfig
from tests.support.brokers import free_port
from tests.support.controller_rig import Rig


def config(folder: Path, **changes: object) -> ControllerConfig:
    fields: dict[str, object] = {
        "controller_id": "c1",
        "listen": f"127.0.0.1:{free_port()}",
        "data_dir": folder,
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "local_cluster": True,
        "kafka_wait_ms": 0,
    }
    return ControllerConfig.model_validate(fields | changes)


async def test_a_kafka_that_is_not_there_ends_the_start_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await controller.run(config(tmp_path)) == 1
    (line,) = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert "127.0.0.1:1 is not reachable" in line and "\n" not in line


@pytest.mark.parametrize("name", ["listen", "http_listen"])
async def test_a_port_in_use_ends_the_start_with_one_line_that_names_the_setting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert await controller.run(config(tmp_path, **{name: address})) == 1
    (line,) = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.startswith(f"{address} cannot be listened on: ") and line.endswith(
        f"; choose another {name}"
    )


async def test_a_folder_that_another_controller_lives_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(folder: Path) -> int:
        raise data_folder.FolderTaken(f"data folder {folder} is in use by process 7")

    monkeypatch.setattr(data_folder, "claim", taken)
    with pytest.raises(OSError, match="is in use by process 7"):
        await controller.run(config(tmp_path))


async def test_while_starting_it_answers_that_it_is_not_ready(tmp_path: Path) -> None:
    process = ControllerProcess(config(tmp_path, kafka_wait_ms=120_000))
    starting = asyncio.ensure_future(process.start())
    client = RemotingClient()
    address = process._config.listen
    while client.connection(address) is None:
        try:
            await client.connect(address)
        except ConnectFailed:
            await asyncio.sleep(0.01)
    status = await client.call(address, RemotingCommand.request(19002), 30_000)
    assert json.loads(status.body)["ready"] is False
    refused = await client.call(address, RemotingCommand.request(1004, {"brokerName": "a"}), 30_000)
    assert refused.code == 2007
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await client.close()
    await process.close()


async def test_a_tick_that_fails_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ControllerProcess(config(tmp_path))
    process._core = Rig().core
    process._ended = asyncio.get_running_loop().create_future()

    def stumble(now_ms: int, wall_ms: int) -> None:
        raise AssertionError("planted")

    monkeypatch.setattr(process._core, "tick", stumble)
    async with asyncio.timeout(60):
        assert await process.serve() == controller.EXIT_HALTED
    await process.close()


@pytest.mark.parametrize(
    ("halted", "limit"),
    [
        (False, (last_resort.STOP_MAX_S, last_resort.EXIT_STUCK)),
        (True, (controller.CLOSE_MAX_S, controller.EXIT_HALTED)),
    ],
)
async def test_a_close_that_hangs_would_end_the_process_however_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, halted: bool, limit: tuple[float, int]
) -> None:
    seen: list[object] = []

    class Resort:
        def __init__(self, who: str, limit_s: float, code: int) -> None:
            seen.append((limit_s, code))

        def arm(self) -> None:
            seen.append("armed")

        def disarm(self) -> None:
            seen.append("disarmed")

    monkeypatch.setattr(controller, "LastResort", Resort)
    process = ControllerProcess(config(tmp_path))
    if halted:
        process._halt("planted")
    close = process._log.close

    async def closed(*, snapshot: bool) -> None:
        seen.append("closing")
        await close(snapshot=snapshot)

    monkeypatch.setattr(process._log, "close", closed)
    await process.close()
    assert seen == [limit, "armed", "closing", "disarmed"]


@pytest.mark.parametrize(
    ("peer", "told", "believed"),
    [
        ("10.0.0.2:4711", "10.0.0.2:9090", True),
        ("10.0.0.2:4711", "6.6.6.6:9090", False),
        ("6.6.6.6:4711", "6.6.6.6:9090", False),
        ("6.6.6.6:4711", "10.0.0.2:9090", False),
        ("192.168.7.7:4711", "192.168.7.7:9090", True),
        ("192.168.7.7:4711", "10.0.0.2:9090", True),
    ],
)
async def test_snapshots_are_fetched_from_no_host_but_the_one_that_speaks_for_that_controller(
    tmp_path: Path, peer: str, told: str, believed: bool
) -> None:
    """Before it has followed the log a controller knows its peers by nothing else."""
    process = ControllerProcess(
        config(tmp_path, peers={"c2": "10.0.0.2:9878"}, peer_networks={"c2": "192.168.0.0/16"})
    )
    word = RemotingCommand.request(19001, {"controllerId": "c2", "httpAddress": told}, oneway=True)
    assert process._handle(SimpleNamespace(peer=peer), word) is None  # type: ignore[arg-type]
    assert process._log._peers_http == ({"c2": told} if believed else {})
    await process.close()


async def test_the_reserve_is_there_for_controllers_and_registered_replicas(tmp_path: Path) -> None:
    process = ControllerProcess(config(tmp_path, peers={"c2": "10.0.0.2:9878"}))
    assert process._has_place("10.0.0.2:4711") and not process._has_place("b1:4711")
    rig = Rig().lead().three()
    process._core = rig.core
    assert process._has_place("b1:4711") and not process._has_place("6.6.6.6:4711")
    process._core = None
    await process.close()


def test_command_ids_are_16_bytes_and_differ() -> None:
    ids = controller.random_ids()
    first, second = next(ids), next(ids)
    assert len(first) == 16 and first != second


def test_the_release_is_never_empty() -> None:
    assert controller.release()
