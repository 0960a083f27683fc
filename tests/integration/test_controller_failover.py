"""Two controller processes on a real Kafka: decisions, a dead master, a dead controller, history that proves itself."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import RemotingError
from brokers.remoting.server import RemotingServer
from events.codec import decode
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka_server import LocalKafka
from processors.fold import Folder
from processors.log_reader import LogReader
from tests.support.brokers import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.processes]
RUN = (
    "import asyncio, logging, sys; from processors import config, controller_process;"
    "logging.basicConfig(level=logging.WARNING); logging.getLogger('processors').setLevel(logging.INFO);"
    "sys.exit(asyncio.run(controller_process.run(config.load(sys.argv[1]))))"
)
WAIT_S = 60.0
NAMES = {"clusterName": "C", "brokerName": "a"}


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """The topics of a controller have fixed names: a Kafka of their own."""
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


class Controllers:
    """Two controller processes, and calls to them."""

    def __init__(self, folder: Path, bootstrap: str, cluster: str) -> None:
        self.folder = folder
        self.addresses = {name: f"127.0.0.1:{free_port()}" for name in ("c1", "c2")}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.client = RemotingClient()
        for name, address in self.addresses.items():
            peers = "".join(f'{other} = "{at}"\n' for other, at in self.addresses.items() if other != name)
            (folder / f"{name}.toml").write_text(
                f'controller_id = "{name}"\ncluster_id = "{cluster}"\nlisten = "{address}"\n'
                f'data_dir = "{folder / name}"\nlocal_cluster = true\nsnapshot_every_offsets = 10\n'
                f'[peers]\n{peers}[kafka]\n"bootstrap.servers" = "{bootstrap}"\n',
                encoding="utf-8",
            )

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-c", RUN, str(self.folder / f"{name}.toml")], stdout=output, stderr=output
            )

    def end(self, name: str, number: int) -> int:
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(30)

    async def close(self) -> None:
        for name in list(self.processes):
            self.end(name, signal.SIGKILL)
        await self.client.close()

    async def status(self, name: str) -> dict:  # type: ignore[type-arg]
        try:
            answer = await self.client.call(self.addresses[name], RemotingCommand.request(19002), 1_000)
        except RemotingError:
            return {"ready": False, "role": "none"}
        return json.loads(answer.body)

    async def until(self, condition, what: str) -> dict[str, dict]:  # type: ignore[no-untyped-def, type-arg]
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while True:
            statuses = {name: await self.status(name) for name in self.processes}
            if condition(statuses):
                return statuses
            logs = "".join(path.read_text() for path in self.folder.glob("*.log"))
            assert asyncio.get_running_loop().time() < deadline, f"waited in vain until {what}: {statuses}\n{logs}"
            await asyncio.sleep(0.02)

    async def until_of(self, name: str, condition, what: str) -> None:  # type: ignore[no-untyped-def]
        """As `until`, asking one process only."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while not condition(await self.status(name)):
            assert asyncio.get_running_loop().time() < deadline, f"waited in vain until {what}"
            await asyncio.sleep(0.02)

    async def both_follow(self) -> tuple[str, str]:
        """(active, standby)"""
        statuses = await self.until(
            lambda all_: len(all_) == 2 and sorted(one["role"] for one in all_.values()) == ["active", "standby"]
            and all(one["ready"] for one in all_.values()),
            "one leads and one stands by",
        )  # fmt: skip
        active = next(name for name, one in statuses.items() if one["role"] == "active")
        return active, next(name for name in statuses if name != active)


