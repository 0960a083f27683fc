"""A controller process that cannot start, or has not yet (the rest needs a real Kafka: tests/integration)."""

import asyncio
import json
import logging
import socket
from pathlib import Path

import pytest

from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import ConnectFailed
from processors import controller_process, folder_lock, last_resort
from processors.config import ControllerConfig
from processors.controller_process import ControllerProcess
from tests.support.brokers import free_port
from tests.support.controller_rig import Rig


def config(folder: Path, **changes: object) -> ControllerConfig:
    fields: dict[str, object] = {
        "controller_id": "c1", "listen": f"127.0.0.1:{free_port()}", "data_dir": folder,
        "kafka": {"bootstrap.servers": "127.0.0.1:1"}, "local_cluster": True, "kafka_wait_ms": 0,
    }  # fmt: skip
    return ControllerConfig.model_validate(fields | changes)


async def test_a_kafka_that_is_not_there_ends_the_start_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await controller_process.run(config(tmp_path)) == 1
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
        assert await controller_process.run(config(tmp_path, **{name: address})) == 1
    (line,) = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.startswith(f"{address} cannot be listened on: ") and line.endswith(f"; choose another {name}")


async def test_a_folder_that_another_controller_lives_in_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(folder: Path) -> int:
        raise folder_lock.FolderTaken(f"data folder {folder} is in use by process 7")

    monkeypatch.setattr(folder_lock, "claim", taken)
    with pytest.raises(OSError, match="is in use by process 7"):
        await controller_process.run(config(tmp_path))


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


async def test_a_tick_that_fails_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = ControllerProcess(config(tmp_path))
    process._core = Rig().core
    process._ended = asyncio.get_running_loop().create_future()

    def stumble(now_ms: int, wall_ms: int) -> None:
        raise AssertionError("planted")

    monkeypatch.setattr(process._core, "tick", stumble)
    async with asyncio.timeout(60):
        assert await process.serve() == controller_process.EXIT_HALTED
    await process.close()


@pytest.mark.parametrize(("halted", "limit"), [
    (False, (last_resort.STOP_MAX_S, last_resort.EXIT_STUCK)),
    (True, (controller_process.CLOSE_MAX_S, controller_process.EXIT_HALTED)),
])  # fmt: skip
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

    monkeypatch.setattr(controller_process, "LastResort", Resort)
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
