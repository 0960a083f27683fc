"""A log of three nodes whose leader is killed: decisions go on, none that was answered is lost or made twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import RemotingError
from events.topics import COMMANDS_TOPIC
from infra import children, kafka_server, log_topics, process_status, toml_text
from infra.kafka_server import LocalKafka
from infra.ports import pick_block
from processors.fold import Folder
from processors.log_reader import LogReader

pytestmark = [pytest.mark.kafka, pytest.mark.processes, pytest.mark.timeout(300)]
WAIT_S = 120.0
DECISIONS_BEFORE, DECISIONS_AFTER = 20, 20


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LocalKafka]:
    with LocalKafka(tmp_path / "kafka", nodes=3) as running:
        log_topics.create({"bootstrap.servers": running.bootstrap}, 3)
        yield running


@pytest.fixture
def controller(three: LocalKafka, tmp_path: Path) -> Iterator[str]:
    """Address of a controller that demands what a production log must have."""
    address = f"127.0.0.1:{pick_block(1)}"
    config = tmp_path / "controller.toml"
    config.write_text(toml_text.dumps({
        "controller_id": "c1", "cluster_id": "log-leader", "listen": address, "data_dir": str(tmp_path / "c1"),
        "local_cluster": False, "kafka": {"bootstrap.servers": three.bootstrap},
    }))  # fmt: skip
    process = children.spawn([sys.executable, "-m", "infra", "controller", "--config", str(config)], tmp_path / "c1.log")
    try:
        yield _ready(process, address, tmp_path / "c1.log")
    finally:
        children.stop(process, 20)


def _ready(process: subprocess.Popen[bytes], address: str, log: Path) -> str:
    for _ in range(int(WAIT_S * 20)):
        status = process_status.ask_once(address, 500)
        if status and status.get("ready") and status.get("role") == "active":
            return address
        assert process.poll() is None, log.read_text()
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"no leader: {log.read_text()}")


def leader_of_commands(kafka: LocalKafka) -> int:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    return int(admin.list_topics(COMMANDS_TOPIC, timeout=20).topics[COMMANDS_TOPIC].partitions[0].leader)


class Asker:
    """Asks for one decision after the other, each until it is answered, a retry with the same command id."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.decided: list[str] = []
        self.retries = 0

    async def run(self, enough: Any) -> None:
        client = RemotingClient()
        while not enough(self):
            name = f"set-{len(self.decided)}"
            ext = {"clusterName": "C", "brokerName": name, "appliedBrokerId": "1", "registerCheckCode": "h:1;1",
                   "regentCommandId": uuid.uuid4().hex}
            while not await self._answered(client, ext):
                self.retries += 1
            self.decided.append(name)
        await client.close()

    async def _answered(self, client: RemotingClient, ext: dict[str, str]) -> bool:
        try:
            answer = await client.call(self.address, RemotingCommand.request(1013, dict(ext)), 5_000)
        except RemotingError:
            return False
        if answer.code != 0:
            await asyncio.sleep(0.05)
        return answer.code == 0


async def test_no_answered_decision_is_lost_or_made_twice(three: LocalKafka, controller: str) -> None:
    asker = Asker(controller)
    await asyncio.wait_for(asker.run(lambda one: len(one.decided) >= DECISIONS_BEFORE), WAIT_S)
    victim = await asyncio.to_thread(leader_of_commands, three)
    three.signal_node(victim, signal.SIGKILL)
    enough = len(asker.decided) + DECISIONS_AFTER
    await asyncio.wait_for(asker.run(lambda one: len(one.decided) >= enough), WAIT_S)
    assert await asyncio.to_thread(leader_of_commands, three) != victim

    three.start_node(victim)
    await asyncio.to_thread(kafka_server.wait_ready, three.bootstrap, 3)
    folder = Folder()
    decided = await asyncio.to_thread(folded, three.bootstrap, folder)
    assert sorted(decided) == sorted(asker.decided), "each decision once, and none that nobody asked for"
    assert set(asker.decided) == set(folder.state.sets)


def folded(bootstrap: str, folder: Folder) -> list[str]:
    """Fold the whole log; the sets for which an id was given away, in order."""
    reader, given = LogReader({"bootstrap.servers": bootstrap}), []

    def take(offset: int, data: bytes) -> None:
        outcome = folder.apply(offset, data).outcome
        given.extend(outcome.broker_name for change in outcome.changes if type(change).__name__ == "BrokerIdApplied")

    _, end = reader.bounds(COMMANDS_TOPIC, timeout_s=30)
    reader.read(COMMANDS_TOPIC, 0, end, take)
    reader.close()
    return given
