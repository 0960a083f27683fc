"""A slave that acts brings back what was popped of its set: a copy for another try goes to the
master of another set, once, and the place is told behind what that master took.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.acting import escape as escape_rules
from brokers.acting.backoff import Backoff
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.popping.names import REVIVE_GROUP
from brokers.service.popping.others_messages import OthersMessages
from brokers.service.popping.records import CheckPoint, Key
from brokers.store.log.records import StoredMessage, decode_messages
from infra.features.pop_requests import ack_request
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.support.pops import REVIVE, popped

RETRY = "%RETRY%g_T"
ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME = 200051, 200053


class Nobody:
    """A connection of a client that waits."""

    id, closed = 1, False


NOBODY: Connection = Nobody()  # type: ignore[assignment]
INVISIBLE_MS = 1_000


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape_rules, "AGAIN", Backoff(20, 100))
    monkeypatch.setattr(escape_rules, "ROUTE_AGAIN_MS", 50)


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    async with Desk(tmp_path / "a") as acting, Desk(tmp_path / "b") as other:
        other.lead()
        acting.lead()
        for desk in (acting, other):
            desk.service.ensure_groups(["g"])
        yield acting, other


def copies(desk: Desk) -> list[StoredMessage]:
    records = decode_messages(desk.store.read_log(0, desk.store.log_end))
    return [one for one in records if one.fields.topic == RETRY]


def records_of(desk: Desk) -> list[StoredMessage]:
    records = decode_messages(desk.store.read_log(0, desk.store.log_end))
    return [one for one in records if one.fields.topic == REVIVE]


def places(desk: Desk) -> list[int | None]:
    return [desk.tables.offsets.query(REVIVE_GROUP, REVIVE, number) for number in range(8)]


async def check_points_in_log(desk: Desk, count: int) -> None:
    """Some messages are popped, and their check points have come out of the wheel."""
    for number in range(count):
        assert (await desk.ask(send_request("T", b"%d" % number, 0))).code == 0
    assert len(await popped(desk, invisibleTime=INVISIBLE_MS)) == count
    await until(lambda: len(records_of(desk)) >= 1, "the check point is in the revive topic")


async def test_a_copy_of_what_was_not_acknowledged_goes_to_the_other_master_once(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    await check_points_in_log(acting, 3)
    end = acting.store.log_end
    acting.act(other)
    await until(lambda: 0 in places(acting), "it is told that the check point is done")
    assert sorted(bytes(one.fields.body) for one in copies(other)) == [b"0", b"1", b"2"]
    assert {one.fields.reconsume_times for one in copies(other)} == {1}
    assert acting.store.log_end == end, "the own log is not written"


async def test_an_acknowledgement_that_is_still_in_the_wheel_counts(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    for number in range(3):
        assert (await acting.ask(send_request("T", b"%d" % number, 0))).code == 0
    handles = [each.handle for each in await popped(acting, invisibleTime=2_500)]
    for handle in handles[:2]:
        assert (await acting.ask(ack_request(handle))).code == 0
    await until(lambda: len(records_of(acting)) >= 1, "the check point is in the revive topic")
    acting.act(other)
    await until(lambda: 0 in places(acting), "it is told that the check point is done")
    assert [bytes(one.fields.body) for one in copies(other)] == [b"2"]


@pytest.mark.parametrize("code", [ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME])
async def test_what_is_said_in_the_first_moment_of_acting_counts(
    desks: tuple[Desk, Desk], code: int
) -> None:
    """Its check point is here, and has not been read yet. RocketMQ's clients say it once."""
    acting, other = desks
    assert (await acting.ask(send_request("T", b"0", 0))).code == 0
    (one,) = await popped(acting, invisibleTime=2_500)
    await until(lambda: len(records_of(acting)) == 1, "the check point is in the revive topic")
    acting.act(other)
    told = await acked(acting, one.handle, code)
    assert told.code == 0, told.remark
    await until(lambda: 0 in places(acting), "it is told that the check point is done")
    assert not copies(other)
    assert len(records_of(other)) == 0, "of a changed time the new check point waits for its own"


