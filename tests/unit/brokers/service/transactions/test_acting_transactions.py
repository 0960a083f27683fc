"""Halves that nobody ended leave a set whose master is away: once, to another master, which asks
their producer; the place is told behind what that master took.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.acting import escape as escape_rules
from brokers.acting.backoff import Backoff
from brokers.service.transactions import leaving
from brokers.service.transactions.forms import GROUP
from brokers.service.transactions.rules import TransactionTerms
from brokers.store.log.properties import decode_properties
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.unit.brokers.service.transactions.test_transactions import (
    HALF_TOPIC,
    Producer,
    bodies,
    end,
    log,
    sent,
)

SOON = TransactionTerms(timeout_ms=0, check_interval_ms=20)


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape_rules, "AGAIN", Backoff(20, 100))
    monkeypatch.setattr(escape_rules, "ROUTE_AGAIN_MS", 50)


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    """One that will act, and the master of another set, which asks soon."""
    async with Desk(tmp_path / "a") as acting, Desk(tmp_path / "b", transactions=SOON) as other:
        other.lead()
        acting.lead()
        assert (await other.ask(send_request("T", b"first"))).code == 0
        assert (await acting.ask(send_request("T", b"first"))).code == 0
        yield acting, other


def place(desk: Desk) -> int | None:
    return desk.tables.offsets.query(GROUP, HALF_TOPIC, 0)


async def test_only_what_nobody_ended_leaves_and_the_other_master_asks_its_producer(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    told = [await sent(acting, key=f"K{number}") for number in range(6)]
    for number in (1, 4):
        assert (await acting.ask(end(told[number]))).code == 0
    acting.store.checkpoint()
    log_end = acting.store.log_end
    async with Producer(other) as producer:
        acting.act(other)
        await until(lambda: place(acting) == 6, "it is told that all are gone")
        asked_about = {"K0", "K2", "K3", "K5"}
        await until(
            lambda: {one.ext["msgId"] for one in producer.asked} == asked_about,
            "the other master asks about each",
        )
        for asked in {one.ext["msgId"]: one for one in producer.asked}.values():
            assert (await other.ask(producer.answer(asked))).code == 0
    await until(lambda: len(bodies(other)) == 5, "they are visible there")
    assert sorted(bodies(other)) == [b"K0", b"K2", b"K3", b"K5", b"first"]
    assert acting.store.log_end == log_end, "the own log is not written"
    found = decode_properties(log(other, HALF_TOPIC)[0].fields.properties)
    assert (found["PGROUP"], found["REAL_TOPIC"]) == ("pg", "T")


async def test_the_place_stays_in_front_of_what_is_not_taken(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    for number in range(100):
        await sent(acting, key=f"K{number:02}")
    other.refusal = "in-sync replicas not enough: 1 of 2"
    acting.act(other)
    escape = acting.service.escape
    assert escape is not None
    await until(lambda: escape.counts.get("not taken", 0) >= 100, "it refused often")
    assert not place(acting) and not log(other, HALF_TOPIC)
    other.refusal = None
    await until(lambda: place(acting) == 100, "it is told that all are gone")
    assert sorted({bytes(one.fields.body) for one in log(other, HALF_TOPIC)}) == [
        b"K%02d" % number for number in range(100)
    ]


async def test_with_one_set_only_they_wait(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    await sent(acting, key="K0")
    escape = acting.service.escape
    assert escape is not None
    acting.act()
    await until(lambda: escape.waits_for.total() == 1, "it waits")
    assert not place(acting)
    acting.service.acting_over()
    acting.act(other)
    await until(lambda: place(acting) == 1, "another set is there")
    assert len(log(other, HALF_TOPIC)) == 1


async def test_who_leads_again_asks_about_none_that_left(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    for number in range(3):
        await sent(acting, key=f"K{number}")
    acting.act(other)
    await until(lambda: place(acting) == 3, "it is told that all are gone")
    acting.service.acting_over()
    acting.leads = True
    acting.lead(3)
    await until(lambda: acting.service.ledger.is_loaded, "it knows its decisions")
    assert acting.service.ledger.undecided == 0


async def test_a_half_that_is_damaged_is_waited_for_and_then_passed(
    desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    acting, other = desks
    begin = acting.store.log_end
    await sent(acting, key="K" * 50)
    await sent(acting, key="K1")
    path = next((tmp_path / "a" / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    data[data.index(b"K" * 50, begin)] ^= 1
    path.write_bytes(data)
    acting.act(other)
    await until(lambda: acting.service.ledger.is_loaded, "it knows its decisions")
    for _ in range(3):
        acting.service.halves.tick(1)
    assert not log(other, HALF_TOPIC) and not place(acting)
    monkeypatch.setattr(leaving, "DAMAGED_WAIT_MS", 0)
    await until(lambda: place(acting) == 2, "it is told that both are dealt with")
    assert [bytes(one.fields.body) for one in log(other, HALF_TOPIC)] == [b"K1"]
