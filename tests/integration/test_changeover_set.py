"""A set of three with fixed ids under a load of sends joins the controllers, loses a master among
them, and goes back: real processes, real Kafka, the verbs as they are typed.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokers.changeover.order import Order
from brokers.remoting.client import RemotingClient
from infra.changeover import calls, plan
from infra.changeover.calls import look
from infra.changeover.facts import Look
from infra.changeover.plan import Changeover
from infra.controllers.admin import ControllerAdmin
from infra.kafka.server import LocalKafka
from infra.workload.client import WorkloadClient
from infra.workload.ledger import read_ledger
from infra.workload.producer import Producer
from tests.support import brokers
from tests.support.broker_program import BrokerProgram
from tests.support.controllers import Controllers
from tests.support.kafka_topics import emptied
from tests.support.local_cluster import regent
from tests.support.noted_sends import NotedLedger, stored

pytestmark = [pytest.mark.kafka, pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(900)]
NAME, QUEUES, RATE, CALL_MS, WAIT_S = "moved", 4, 100.0, 30_000, 240
until = partial(brokers.until, within_s=WAIT_S, pause_s=0.05)
SETTINGS = """
cluster_name = "regent"
broker_name = "moved"
broker_id = {broker_id}
listen = "127.0.0.1:{port}"
ha_listen = "127.0.0.1:{ha_port}"
second_listen = false
store_dir = "{folder}/store"
name_servers = ["{name_server}"]
commit_log_file_bytes = 1048576
in_sync_replicas = 2
name_server_register_ms = 1000
heartbeat_interval_ms = 200
replica_poll_ms = 200
ack_timeout_ms = 20000
ack_wait_shrink_ms = 10000
relink_grace_ms = 10000
hold_without_master_ms = 20000
send_queue_wait_ms = 60000
page_cache_busy_ms = 60000
route_poll_ms = 0
disk_clean_forcibly_percent = 100
disk_full_percent = 100
"""


@pytest.fixture
async def controllers(tmp_path: Path, kafka: LocalKafka) -> AsyncIterator[Controllers]:
    """They know no set: that of the test before is not in their log."""
    empty = await asyncio.to_thread(emptied, kafka)
    made = Controllers(tmp_path, empty.bootstrap, "changeover", names=("c1",))
    made.start("c1")
    try:
        await made.until(lambda all_: all_["c1"]["role"] == "active", "the controller leads")
        yield made
    finally:
        await made.close()


class MovedSet:
    """The set, and the verbs that move it."""

    def __init__(self, folder: Path, name_server: str, controllers: Controllers) -> None:
        self.name_server, self.controllers = name_server, controllers
        self.programs = {
            one.address: one
            for one in (BrokerProgram(folder, n, name_server, SETTINGS) for n in range(3))
        }

    async def looks(self) -> list[Look]:
        found = [await asyncio.to_thread(look, one, 5_000) for one in self.programs]
        return [one for one in found if isinstance(one, Look)]

    async def leads(self) -> str | None:
        """The address of the one that leads; two would be a failure."""
        leading = [one.address for one in await self.looks() if one.serving]
        assert len(leading) <= 1, f"two lead: {leading}"
        return leading[0] if leading else None

    async def stands(self) -> bool:
        """With a master, and two that follow it."""
        roles = sorted(one.role for one in await self.looks())
        return roles == ["MASTER", "SLAVE", "SLAVE"]

    async def verb(self, verb: str, *flags: str, code: int = 0) -> dict[str, Any]:
        asked = ("--namesrv", self.name_server)
        at = ("--controller", self.controllers.addresses["c1"], "--timeout", "60")
        words = ("controller", verb, NAME, *asked, *at, "--wait", "200", "--json", *flags)
        done = await asyncio.to_thread(regent, *words)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}\n{self.said()}"
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    async def state(self) -> dict[str, Any] | None:
        """What the controllers know of it."""
        words = ("controller", "sets", "--all", "--json")
        at = ("--controller", self.controllers.addresses["c1"], "--timeout", "60")
        done = await asyncio.to_thread(regent, *words, *at)
        found: dict[str, Any] | None = json.loads(done.stdout)["sets"].get(NAME)
        return found

    def said(self) -> str:
        logs = {at: (one.folder / "log").read_text() for at, one in self.programs.items()}
        return "\n".join(f"--- {at}\n{text[-6000:]}" for at, text in logs.items())


@pytest.fixture
async def moved(
    tmp_path: Path, name_server: str, controllers: Controllers
) -> AsyncIterator[MovedSet]:
    made = MovedSet(tmp_path, name_server, controllers)
    try:
        for one in made.programs.values():
            await one.start()
        await until(made.stands, "the set stands")
        yield made
    finally:
        for one in made.programs.values():
            await one.end()


async def test_a_set_is_adopted_fails_over_and_is_released_and_no_acknowledged_message_is_lost(
    moved: MovedSet, client: RemotingClient, tmp_path: Path
) -> None:
    ledger, stop = NotedLedger(tmp_path / "ledger"), asyncio.Event()
    async with WorkloadClient(
        [moved.name_server], "T", "pg", queues=QUEUES, timeout_ms=CALL_MS
    ) as workload:
        producer = Producer(workload, ledger, QUEUES, RATE, 256)
        running = asyncio.ensure_future(producer.run(stop))

        async def goes_on() -> None:
            done = producer.done
            await until(lambda: producer.done > done + 100, "the load goes on")

        await goes_on()
        fixed_master = await moved.leads()
        shown = await moved.verb("adopt", "--dry-run")
        assert shown["ready"] and shown["stage"] == "fresh" and len(shown["orders"]) == 3
        assert await moved.state() is None, "a dry run changes nothing"

        adopted = await moved.verb("adopt", "--yes")
        assert adopted["done"] and not ledger.failures(producer), producer.figures()
        state = await moved.state()
        assert state is not None and len(state["sync_state_set"]) == 3
        assert {one.kind.value for one in await moved.looks()} == {"controllers"}
        await goes_on()
        again = await moved.verb("adopt", "--yes")
        assert again["done"], "run twice, it finds its work done"

        killed = await moved.leads()
        assert killed is not None
        await moved.programs[killed].end()
        await until(moved.leads, "another one is elected")
        assert await moved.leads() != killed
        await goes_on()
        failed_by_kill = ledger.unknown
        await moved.programs[killed].start()

        async def whole() -> bool:
            found = await moved.state()
            return found is not None and len(found["sync_state_set"]) == 3

        await until(whole, "the killed one is in sync, by its old file")
        led = await moved.leads()
        await goes_on()

        released = await moved.verb("release", "--yes")
        assert released["done"], producer.figures()
        again = await moved.verb("release", "--yes")
        assert again["done"] and again["stage"] == "done", "run twice, it finds its work done"
        assert len(ledger.failures(producer)) <= failed_by_kill, producer.figures()
        assert await moved.leads() == led, "who led goes on with id 0"
        assert {one.kind.value for one in await moved.looks()} == {"fixed"}
        left = await moved.state()
        assert left is None or left["tombstone"]
        await goes_on()
        stop.set()
        await running
    for one in moved.programs.values():
        assert await one.end(signal.SIGTERM) == 0
        await one.start()
    await until(moved.stands, "all begin where they were, by their old files")
    assert await moved.leads() == led != fixed_master or fixed_master == led
    assert led is not None
    acknowledged = read_ledger(tmp_path / "ledger").acknowledged
    found = await stored(client, led, "T", QUEUES)
    assert len(acknowledged) > 500 and not set(acknowledged) - found


async def test_a_run_that_another_one_wrote_over_is_made_whole_by_the_next(moved: MovedSet) -> None:
    """Two at once: both told the controllers codes of their own, and the master took the orders of
    the one whose codes do not stand there.
    """
    controller = moved.controllers.addresses["c1"]
    members = dict(enumerate(moved.programs))

    def one_run(number: int) -> plan.SetPlan:
        codes = {address: f"{address};{number}" for address in moved.programs}
        looks = calls.looks_of(moved.programs, 60_000)
        new = Changeover(f"run-{number}", codes)
        return plan.plan_adoption(NAME, members, looks, None, [controller], new)

    def both() -> tuple[Order, ...]:
        admin = ControllerAdmin([controller], 60_000)
        first, second = one_run(1), one_run(2)
        assert first.fields is not None and second.fields is not None
        admin.import_set(first.fields)
        admin.import_set({**second.fields, "sync_state_set_epoch": 2})
        return first.orders

    orders = await asyncio.to_thread(both)

    async def begun() -> bool:
        """Again where the master serves on: a slave that has just started follows nobody yet."""
        try:
            await asyncio.to_thread(calls.begin, orders, 60_000)
        except calls.NotNow:
            return False
        return True

    await until(begun, "the master gives up")
    adopted = await moved.verb("adopt", "--yes")
    assert adopted["done"] and adopted["stage"] != "fresh"
    await until(moved.stands, "the set has its master and two that follow it")
