"""Records of pops that their clients wait for, on their way to another set."""

from __future__ import annotations

import asyncio

import pytest

from brokers.acting.effects import SendAway
from brokers.acting.escape import Escape
from brokers.acting.targets import Route
from brokers.service.escape import awaited
from brokers.service.escape.awaited import Awaited
from brokers.service.sending.log_writes import NotPut
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import MessageFields, host_bytes

TOPIC, HOST = "rmq_sys_REVIVE_LOG_c", host_bytes("10.0.0.2", 10911)
RECORD = MessageFields(TOPIC, 0, b"{}", encode_properties({"TAGS": "ck"}), 77, HOST, HOST)


def made(acts: bool = True) -> tuple[Escape, Awaited]:
    escape = Escape(allowed=True, has_local_master=lambda: False)
    return escape, Awaited(escape, lambda: acts, lambda: None)


def sent(escape: Escape) -> list[SendAway]:
    escape.tick(0, 0.5)
    escape.route_told(TOPIC, Route((("b", "b:1", 4),)), 0)
    return [one for one in escape.tick(1, 0.5) if isinstance(one, SendAway)]


async def begun(way: Awaited, *, withdraws: bool) -> asyncio.Task[None]:
    task = asyncio.ensure_future(way.put(RECORD, withdraws=withdraws))
    await asyncio.sleep(0)
    return task


async def test_it_is_over_when_the_other_master_has_it() -> None:
    escape, way = made()
    task = await begun(way, withdraws=True)
    (one,) = sent(escape)
    assert not task.done() and way.waiting == 1
    escape.answered(one.token, 0, 2, 0.5)
    await task
    assert way.waiting == escape.in_hand == 0


@pytest.mark.parametrize("withdraws", [True, False])
async def test_what_nobody_takes_is_withdrawn_or_tried_on(
    withdraws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "NOTED_MS", 20)
    escape, way = made()
    task = await begun(way, withdraws=withdraws)
    (one,) = sent(escape)
    with pytest.raises(NotPut, match="no master of another set has taken it: no answer"):
        await task
    assert way.waiting == escape.in_hand == (0 if withdraws else 1)
    escape.answered(one.token, 0, 2, 0.5)
    assert way.waiting == escape.in_hand == 0


async def test_who_acts_no_more_has_it_nowhere() -> None:
    escape, way = made()
    task = await begun(way, withdraws=False)
    escape.forget()
    with pytest.raises(NotPut, match="acts no more"):
        await task
    assert way.waiting == 0
    with pytest.raises(NotPut, match="takes no more"):
        await made(acts=False)[1].put(RECORD, withdraws=True)


async def test_so_many_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "AWAITED_MAX", 1)
    escape, way = made()
    task = await begun(way, withdraws=False)
    with pytest.raises(NotPut, match="takes no more"):
        await way.put(RECORD, withdraws=False)
    escape.hold()
    monkeypatch.setattr(awaited, "AWAITED_MAX", 2)
    with pytest.raises(NotPut, match="takes no more"):
        await way.put(RECORD, withdraws=False)
    escape.forget()
    with pytest.raises(NotPut):
        await task


async def test_who_is_early_waits_for_the_begin_and_not_longer_than_it_may() -> None:
    acts = [False]
    escape = Escape(allowed=True, has_local_master=lambda: False)
    way = Awaited(escape, lambda: acts[0], lambda: None)
    assert not await way.begun(1)
    early = asyncio.ensure_future(way.begun(60_000))
    await asyncio.sleep(0)
    acts[0] = True
    way.changed()
    assert await early and await way.begun(0)


async def test_who_is_early_hears_at_once_that_it_is_over() -> None:
    _, way = made(acts=False)
    early = asyncio.ensure_future(way.begun(60_000))
    await asyncio.sleep(0)
    way.changed()
    assert not await early


async def test_what_is_no_record_of_a_pop_has_no_way() -> None:
    _, way = made()
    with pytest.raises(NotPut, match="takes no check points"):
        await way.put(MessageFields("T", 0, b"", b"", 77, HOST, HOST), withdraws=True)
