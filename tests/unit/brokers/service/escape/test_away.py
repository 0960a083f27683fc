"""The outlet of one source: forms, room, and what is safe."""

from __future__ import annotations

import pytest

from brokers.acting.effects import SendAway
from brokers.acting.escape import PER_SOURCE_MAX, Escape
from brokers.acting.forms import Kind
from brokers.acting.targets import Route
from brokers.service.escape.away import FIRST_NUMBER, Away
from brokers.service.sending.log_writes import NotPut
from brokers.store.appender import PutResult
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import MessageFields, RecordError, host_bytes

HOST = host_bytes("10.0.0.2", 10911)


def message(topic: str = "T", **properties: str) -> MessageFields:
    return MessageFields(topic, 0, b"body", encode_properties(properties), 77, HOST, HOST)


def outlet(kind: Kind = Kind.LEVEL) -> tuple[Escape, Away]:
    escape = Escape(allowed=True, has_local_master=lambda: False)
    return escape, Away(escape, "s", kind)


def sent(escape: Escape, topic: str = "T") -> list[SendAway]:
    escape.tick(0, 0.5)
    escape.route_told(topic, Route((("b", "b:1", 4),)), 0)
    return [one for one in escape.tick(1, 0.5) if isinstance(one, SendAway)]


def ends(results: list[PutResult | RecordError]) -> list[int | None]:
    return [None if isinstance(one, RecordError) else one.end_offset for one in results]


def test_nothing_is_safe_before_all_in_front_of_it_is_taken() -> None:
    escape, away = outlet()
    assert away.safe_offset == FIRST_NUMBER
    assert ends(away.append([message(), message()])) == [FIRST_NUMBER + 1, FIRST_NUMBER + 2]
    first, second = sent(escape)
    escape.answered(second.token, 0, 2, 0.5)
    assert away.safe_offset == FIRST_NUMBER
    escape.answered(first.token, 0, 2, 0.5)
    assert away.safe_offset == FIRST_NUMBER + 2


def test_what_finds_no_room_waits_and_nothing_more_is_taken() -> None:
    escape, away = outlet()
    away.append([message() for _ in range(PER_SOURCE_MAX + 2)])
    assert away.is_full
    with pytest.raises(NotPut):
        away.append([message()])
    for one in sent(escape):
        escape.answered(one.token, 0, 2, 0.5)
    assert away.safe_offset == FIRST_NUMBER + PER_SOURCE_MAX, "what waits is not safe"
    away.feed()
    assert not away.is_full and escape.in_hand == 2
    away.forget()
    assert not away.is_full


def test_what_has_no_form_in_which_it_leaves_is_told_and_has_no_place() -> None:
    _, away = outlet()
    results = away.append([message("SCHEDULE_TOPIC_XXXX"), message()])
    assert ends(results) == [None, FIRST_NUMBER + 1]


@pytest.mark.parametrize(
    ("kind", "topic", "properties", "left"),
    [
        (Kind.TIMER, "T", {"TIMER_DELAY_MS": "5", "K": "v"}, {"K": "v"}),
        (Kind.TIMER, "rmq_sys_REVIVE_LOG_c", {"TIMER_DELIVER_MS": "5", "TAGS": "ck"},
         {"TAGS": "ck"}),
        (Kind.RETRY, "rmq_sys_REVIVE_LOG_c", {"TIMER_DELIVER_MS": "5", "TAGS": "ck"},
         {"TAGS": "ck", "TIMER_DELIVER_MS": "5"}),
    ],
)  # fmt: skip
def test_forms(kind: Kind, topic: str, properties: dict[str, str], left: dict[str, str]) -> None:
    escape, away = outlet(kind)
    away.append([message(topic, **properties)])
    (one,) = sent(escape, topic)
    assert decode_properties(one.message.properties) == left
