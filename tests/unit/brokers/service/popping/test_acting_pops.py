"""Pops of clients at a slave that acts: check points and acknowledgements go to another set's
master, and nothing is handed out, nor does a group go on, before it has them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.acting import escape as escape_rules
from brokers.acting.backoff import Backoff
from brokers.acting.targets import Route
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.escape import awaited
from brokers.service.popping.names import REVIVE_GROUP
from brokers.store.log.records import StoredMessage, decode_messages
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.support.pops import REVIVE

RETRY, CHANGE, BATCH = "%RETRY%g_T", 200053, 200151
SHORT_MS, LONG_MS = 2_000, 60_000


class Nobody:
    """A connection of a client that waits."""

    id, closed = 1, False


NOBODY: Connection = Nobody()  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape_rules, "AGAIN", Backoff(20, 100))
    monkeypatch.setattr(escape_rules, "ROUTE_AGAIN_MS", 50)
    monkeypatch.setattr(awaited, "NOTED_MS", 500)


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    """Three messages; the first one acts, the other one takes what leaves."""
    async with Desk(tmp_path / "a", name="a") as acting, Desk(tmp_path / "b") as other:
        for desk in (acting, other):
            desk.lead().service.ensure_groups(["g"])
        for number in range(3):
            assert (await acting.ask(send_request("T", b"%d" % number, 0))).code == 0

        async def get(topic: str, queue_id: int, offset: int, _name: str) -> StoredMessage:
            return decode_messages(acting.store.query(topic, queue_id, offset, 1).body)[0]

        # By way of a pull, which a slave that acts serves: `test_acting_escape`.
        other.service.popping.revive._others._get = get
        yield acting.act(other), other


async def asked(desk: Desk, request: RemotingCommand) -> RemotingCommand:
    """As a slave that acts serves it."""
    answer = desk.service.served[request.code].handler(NOBODY, request)
    found = answer if answer is None or isinstance(answer, RemotingCommand) else await answer
    assert found is not None
    return found


async def popped(desk: Desk, invisible_ms: int = LONG_MS) -> list[Gotten]:
    return gotten(await asked(desk, pop_request(invisibleTime=invisible_ms)), "a")


def of(desk: Desk, topic: str) -> list[StoredMessage]:
    records = decode_messages(desk.store.read_log(0, desk.store.log_end))
    return [one for one in records if one.fields.topic == topic]


def place(desk: Desk) -> int | None:
    return desk.tables.offsets.query("g", "T", 0)


async def test_messages_are_handed_out_and_come_again_from_the_other_set(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    end = acting.store.log_end
    found = await popped(acting, SHORT_MS)
    assert [one.body for one in found] == [b"0", b"1", b"2"]
    assert (await asked(acting, ack_request(found[1].handle))).code == 0
    assert place(acting) == 3 and acting.store.log_end == end
    await until(lambda: len(of(other, RETRY)) == 2, "what was not acknowledged comes back")
    assert sorted(bytes(one.fields.body) for one in of(other, RETRY)) == [b"0", b"2"]
    assert not of(acting, REVIVE) and acting.store.log_end == end


@pytest.mark.parametrize("code", [200051, BATCH])
async def test_what_is_acknowledged_does_not_come_again(
    desks: tuple[Desk, Desk], code: int
) -> None:
    acting, other = desks
    for one in await popped(acting, SHORT_MS):
        assert (await asked(acting, ack_request(one.handle))).code == 0
    await until(lambda: len(of(other, REVIVE)) >= 4, "all records are in the revive topic")
    assert len({one.fields.queue_id for one in of(other, REVIVE)}) == 1, "in one queue"
    queue = of(other, REVIVE)[0].fields.queue_id
    await until(
        lambda: other.tables.offsets.query(REVIVE_GROUP, REVIVE, queue) is not None, "it is decided"
    )
    assert not of(other, RETRY)


async def test_another_time_counts(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    first, *_ = await popped(acting)
    changed = await asked(acting, ack_request(first.handle, code=CHANGE, invisibleTime=SHORT_MS))
    assert changed.code == 0, changed.remark
    await until(lambda: len(of(other, RETRY)) == 1, "it comes back at the new time")
    assert bytes(of(other, RETRY)[0].fields.body) == b"0"


async def test_nothing_is_handed_out_without_a_check_point(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    other.refusal = "in-sync replicas not enough: 1 of 2"
    refused = await asked(acting, pop_request(invisibleTime=SHORT_MS))
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "other masters do not take it" in (refused.remark or "")
    assert place(acting) in (None, 0)
    other.refusal = None
    escape = acting.service.escape
    assert escape is not None and escape.escape.in_hand == 0, "its check point is withdrawn"
    assert [one.body for one in await popped(acting)] == [b"0", b"1", b"2"]
    assert place(acting) == 3


async def test_with_one_set_only_a_pop_says_what_it_waits_for(desks: tuple[Desk, Desk]) -> None:
    acting, other = desks
    acting.route = Route()
    refused = await asked(acting, pop_request())
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "no other set has a master" in (refused.remark or "") and place(acting) in (None, 0)
    acting.route_to(other)
    assert len(await popped(acting)) == 3


async def test_an_acknowledgement_that_nobody_took_is_tried_again_for_ever(
    desks: tuple[Desk, Desk],
) -> None:
    acting, other = desks
    first, second, third = await popped(acting, 4_000)
    other.refusal = "in-sync replicas not enough: 1 of 2"
    refused = await asked(acting, ack_request(first.handle))
    assert refused.code == ResponseCode.SYSTEM_ERROR and acting.service.escape is not None
    assert acting.service.escape.awaited.waiting == 1
    other.refusal = None
    await until(lambda: acting.service.escape.awaited.waiting == 0, "it was taken")  # type: ignore[union-attr]
    for one in (second, third):
        assert (await asked(acting, ack_request(one.handle))).code == 0
    await until(lambda: len(of(other, REVIVE)) >= 4, "all records are in the revive topic")
    assert not of(other, RETRY)


async def test_more_than_so_many_are_refused(
    desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    acting, _ = desks
    monkeypatch.setattr(awaited, "AWAITED_MAX", 0)
    refused = await asked(acting, pop_request())
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE and place(acting) in (None, 0)


async def test_a_group_that_the_slave_does_not_know_is_not_made(desks: tuple[Desk, Desk]) -> None:
    acting, _ = desks
    refused = await asked(acting, pop_request("T", "stranger"))
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert acting.tables.groups.get("stranger") is None


async def test_when_acting_ends_nothing_is_handed_out(desks: tuple[Desk, Desk]) -> None:
    acting, _ = desks
    assert len(await popped(acting)) == 3
    assert (await asked(acting, pop_request())).code == ResponseCode.POLLING_TIMEOUT
    assert acting.service.escape is not None
    acting.service.escape.hold()
    waits = await asked(acting, pop_request("T", "g", queueId=0))
    assert waits.code == ResponseCode.POLLING_TIMEOUT
    acting.service.acting_over()
    assert (await asked(acting, pop_request())).code != ResponseCode.SUCCESS