async def test_what_is_said_when_acting_ends_at_once_is_refused(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    assert (await acting.ask(send_request("T", b"0", 0))).code == 0
    (one,) = await popped(acting, invisibleTime=2_500)
    await until(lambda: len(records_of(acting)) == 1, "the check point is in the revive topic")
    acting.act(other)
    asking = asyncio.ensure_future(acked(acting, one.handle, ACK_MESSAGE))
    await asyncio.sleep(0)
    acting.service.acting_over()
    told = await asking
    assert (told.code, told.remark and "acts no more" in told.remark) == (1, True)


async def acked(desk: Desk, handle: str, code: int) -> RemotingCommand:
    """As a slave that acts serves it."""
    request = ack_request(handle, code=code, invisibleTime=60_000)
    answer = desk.service.served[code].handler(NOBODY, request)
    assert answer is not None and not isinstance(answer, RemotingCommand)
    found = await answer
    assert found is not None
    return found


async def test_the_place_stays_in_front_of_what_is_not_taken(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    await check_points_in_log(acting, 5)
    other.refusal = "in-sync replicas not enough: 1 of 2"
    acting.act(other)
    escape = acting.service.escape
    assert escape is not None
    await until(lambda: escape.counts.get("not taken", 0) >= 10, "it refused often")
    assert places(acting) == [None] * 8 and not copies(other)
    other.refusal = None
    await until(lambda: 0 in places(acting), "it is told that the check point is done")
    assert sorted(bytes(one.fields.body) for one in copies(other)) == [
        b"%d" % number for number in range(5)
    ]


async def test_a_check_point_that_is_still_in_the_wheel_goes_to_the_other_set(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    assert (await acting.ask(send_request("T", b"0", 0))).code == 0
    assert len(await popped(acting, invisibleTime=3_000)) == 1
    acting.act(other)
    assert not records_of(acting)
    await until(lambda: len(records_of(other)) == 1, "it came out of the wheel")


async def foreign(desk: Desk, broker_name: str) -> None:
    """A check point of another set, whose slave acts."""
    wall_ms = desk.clock.wall_ms()
    key = Key("T", "g", 0, 0, wall_ms - 10_000, broker_name)
    record = desk.service.popping.terms.records.check_point(
        CheckPoint(key, 1_000, (0, 1)), 3, wall_ms
    )
    desk.service.puts.append([record])


async def test_a_check_point_of_another_set_brings_its_messages_here(
    desks: tuple[Desk, Desk],
) -> None:
    set_there, reviving = desks
    for number in range(2):
        assert (await set_there.ask(send_request("T", b"%d" % number, 0))).code == 0
    reviving.sets = {"a": set_there.address}
    await foreign(reviving, "a")
    await until(lambda: len(copies(reviving)) == 2, "its messages are copied")
    assert sorted(bytes(one.fields.body) for one in copies(reviving)) == [b"0", b"1"]


async def test_a_set_that_nobody_reaches_is_asked_again_later(desks: tuple[Desk, Desk]) -> None:
    _, reviving = desks
    await foreign(reviving, "nowhere")
    await until(
        lambda: reviving.store.queue_bounds("rmq_sys_wheel_timer", 0)[1] == 2,
        "a check point for each message waits for its time",
    )
    assert not copies(reviving) and reviving.service.popping.revive.open == 0


def test_without_a_way_nothing_is_fetched() -> None:
    assert not OthersMessages(None).possible


async def test_a_check_point_that_the_wheel_brings_again_is_not_sent_to_the_other_set(
    desks: tuple[Desk, Desk],
) -> None:
    """The master had delivered it, and had not told so yet."""
    acting, other = desks
    before = acting.tables.kept.timer_check_point.value
    for number in range(3):
        assert (await acting.ask(send_request("T", b"%d" % number, 0))).code == 0
    handles = [each.handle for each in await popped(acting, invisibleTime=4_000)]
    assert (await acting.ask(ack_request(handles[0]))).code == 0
    await until(lambda: len(records_of(acting)) >= 1, "the check point is in the revive topic")
    acting.follow("127.0.0.1:1", 2)
    check = acting.tables.kept.timer_check_point
    check.value = (before[0] or check.value[0] - 3_600_000, *check.value[1:])
    acting.act(other)
    await until(lambda: 0 in places(acting), "it is told that the check point is done")
    assert sorted(bytes(one.fields.body) for one in copies(other)) == [b"1", b"2"]
    assert not records_of(other)