class Broker:
    """A broker as controllers see it: a port, heartbeats, calls."""

    def __init__(self, number: int, controllers: Controllers) -> None:
        self.number = number
        self.controllers = controllers
        self.client = RemotingClient()
        self.notices: list[RemotingCommand] = []
        self.server = RemotingServer(lambda connection, request: self.notices.append(request))
        self._beating: asyncio.Task[None] | None = None

    async def call(self, controller: str, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
        return await self.client.call(
            self.controllers.addresses[controller], RemotingCommand.request(code, ext, body), 5_000
        )

    async def join(self, controller: str) -> RemotingCommand:
        await self.server.start()
        self.address = f"127.0.0.1:{self.server.port}"
        offered = await self.call(controller, 1012, NAMES)
        assert offered.ext["nextBrokerId"] == str(self.number)
        code = {"appliedBrokerId": str(self.number), "registerCheckCode": f"{self.address};1"}
        assert (await self.call(controller, 1013, NAMES | code)).code == 0
        registered = await self.call(controller, 1003, NAMES | {
            "brokerId": str(self.number), "brokerAddress": self.address, "regentIncarnation": f"i{self.number}",
            "regentClean": "true", "regentHaAddress": f"127.0.0.1:{self.number}",
        })  # fmt: skip
        self._beating = asyncio.ensure_future(self._beat())
        return registered

    async def _beat(self) -> None:
        ext = NAMES | {
            "brokerAddr": self.address, "brokerId": str(self.number), "epoch": "0", "maxOffset": "100",
            "heartbeatTimeoutMills": "20000", "regentIncarnation": f"i{self.number}",
        }  # fmt: skip
        while True:
            for address in self.controllers.addresses.values():
                try:
                    await self.client.send_oneway(address, RemotingCommand.request(904, ext, oneway=True))
                except RemotingError:
                    continue
            await asyncio.sleep(0.1)

    async def die(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        await self.server.close()
        await self.client.close()


async def settled(asked: Broker, controller: str, body: str, info: RemotingCommand) -> RemotingCommand:
    """Ask for another SyncStateSet until its members are known to live."""
    ext = {"brokerName": "a", "masterBrokerId": info.ext["masterBrokerId"], "masterEpoch": info.ext["masterEpoch"]}
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while True:
        answer = await asked.call(controller, 1001, ext, body.encode())
        if answer.code != 2006 or asyncio.get_running_loop().time() > deadline:
            return answer
        await asyncio.sleep(0.05)


async def test_a_set_outlives_its_master_and_its_controller_and_history_proves_it(
    tmp_path: Path, own_kafka: LocalKafka
) -> None:
    controllers = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    brokers = [Broker(number, controllers) for number in (1, 2, 3)]
    try:
        controllers.start("c1")
        controllers.start("c2")
        active, standby = await controllers.both_follow()
        await brokers[0].join(active)
        elected = await brokers[0].call(active, 1002, NAMES | {"brokerId": "1"})
        assert elected.code == 0 and elected.ext["masterBrokerId"] == "1"
        for broker in brokers[1:]:
            joined = await broker.join(standby)
            assert joined.ext["masterBrokerId"] == "1", "a standby forwards"
        altered = await settled(brokers[0], active, '{"syncStateSet":[1,2,3],"syncStateSetEpoch":1}', elected)
        assert altered.code == 0, altered.remark

        await brokers[0].die()
        statuses = await controllers.until(
            lambda all_: all_[active]["sets"]["a"].get("master") == 2, "broker 2 is master"
        )
        assert statuses[active]["sets"]["a"]["sync_state_set"] == [2, 3]
        assert any(notice.ext["masterBrokerId"] == "2" for notice in brokers[2].notices)

        controllers.end(active, signal.SIGKILL)
        info = await brokers[1].call(standby, 1004, {"brokerName": "a"})
        assert info.code == 0 and info.ext["masterBrokerId"] == "2", info.remark
        shrunk = await settled(
            brokers[1], standby, f'{{"syncStateSet":[2],"syncStateSetEpoch":{info.ext["regentSyncStateSetEpoch"]}}}', info
        )
        assert shrunk.code == 0, shrunk.remark

        controllers.start(active)
        await controllers.both_follow()
        await published_and_proven(controllers, own_kafka.bootstrap)
        assert controllers.end(active, signal.SIGTERM) == 0
        assert list((tmp_path / active / "snapshots").glob("snapshot-*.bin"))
        controllers.start(active)
        await controllers.both_follow()
        statuses = await controllers.until(
            lambda all_: all_["c1"]["applied_offset"] == all_["c2"]["applied_offset"], "both are equally far"
        )
        assert statuses["c1"]["digest"] == statuses["c2"]["digest"]
    finally:
        for broker in brokers:
            await broker.die()
        await controllers.close()


async def published_and_proven(controllers: Controllers, bootstrap: str) -> None:
    """The outcomes topic has no hole, and a fold of the commands alone gives every published digest."""
    statuses = await controllers.until(
        lambda all_: any(
            one["role"] == "active" and one["published_offset"] == one["applied_offset"] for one in all_.values()
        ),
        "all is published",
    )
    reader = LogReader({"bootstrap.servers": bootstrap})
    folder, folded = Folder(), {}
    _, end = reader.bounds(COMMANDS_TOPIC, timeout_s=10)
    reader.read(COMMANDS_TOPIC, 0, end, lambda offset, data: folded.update({offset: folder.apply(offset, data).outcome}))
    published = {}
    _, outcomes_end = reader.bounds(OUTCOMES_TOPIC, timeout_s=10)

    def keep(offset: int, data: bytes) -> None:
        outcome = decode(data)
        assert published.setdefault(outcome.command_offset, outcome).digest == outcome.digest
        assert outcome.command_offset <= len(published), "an outcome before the one below it"

    reader.read(OUTCOMES_TOPIC, 0, outcomes_end, keep)
    reader.close()
    assert sorted(published) == list(range(len(published))) and len(published) >= end - 1
    assert all(published[offset].digest == folded[offset].digest for offset in published)
    claims = [one for one in published.values() if one.kind == "ClaimLeadership" and one.accepted]
    assert [one.term for one in claims] == list(range(1, len(claims) + 1)) and len(claims) >= 2
    elections = [one.cause for one in published.values() if one.kind == "ElectMaster" and one.accepted]
    assert "master_probe_refused" in elections
    assert {"detected", "probed", "appended", "applied", "notified"} <= set(
        next(one for one in published.values() if one.cause == "master_probe_refused").phases
    )
    assert statuses


async def test_a_paused_controller_is_succeeded_and_stands_by_when_it_wakes(
    tmp_path: Path, own_kafka: LocalKafka
) -> None:
    controllers = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    try:
        controllers.start("c1")
        controllers.start("c2")
        active, standby = await controllers.both_follow()
        controllers.processes[active].send_signal(signal.SIGSTOP)
        await controllers.until_of(standby, lambda one: one["role"] == "active", "the standby leads")
        controllers.processes[active].send_signal(signal.SIGCONT)
        assert await controllers.both_follow() == (standby, active)
        statuses = await controllers.until(
            lambda all_: all_["c1"]["applied_offset"] == all_["c2"]["applied_offset"], "both are equally far"
        )
        assert statuses["c1"]["digest"] == statuses["c2"]["digest"]
    finally:
        await controllers.close()


async def test_controllers_outlive_their_kafka(tmp_path: Path, own_kafka: LocalKafka) -> None:
    controllers = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    broker = Broker(1, controllers)
    try:
        controllers.start("c1")
        controllers.start("c2")
        active, _ = await controllers.both_follow()
        own_kafka.signal_node(1, signal.SIGKILL)
        unanswered = await broker.call(active, 1012, {"clusterName": "C", "brokerName": "later"})
        assert unanswered.code in (1, 2007), "nothing can be read or decided without the log"
        own_kafka.start_node(1)
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while True:
            active, _ = await controllers.both_follow()
            answer = await broker.call(active, 1012, {"clusterName": "C", "brokerName": "later"})
            if answer.code == 0 or asyncio.get_running_loop().time() > deadline:
                break
        assert answer.code == 0, answer.remark
        applied = await broker.call(active, 1013, {
            "clusterName": "C", "brokerName": "later", "registerCheckCode": "h:1;1",
            "appliedBrokerId": answer.ext["nextBrokerId"],
        })  # fmt: skip
        assert applied.code in (0, 2014), applied.remark
    finally:
        await broker.client.close()
        await controllers.close()


async def test_a_controller_of_another_cluster_refuses_this_log(tmp_path: Path, own_kafka: LocalKafka) -> None:
    first = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    try:
        first.start("c1")
        await first.until(lambda all_: all_["c1"]["ready"], "it leads")
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        other = Controllers(stranger, own_kafka.bootstrap, "another")
        other.start("c2")
        assert other.processes.pop("c2").wait(60) == 1
        assert "belongs to the cluster 'failover'" in (stranger / "c2.log").read_text()
        await other.close()
    finally:
        await first.close()


async def test_a_log_made_anew_is_noticed(tmp_path: Path, own_kafka: LocalKafka) -> None:
    from confluent_kafka.admin import AdminClient

    controllers = Controllers(tmp_path, own_kafka.bootstrap, "failover")
    try:
        controllers.start("c1")
        await controllers.until(lambda all_: all_["c1"]["ready"], "it leads")
        assert controllers.end("c1", signal.SIGTERM) == 0
        admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
        for future in admin.delete_topics([COMMANDS_TOPIC]).values():
            future.result(20)
        while COMMANDS_TOPIC in admin.list_topics(timeout=10).topics:
            await asyncio.sleep(0.05)
        controllers.start("c1")
        assert controllers.processes.pop("c1").wait(60) == 1
        assert "was cut or made anew" in (tmp_path / "c1.log").read_text()
    finally:
        await controllers.close()
