"""A slave that acts delivers delayed messages of its own log to the master of another set: once,
none early, and told behind what that master took.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.acting import escape as escape_rules
from brokers.acting.backoff import Backoff
from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.escape import bridge
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import StoredMessage, decode_messages
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape_rules, "AGAIN", Backoff(20, 100))
    monkeypatch.setattr(escape_rules, "ROUTE_AGAIN_MS", 50)


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    """One that will act, and the master of another set."""
    async with Desk(tmp_path / "a") as acting, Desk(tmp_path / "b") as other:
        acting.stand_at(0)
        other.lead()
        acting.lead()
        assert (await other.ask(send_request("T", b"first"))).code == 0
        yield acting, other


def delayed(body: bytes, level: int) -> RemotingCommand:
    request = send_request("T", body)
    request.ext["i"] = f"UNIQ_KEY\x01{body.decode()}\x02TAGS\x01t\x02DELAY\x01{level}\x02"
    return request


async def given(desk: Desk, count: int, level: int = 1) -> list[bytes]:
    bodies = [b"l%d-%03d" % (level, number) for number in range(count)]
    for body in bodies:
        assert (await desk.ask(delayed(body, level))).code == 0
    return bodies


def arrived(desk: Desk) -> list[StoredMessage]:
    records = decode_messages(desk.store.read_log(0, desk.store.log_end))
    return [one for one in records if one.fields.topic == "T" and one.fields.body != b"first"]


def bodies(desk: Desk) -> list[bytes]:
    return [one.fields.body for one in arrived(desk)]


async def places(desk: Desk) -> dict[str, int]:
    body = fastjson.loads((await desk.ask(RemotingCommand.request(45))).body)
    assert isinstance(body, dict)
    return {str(level): place for level, place in body["offsetTable"].items()}


async def test_what_is_due_arrives_once_and_the_own_log_stays_as_it_is(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    wanted = await given(acting, 200)
    end = acting.store.log_end
    acting.act(other)
    acting.service.delivery.tick(1)
    assert not arrived(other), "nothing comes early"
    acting.stand_at(1_500)
    await until(lambda: acting.tables.kept.table(45).get("1") == 200, "all are told")
    assert sorted(bodies(other)) == wanted and acting.store.log_end == end
    found = decode_properties(arrived(other)[0].fields.properties)
    assert "DELAY" not in found and found["UNIQ_KEY"].startswith("l1-")


async def test_what_is_not_due_waits(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    await given(acting, 2, level=1)
    await given(acting, 2, level=3)
    acting.act(other)
    acting.stand_at(1_500)
    await until(lambda: acting.tables.kept.table(45).get("1") == 2, "the first level is told")
    assert bodies(other) == [b"l1-000", b"l1-001"]
    acting.stand_at(10_500)
    await until(lambda: acting.tables.kept.table(45).get("3") == 2, "the third one is told")
    assert len(bodies(other)) == 4


async def test_nothing_is_told_while_the_other_master_refuses_and_all_arrives_when_it_does_not(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    wanted = await given(acting, 100)
    other.refusal = "in-sync replicas not enough: 1 of 2"
    acting.act(other)
    acting.stand_at(1_500)
    escape = acting.service.escape
    assert escape is not None
    await until(lambda: escape.counts.get("not taken", 0) >= 100, "it refused often")
    assert not arrived(other) and not acting.tables.kept.table(45).get("1")
    other.refusal = None
    await until(lambda: acting.tables.kept.table(45).get("1") == 100, "all are told")
    assert sorted(bodies(other)) == wanted


async def test_an_answer_that_does_not_come_is_no_answer(
    desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    acting, other = desks
    monkeypatch.setattr(bridge, "PUT_TIMEOUT_MS", 100)
    wanted = await given(acting, 3)
    other.confirm_at_once = False
    acting.act(other)
    acting.stand_at(1_500)
    escape = acting.service.escape
    assert escape is not None
    await until(lambda: escape.counts.get("no answer", 0) >= 3, "it did not answer")
    assert not acting.tables.kept.table(45).get("1")
    other.confirm_at_once = True
    other.confirm()
    await until(lambda: acting.tables.kept.table(45).get("1") == 3, "all are told")
    assert set(bodies(other)) == set(wanted), "twice at worst: it may have been stored"


async def test_with_one_set_only_they_wait_and_it_is_said_once(
    desks: tuple[Desk, Desk], caplog: pytest.LogCaptureFixture
) -> None:
    acting, other = desks
    wanted = await given(acting, 5)
    escape = acting.service.escape
    assert escape is not None
    with caplog.at_level(logging.WARNING, "regent.broker.escape"):
        acting.act()
        acting.stand_at(1_500)
        await until(lambda: escape.waits_for.total() == 5, "they wait")
        for now_ms in range(0, 600_000, 60_001):
            escape.tick(acting.clock.now_ms() + now_ms)
    assert [one.getMessage() for one in caplog.records] == [
        f"5 messages are due and wait: {escape_rules.NO_MASTER}"
    ]
    assert not acting.tables.kept.table(45).get("1")
    acting.service.acting_over()
    acting.act(other)
    await until(lambda: acting.tables.kept.table(45).get("1") == 5, "another set is there")
    assert sorted(bodies(other)) == wanted


async def test_who_goes_on_does_so_behind_what_was_taken(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    first = await given(acting, 10)
    acting.act(other)
    acting.stand_at(1_500)
    await until(lambda: acting.tables.kept.table(45).get("1") == 10, "all are told")
    acting.service.acting_over()
    assert await places(acting) == {"1": 10}
    acting.service.delivery.tick(1)
    acting.leads = True
    acting.lead(3)
    assert (await acting.ask(delayed(b"new", 1))).code == 0
    acting.stand_at(5_000)
    await until(lambda: bodies(acting) == [b"new"], "the master delivers the rest itself")
    assert sorted(bodies(other)) == first


async def test_a_level_that_is_stuck_holds_no_other_one_up(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    for number in range(300):
        request = delayed(b"x%d" % number, 1)
        request.ext["b"] = "Unknown"
        assert (await acting.ask(request)).code == 0
    wanted = await given(acting, 50, level=2)
    other.tables.topics.configs.pop("TBW102")
    acting.act(other)
    acting.stand_at(6_000)
    await until(lambda: acting.tables.kept.table(45).get("2") == 50, "the second level is told")
    assert sorted(bodies(other)) == wanted and not acting.tables.kept.table(45).get("1")
