"""One replica's part in a changeover, with whole brokers: a master, its slave, a name server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.changeover.order import Kind, Lines, Order
from brokers.process.broker import BrokerProcess
from brokers.process.changeover import change_over
from brokers.process.changeover.change_over import (
    GATHER_HOLDS,
    LOOK_MS,
    ChangeOver,
    Here,
    PlaceChanged,
)
from brokers.process.changeover.folder import read_record
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import RoleChanged
from brokers.service.role.role_view import RoleView
from tests.support.brokers import broker_config, call, send_request, start_broker, until

PATIENT = {
    "ack_timeout_ms": 20_000,
    "name_server_register_ms": 1_000,
    "hold_without_master_ms": 20_000,
}


@pytest.fixture(autouse=True)
def _unhurried() -> Iterator[None]:
    """A master serves on when the others are slow; here they are to come along however long this
    machine takes for it.
    """
    with pytest.MonkeyPatch.context() as patched:  # not the one that tests take back
        for limit in ("TABLES_MS", "TELL_MS"):
            patched.setattr(change_over, limit, 20_000)
        yield


@pytest.fixture
async def pair(tmp_path: Path, name_server: str) -> AsyncIterator[list[BrokerProcess]]:
    """A master and its slave, which is linked."""
    made = [
        await start_broker(
            broker_config(tmp_path / f"b{key}", [], [name_server], broker_id=key, **PATIENT)
        )
        for key in (0, 1)
    ]
    await until(lambda: acked(made[0]) >= 0, "the slave is linked")
    await until(lambda: made[1].roles.master_address is not None, "the slave knows its master")
    yield made
    for broker in reversed(made):
        await broker.stop("test")


def acked(master: BrokerProcess) -> int:
    return max((one.acked for one in master.replica.ha_status().slaves), default=-1)


def orders_for(pair: list[BrokerProcess], change: str = "c1") -> list[Order]:
    leader = pair[0].config.advertised
    return [
        Order(
            *(change, Kind.CONTROLLERS, "regent", "broker-a", broker.config.advertised, leader),
            *(number, 2, ("127.0.0.1:1",), f"{broker.config.advertised};code", 1),
        )
        for number, broker in enumerate(pair, start=1)
    ]


def word(word: str, body: Any = None) -> RemotingCommand:
    data = b"" if body is None else fastjson.dumps(body)
    return RemotingCommand.request(19018, {"word": word}, data)


def documents(orders: list[Order]) -> list[dict[str, Any]]:
    return [one.document() for one in orders]


async def test_the_master_gives_up_on_its_disk_and_the_slave_follows(
    pair: list[BrokerProcess], client: RemotingClient
) -> None:
    master, slave = pair
    assert (await call(client, master, send_request("T", b"one"))).code == 0
    orders = orders_for(pair)
    answer = await call(client, master, word("begin", documents(orders)))
    assert (answer.code, answer.ext.get("left")) == (0, ""), answer.remark
    for broker, order in zip(pair, orders, strict=True):
        record = read_record(broker.config.store_dir)
        assert record is not None and record.order == order and not record.settled
        assert record.in_order, "nobody can have acted before"
        with pytest.raises(PlaceChanged):
            await broker.change_over.over()
    assert master.store.log_end == slave.store.log_end == acked(master)
    assert slave.tables.topics.get("T") is not None, "tables were copied before"
    held = asyncio.ensure_future(call(client, master, send_request("T", b"two")))
    await until(lambda: master.forwarder.waiting > 0, "who gave up takes nothing more")
    assert master.store.log_end == slave.store.log_end
    again = await call(client, master, word("begin", documents(orders)))
    assert (again.code, again.ext.get("already")) == (0, "true")
    held.cancel()


async def test_a_master_whose_slave_is_away_serves_on(
    pair: list[BrokerProcess], client: RemotingClient
) -> None:
    master, slave = pair
    orders = orders_for(pair)
    await slave.stop("test")
    answer = await call(client, master, word("begin", documents(orders)))
    assert answer.code == 1 and slave.config.advertised in str(answer.remark)
    assert read_record(master.config.store_dir) is None and not master.roles.draining
    assert master.roles.serving


async def test_a_slave_follows_nobody_who_has_not_given_up(
    pair: list[BrokerProcess], client: RemotingClient
) -> None:
    master, slave = pair
    _, order = orders_for(pair)
    answer = await call(client, slave, word("follow", order.document()))
    assert answer.code == 1 and "has not given up" in str(answer.remark)
    assert read_record(slave.config.store_dir) is None
    answer = await call(client, master, word("follow", order.document()))
    assert answer.code == 1 and "not its order" in str(answer.remark)


async def test_who_is_no_host_of_the_set_may_only_look(
    pair: list[BrokerProcess], client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = pair[0]
    monkeypatch.setattr(master.change_over, "_is_ours", lambda _peer: False)
    answer = await call(client, master, word("begin", documents(orders_for(pair))))
    assert answer.code == 16
    seen = fastjson.loads((await call(client, master, word("look"))).body)
    assert isinstance(seen, dict) and (seen["kind"], seen["broker_id"]) == ("fixed", 0)
    assert seen["serving"] and seen["change"] == "" and seen["orders"] == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[{}]", b'{"kind":"fixed"}', b"\xff"])
async def test_what_is_no_order_is_refused(
    pair: list[BrokerProcess], client: RemotingClient, body: bytes
) -> None:
    for name in ("begin", "follow"):
        request = RemotingCommand.request(19018, {"word": name}, body)
        assert (await call(client, pair[0], request)).code == 1
    assert pair[0].roles.serving and not pair[0].roles.draining


class HandClock:
    """Stands where the test puts it."""

    ms = 0

    def now_ms(self) -> int:
        return self.ms


class Gathering:
    """A master in a new life, which holds a write for a second at most."""

    HOLD_MS = 1_000

    def __init__(self) -> None:
        self.roles, self.clock, self.whole = RoleView(), HandClock(), False
        self.roles.gather(True)
        self.roles.changed(RoleChanged("MASTER", 1, 1, "h:1", (1,), 1))
        here = Here(
            *("regent", "a", "h:1", Path("nowhere"), Kind.CONTROLLERS, lambda: 1, 2, False),
            *((), Lines(0), None),
        )
        others: Any = None  # neither asked nor told here
        self.part = ChangeOver(
            *(here, self.roles, others, self.clock),  # type: ignore[arg-type]
            *(others, others, lambda: self.whole, self.HOLD_MS),
        )

    async def holds_at(self, ms: int) -> bool:
        """Whether writes are held then, however often it looks."""
        self.clock.ms = ms
        for _ in range(5):
            await self.roles.wait_change(LOOK_MS)
        return not self.roles.serves(writes=True)

    async def serves_at(self, ms: int) -> None:
        """From that time on writes are taken, as soon as it looks."""
        self.clock.ms = ms
        await until(lambda: self.roles.serves(writes=True), "writes are taken")


async def test_writes_of_a_new_life_wait_for_the_others_longer_than_one_write_does() -> None:
    """Each write is held for its own time; the next try of its client waits on."""
    one = Gathering()
    waits = asyncio.ensure_future(one.part.gather())
    assert await one.holds_at(0) and await one.holds_at(2 * one.HOLD_MS)
    one.whole = True
    await one.serves_at(2 * one.HOLD_MS + 1)
    await waits


async def test_others_that_do_not_come_are_not_waited_for_for_ever() -> None:
    one = Gathering()
    waits = asyncio.ensure_future(one.part.gather())
    assert await one.holds_at(0) and await one.holds_at(GATHER_HOLDS * one.HOLD_MS - 1)
    await one.serves_at(GATHER_HOLDS * one.HOLD_MS)
    await waits
