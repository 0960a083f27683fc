"""The main job on real processes: Kafka, two controllers, a name server, three brokers; the master is killed under load."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.log.records import decode_messages
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import RemotingError
from infra.kafka_server import LocalKafka
from infra.toml_text import dumps
from tests.support.brokers import free_port, pull_request, send_request

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60
pytestmark = [pytest.mark.kafka, pytest.mark.processes]


class Processes:
    """Regent processes with a configuration file each; whatever is left at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = RemotingClient()
        self.running: dict[str, asyncio.subprocess.Process] = {}
        self.configs: dict[str, tuple[str, dict[str, Any]]] = {}

    async def start(self, name: str, kind: str, config: dict[str, Any]) -> None:
        self.configs[name] = (kind, config)
        path = self.folder / f"{name}.toml"
        path.write_text(dumps(config))
        log = self.folder / f"{name}.log"
        self.running[name] = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "infra", kind, "--config", str(path), "--log-file", str(log), cwd=ROOT, env={**os.environ},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip

    async def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        await process.wait()

    async def again(self, name: str) -> None:
        await self.start(name, *self.configs[name])

    async def close(self) -> None:
        await self.client.close()
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                await asyncio.wait_for(process.wait(), 15)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def status(self, address: str) -> dict[str, Any]:
        try:
            answer = await self.client.call(address, RemotingCommand.request(19002), 1_000)
        except RemotingError:
            return {}
        found = fastjson.loads(answer.body) if answer.code == 0 else {}
        return found if isinstance(found, dict) else {}


class Cluster:
    """One broker set and its addresses."""

    def __init__(self, processes: Processes, brokers: dict[str, str]) -> None:
        self.processes, self.brokers = processes, brokers

    async def statuses(self) -> dict[str, dict[str, Any]]:
        return {name: await self.processes.status(address) for name, address in self.brokers.items()}

    async def whole(self, members: int) -> tuple[str, int]:
        """Name and epoch of the one master, once all replicas are in sync."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while True:
            found = await self.statuses()
            masters = [(name, one["master_epoch"]) for name, one in found.items() if one.get("role") == "MASTER"]
            in_sync = [one.get("sync_state_set") for one in found.values() if one.get("role") == "MASTER"]
            ready = all(one.get("ready") for one in found.values())
            if len(masters) == 1 and ready and len(in_sync[0] or ()) == members:
                return masters[0]
            assert asyncio.get_running_loop().time() < deadline, f"the set did not become whole: {found}"
            await asyncio.sleep(0.05)


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A log of its own: record 0 of the commands forms this cluster."""
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
async def cluster(tmp_path: Path, own_kafka: LocalKafka) -> AsyncIterator[Cluster]:
    processes = Processes(tmp_path)
    settings = {"bootstrap.servers": own_kafka.bootstrap}
    name_server = f"127.0.0.1:{free_port()}"
    controllers = {f"c{number}": f"127.0.0.1:{free_port()}" for number in (1, 2)}
    brokers = {f"b{number}": f"127.0.0.1:{free_port()}" for number in (1, 2, 3)}
    await processes.start("n1", "namesrv", {"listen": name_server})
    for name, address in controllers.items():
        peers = {other: where for other, where in controllers.items() if other != name}
        config = {"controller_id": name, "listen": address, "peers": peers, "data_dir": str(tmp_path / name), "local_cluster": True}
        await processes.start(name, "controller", config | {"kafka": settings})
    for name, address in brokers.items():
        config = {
            "listen": address, "ha_listen": f"127.0.0.1:{free_port()}", "second_listen": False, "store_dir": str(tmp_path / name),
            "controllers": list(controllers.values()), "name_servers": [name_server], "commit_log_file_bytes": 1 << 22,
            "kafka": settings,
        }  # fmt: skip
        await processes.start(name, "broker", config)
    yield Cluster(processes, brokers)
    await processes.close()


async def produce(client: RemotingClient, addresses: list[str], acknowledged: list[int], stop: asyncio.Event) -> None:
    """Numbers, one after the other, to whichever broker answers: each forwards to the master it knows."""
    number, turn = 0, 0
    while not stop.is_set():
        try:
            answer = await client.call(addresses[turn % len(addresses)], send_request("T", b"%d" % number, key=f"K{number}"), 3_000)
        except RemotingError:
            turn += 1
            continue
        if answer.code == 0:
            acknowledged.append(number)
            number += 1
        else:
            turn += 1
            await asyncio.sleep(0.01)


async def read_all(client: RemotingClient, address: str) -> list[int]:
    found: list[int] = []
    while True:
        answer = await client.call(address, pull_request("T", 0, len(found)), 10_000)
        if answer.code != 0:
            return found
        found += [int(message.fields.body) for message in decode_messages(answer.body)]


def log_bytes(folder: Path, end: int) -> bytes:
    files = sorted((folder / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in files)[:end]


async def test_nothing_acknowledged_is_lost_when_masters_die(cluster: Cluster, tmp_path: Path) -> None:
    acknowledged: list[int] = []
    stop, client = asyncio.Event(), cluster.processes.client
    master, epoch = await cluster.whole(3)
    producing = asyncio.ensure_future(produce(client, list(cluster.brokers.values()), acknowledged, stop))
    for _ in range(2):
        target = len(acknowledged) + 200
        while len(acknowledged) < target:
            await asyncio.sleep(0.01)
        await cluster.processes.kill(master)
        target = len(acknowledged) + 200
        while len(acknowledged) < target:
            await asyncio.sleep(0.01)
        await cluster.processes.again(master)
        before = epoch
        master, epoch = await cluster.whole(3)
        assert epoch > before
    stop.set()
    await producing
    stored = await read_all(client, cluster.brokers[master])
    # Order is kept and nothing is missing; what comes twice is a send whose first answer was lost.
    assert list(dict.fromkeys(stored))[: len(acknowledged)] == acknowledged
    ends = {name: one["confirm_offset"] for name, one in (await cluster.statuses()).items()}
    common = min(ends.values())
    logs = {log_bytes(tmp_path / name, common) for name in cluster.brokers}
    assert len(logs) == 1 and common > 0
