"""Brokers and clients for tests, inside the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from brokers.process import hand_over
from brokers.process.broker import BrokerProcess
from brokers.process.config import BrokerConfig
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.replica.put_rules import BusyGate
from brokers.service.client_service import ClientService
from infra.processes.ports import pick_block
from tests.support.scripted_controller import ScriptedController

WAIT_S = 60
# For tests of what a set does and not of how soon: a replica that the machine keeps waiting is no
# lost one.
PATIENT = {
    "ack_timeout_ms": 20_000,
    "ack_wait_shrink_ms": 10_000,
    "relink_grace_ms": 10_000,
    "hold_without_master_ms": 20_000,
}
BUSY_MS = 60_000
HAND_OVER_MS = 15_000

_given: set[int] = set()


def free_port() -> int:
    """A port that was free a moment ago. Neither a connection nor a server on any port is given it,
    and nobody else in this run.
    """
    while (port := pick_block(1)) in _given:
        pass
    _given.add(port)
    return port


async def until(
    condition: Callable[[], object], what: str, within_s: float = WAIT_S, pause_s: float = 0.005
) -> None:
    """Wait for a condition, also a coroutine's; fails after a time no healthy run needs."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        found = condition()
        if await found if asyncio.iscoroutine(found) else found:
            return
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain until {what}"
        await asyncio.sleep(pause_s)


def broker_config(
    folder: Path, controllers: list[str], name_servers: list[str] | None = None, **changes: object
) -> BrokerConfig:
    """A broker on free ports with small files and short timers."""
    fields: dict[str, object] = {
        "listen": f"127.0.0.1:{free_port()}",
        "ha_listen": f"127.0.0.1:{free_port()}",
        "second_listen": False,
        "store_dir": folder,
        "controllers": controllers,
        "name_servers": name_servers or [],
        "commit_log_file_bytes": 1 << 20,
        "consume_queue_file_entries": 1000,
        "min_in_sync_replicas": 1,
        "disk_clean_forcibly_percent": 100,
        "disk_full_percent": 100,
        "heartbeat_interval_ms": 100,
        "replica_poll_ms": 200,
        "metadata_sync_ms": 200,
    }
    return BrokerConfig.model_validate(fields | changes)


async def start_broker(config: BrokerConfig) -> BrokerProcess:
    broker = BrokerProcess(config)
    unhurried(broker.service)
    await broker.start()
    never_stood_still(broker)
    return broker


def never_stood_still(broker: BrokerProcess) -> None:
    """No request is refused because the machine let this process wait for more than a second."""
    for server in (broker.opening.server, *broker._servers):
        assert server._standstill is not None
        server._standstill._gap_s = BUSY_MS / 1000


@contextmanager
def hand_overs_take_their_time() -> Iterator[None]:
    """A hand-over gives up when it takes long; here it is to come about however long this machine
    takes for it.
    """
    with pytest.MonkeyPatch.context() as patched:  # not the one that tests take back
        for limit in ("DRAIN_MS", "LIMIT_MS", "PREPARE_MS", "LAST_COPY_MS"):
            patched.setattr(hand_over, limit, HAND_OVER_MS)
        yield


def unhurried(service: ClientService) -> None:
    """No send is refused because the machine let it wait for a moment."""
    service.sends.gate = BusyGate(BUSY_MS, BUSY_MS)


@asynccontextmanager
async def running_set(
    controller: ScriptedController, configs: Iterable[BrokerConfig]
) -> AsyncIterator[list[BrokerProcess]]:
    """One after the other, so that ids follow the order and the first is master; all are members,
    and the master knows.
    """
    made: list[BrokerProcess] = []
    for number, config in enumerate(configs):
        made.append(await start_broker(config))
        await until(lambda: made[-1].roles.role != "FENCED", f"broker {number} has a role")
    ids = [number + 1 for number in range(len(made))]
    await until(
        lambda: controller.members == ids and made[0].replica.core.sync_state_set == tuple(ids),
        "all are members",
    )
    yield made
    for broker in made:
        await broker.stop("test")


@asynccontextmanager
async def patient_set(
    controller: ScriptedController, folder: Path, count: int
) -> AsyncIterator[list[BrokerProcess]]:
    """So many replicas that a busy machine does not part, of which two must hold a message."""
    configs = [
        broker_config(
            folder / f"b{number}", [controller.address], min_in_sync_replicas=2, **PATIENT
        )
        for number in range(count)
    ]
    async with running_set(controller, configs) as made:
        yield made


def send_request(
    topic: str,
    body: bytes,
    queue_id: int = 0,
    *,
    key: str = "K1",
    tags: str = "",
    oneway: bool = False,
) -> RemotingCommand:
    """A 310 as a Java producer makes it."""
    properties = f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02" + (f"TAGS\x01{tags}\x02" if tags else "")
    ext = {
        "a": "pg",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return RemotingCommand.request(310, ext, body, oneway=oneway)


def pull_request(
    topic: str,
    queue_id: int,
    offset: int,
    *,
    suspend_ms: int = 0,
    subscription: str = "*",
    group: str = "cg",
) -> RemotingCommand:
    """An 11 with its subscription in the request."""
    ext = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "6" if suspend_ms else "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": subscription,
        "subVersion": "0",
        "expressionType": "TAG",
    }
    return RemotingCommand.request(11, ext)


async def call(
    client: RemotingClient,
    broker: BrokerProcess,
    request: RemotingCommand,
    timeout_ms: int = 30_000,
) -> RemotingCommand:
    return await client.call(broker.config.advertised, request, timeout_ms)
