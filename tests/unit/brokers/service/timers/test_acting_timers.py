"""A slave that acts delivers timed messages of its own log to the master of another set: once, none
early, and told behind what that master took.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from brokers.acting import escape as escape_rules
from brokers.acting.backoff import Backoff
from brokers.service.sending.timed import TIMER_TOPIC, TimerRules
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import StoredMessage, decode_messages
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.support.timers import TimeMachine, timed


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape_rules, "AGAIN", Backoff(20, 100))
    monkeypatch.setattr(escape_rules, "ROUTE_AGAIN_MS", 50)


class Two:
    """One that will act, the master of another set, and the time of the first."""

    def __init__(self, acting: Desk, other: Desk) -> None:
        self.acting, self.other = acting, other
        self.time = TimeMachine(acting)
        self._keeps = True

    async def seconds(self, number: int) -> None:
        for _ in range(number * 4):
            self.time.pass_ms(250)
            await self.turn()

    async def turn(self) -> None:
        self.acting.service.timers.tick(self.acting.clock.now_ms())
        assert self.acting.service.escape is not None
        self.acting.service.escape.tick(self.acting.clock.now_ms())
        await asyncio.sleep(0.002)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Time stands still meanwhile."""

        async def holds() -> bool:
            await self.turn()
            return condition()

        await until(holds, what)

    @property
    def read_ms(self) -> int:
        return self.acting.tables.kept.timer_check_point.read_ms

    async def given(self, count: int, delay_s: int) -> list[bytes]:
        bodies = [b"t%d-%03d" % (delay_s, number) for number in range(count)]
        for body in bodies:
            answer = await self.acting.ask(timed(body, {"TIMER_DELAY_SEC": delay_s}))
            assert answer.code == 0, answer.remark
        await until(lambda: self.acting.service.timers.behind == 0, "all are in the wheel")
        return bodies


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    rules = TimerRules(roll_window_slots=60)
    async with Desk(tmp_path / "a", timers=rules) as acting, Desk(tmp_path / "b") as other:
        other.lead()
        acting.lead()
        assert (await other.ask(send_request("T", b"first"))).code == 0
        yield Two(acting, other)


def arrived(desk: Desk, topic: str = "T") -> list[StoredMessage]:
    records = decode_messages(desk.store.read_log(0, desk.store.log_end))
    return [one for one in records if one.fields.topic == topic and one.fields.body != b"first"]


def bodies(desk: Desk, topic: str = "T") -> list[bytes]:
    return sorted(one.fields.body for one in arrived(desk, topic))


async def test_what_is_due_arrives_once_and_not_early(two: Two) -> None:
    wanted = await two.given(150, 4)
    end, due_ms = two.acting.store.log_end, two.time.now_ms + 4_000
    two.acting.act(two.other)
    await two.seconds(3)
    assert not arrived(two.other)
    await two.seconds(3)
    await until(lambda: two.read_ms > due_ms, "it is told that the slot is done")
    assert bodies(two.other) == wanted and two.acting.store.log_end == end
    found = decode_properties(arrived(two.other)[0].fields.properties)
    assert not {"TIMER_DELAY_SEC", "TIMER_DELIVER_MS"} & set(found)


async def test_the_place_stays_in_front_of_what_is_not_taken(two: Two) -> None:
    wanted = await two.given(100, 2)
    due_ms = two.time.now_ms + 2_000
    two.other.refusal = "in-sync replicas not enough: 1 of 2"
    two.acting.act(two.other)
    await two.seconds(8)
    escape = two.acting.service.escape
    assert escape is not None
    await two.until(lambda: escape.counts["not taken"] >= 64, "many are refused")
    assert not arrived(two.other) and two.read_ms <= due_ms
    two.other.refusal = None
    for _ in range(200):
        await two.seconds(1)
        if two.read_ms > due_ms:
            break
    assert two.read_ms > due_ms and bodies(two.other) == wanted


async def test_what_the_master_put_behind_its_wheel_is_taken_in(two: Two) -> None:
    """Messages that lie in the log and in no wheel when the master goes."""
    two.acting.service.timers.rules.stop_enqueue = True
    for number in range(20):
        await two.acting.ask(timed(b"n%02d" % number, {"TIMER_DELAY_SEC": 2}))
    assert two.acting.service.timers.behind == 20
    two.acting.service.timers.rules.stop_enqueue = False
    two.acting.act(two.other)
    await two.seconds(6)
    await until(lambda: len(arrived(two.other)) == 20, "all arrive")


async def test_what_is_rolled_on_goes_to_the_other_wheel(two: Two) -> None:
    await two.given(1, 3_000)
    two.acting.act(two.other)
    await two.seconds(70)
    await two.until(lambda: bodies(two.other, TIMER_TOPIC) == [b"t3000-000"], "it has left")
    assert not arrived(two.other)


async def test_who_goes_on_does_so_behind_what_was_taken(two: Two) -> None:
    first = await two.given(20, 2)
    due_ms = two.time.now_ms + 2_000
    second = await two.given(20, 9)
    two.acting.act(two.other)
    await two.seconds(5)
    await two.until(lambda: two.read_ms > due_ms, "the first ones are told")
    two.acting.service.acting_over()
    two.acting.leads = True
    two.acting.lead(3)
    await two.seconds(10)
    await until(lambda: bodies(two.acting) == second, "the rest comes here")
    assert bodies(two.other) == first
