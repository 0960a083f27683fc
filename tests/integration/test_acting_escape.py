"""Two sets without controllers, one of whose masters goes away: what is due of it is delivered by
its slave through the master of the other set, and the master goes on behind it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import StoredMessage, decode_messages
from processors.nameserver.config import NameServerConfig
from processors.nameserver.process import NameServer
from tests.support.brokers import broker_config, call, send_request, start_broker, until


@pytest.fixture
async def name_server() -> AsyncIterator[str]:
    server = NameServer(NameServerConfig(listen="127.0.0.1:0"))
    await server.start()
    yield f"127.0.0.1:{server.port}"
    await server.close()


async def broker(folder: Path, name: str, broker_id: int, name_server: str) -> BrokerProcess:
    return await start_broker(
        broker_config(
            folder / f"{name}{broker_id}",
            [],
            [name_server],
            broker_name=name,
            broker_id=broker_id,
            in_sync_replicas=1,
            name_server_register_ms=1_000,
            ack_timeout_ms=20_000,
        )
    )


class Sets:
    """Set `a` with master and slave, set `b` with a master."""

    def __init__(self, folder: Path, name_server: str) -> None:
        self._folder, self._name_server = folder, name_server

    async def start(self, client: RemotingClient) -> None:
        self.master = await broker(self._folder, "a", 0, self._name_server)
        self.slave = await broker(self._folder, "a", 1, self._name_server)
        self.other = await broker(self._folder, "b", 0, self._name_server)
        await until(lambda: self.master.roles.serving and self.other.roles.serving, "masters lead")
        for one in (self.master, self.other):
            assert (await call(client, one, send_request("T", b"first"))).code == 0
        await self.copied()

    async def copied(self) -> None:
        master, slave = self.master.store, self.slave.store
        await until(lambda: slave.dispatched_offset == master.log_end, "the slave has it")
        topics = self.master.tables.topics.configs
        await until(
            lambda: set(self.slave.tables.topics.configs) >= set(topics), "the slave has its topics"
        )

    async def master_goes_away(self) -> None:
        await self.master.stop("test")
        self.slave.service.acting_begins()

    async def stop(self) -> None:
        for one in (self.slave, self.other):
            await one.stop("test")


@pytest.fixture
async def sets(tmp_path: Path, name_server: str, client: RemotingClient) -> AsyncIterator[Sets]:
    made = Sets(tmp_path, name_server)
    await made.start(client)
    yield made
    await made.stop()


def records(broker: BrokerProcess, topic: str = "T") -> list[StoredMessage]:
    found = decode_messages(broker.store.read_log(0, broker.store.log_end))
    return [one for one in found if one.fields.topic == topic and one.fields.body != b"first"]


def bodies(broker: BrokerProcess) -> list[bytes]:
    return sorted(one.fields.body for one in records(broker))


def delayed(body: bytes, level: int) -> RemotingCommand:
    request = send_request("T", body, key=body.decode())
    request.ext["i"] += f"DELAY\x01{level}\x02"
    return request


async def test_delay_levels(sets: Sets, client: RemotingClient, tmp_path: Path) -> None:
    wanted = [b"%03d" % number for number in range(100)]
    sent = [await call(client, sets.master, delayed(body, 2)) for body in wanted]
    assert all(answer.code == 0 for answer in sent)
    await sets.copied()
    stored = {one.fields.body: one.store_ms for one in records(sets.slave, "SCHEDULE_TOPIC_XXXX")}
    await sets.master_goes_away()
    end = sets.slave.store.log_end
    kept = sets.slave.tables.kept
    await until(lambda: kept.table(45).get("2") == 100, "the slave tells that all are delivered")
    assert bodies(sets.other) == wanted and sets.slave.store.log_end == end
    assert all(one.store_ms - stored[one.fields.body] >= 5_000 for one in records(sets.other))
    assert not sets.slave.roles.serving
