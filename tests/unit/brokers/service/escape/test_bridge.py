"""The shell of the escape: getting one message of another set, late answers, its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.acting.forms import Kind
from brokers.acting.outcomes import Got
from brokers.service.escape import bridge
from brokers.store.log.records import MessageFields, StoredMessage, decode_messages
from tests.support.brokers import until
from tests.support.client_service import Desk
from tests.support.two_sets import HOST, message, two_sets, way


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    async with two_sets(tmp_path) as pair:
        yield pair


async def test_one_message_of_another_set(desks: tuple[Desk, Desk]) -> None:
    one, _ = desks
    found = await way(one).get("T", 0, 0, "b2")
    assert isinstance(found, StoredMessage) and found.fields.body == b"first"
    assert await way(one).get("T", 0, 7, "b2") is Got.ABSENT
    assert await way(one).get("T", 0, 0, "gone") is Got.RETRY
    assert await way(one).get("T", 0, 0, "unknown") is Got.RETRY


async def test_an_answer_after_the_end_says_nothing(
    desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = desks
    monkeypatch.setattr(bridge, "PUT_TIMEOUT_MS", 60_000)
    other.confirm_at_once = False
    one.act(other)
    outlet = way(one).outlet("s", Kind.LEVEL)
    outlet.append([message(b"late")])
    await until(lambda: other.waits, "the other set has it and waits")
    assert not await way(one).settled(50)
    one.service.acting_over()
    other.confirm()
    assert await way(one).settled(30_000)
    await until(lambda: way(one).escape.in_hand == 0, "it is forgotten")


async def test_what_fits_no_frame_is_no_answer_of_the_other_master(
    desks: tuple[Desk, Desk],
) -> None:
    one, other = desks
    one.act(other)
    big = MessageFields("T", 0, b"x" * (5 << 20), b"", 77, HOST, HOST)
    outlet = way(one).outlet("s", Kind.LEVEL)
    outlet.append([big, message(b"behind")])
    await until(lambda: way(one).left == {"delay level": 1}, "the one behind it has left")
    assert outlet.safe_offset < (1 << 62) + 1


@pytest.mark.parametrize("topic", ["%RETRY%g", "%RETRY%g_T"])
async def test_a_try_beyond_the_receivers_limit_is_no_dead_letter_there(
    desks: tuple[Desk, Desk], topic: str
) -> None:
    """The group has its own limit at home, or its client has; and popped messages have none."""
    one, other = desks
    one.act(other)
    copy = MessageFields(topic, 0, b"again", b"", 77, HOST, HOST, reconsume_times=40)
    way(one).outlet("s", Kind.LEVEL).append([copy])
    await until(lambda: way(one).left == {"delay level": 1}, "it has left")
    records = decode_messages(other.store.read_log(0, other.store.log_end))
    assert [(r.fields.topic, r.fields.reconsume_times) for r in records][1:] == [(topic, 40)]


async def test_whose_turn_it_is_is_looked_at_before_anything_is_sent(
    desks: tuple[Desk, Desk],
) -> None:
    one, other = desks
    looks: list[int] = []

    def another_one_acts() -> None:
        looks.append(way(one).escape.in_flight)
        one.service.acting_stops()

    way(one).look_first = another_one_acts
    one.act(other)
    way(one).escape.offer("s", 0, Kind.LEVEL, message(b"due"))
    await until(lambda: len(looks) >= 3, "it was looked at again and again")
    assert way(one).escape.in_hand == 1 and not way(one).left and not any(looks)


async def test_what_left_is_told_when_the_acting_is_over_at_the_latest(
    desks: tuple[Desk, Desk],
) -> None:
    one, other = desks
    told: list[tuple[str, dict[str, object]]] = []
    way(one).report = lambda kind, fields: told.append((kind, dict(fields)))
    one.act(other)
    way(one).outlet("s", Kind.LEVEL).append([message(b"due")])
    await until(lambda: way(one).left == {"delay level": 1}, "it has left")
    one.service.acting_over()
    await until(lambda: bool(told), "its batch is told")
    [(kind, fields)] = told
    assert kind == "EscapeBatch"
    assert (fields["kind"], fields["messages"], fields["topics"]) == ("delay level", 1, ["T"])


async def test_what_waits_is_told_with_its_reasons(desks: tuple[Desk, Desk]) -> None:
    one, _ = desks
    told: list[tuple[str, dict[str, object]]] = []
    way(one).report = lambda kind, fields: told.append((kind, dict(fields)))
    one.act()
    way(one).outlet("s", Kind.LEVEL).append([message(b"due")])
    await until(lambda: bool(told), "that it waits is told")
    kind, fields = told[0]
    assert kind == "EscapeWaits" and fields["messages"] == 1
    assert len(fields["reasons"]) == len(fields["waiting"]) == 1  # type: ignore[arg-type]
