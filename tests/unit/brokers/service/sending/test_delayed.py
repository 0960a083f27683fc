"""The two forms of a delayed message, rule by rule (PROTOCOL 4.14)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokers.service.sending.delayed import (
    as_stored,
    asked_level,
    delivered,
    stored_form,
    with_more,
)
from brokers.store.log.delay_levels import levels_in_force
from brokers.store.log.properties import SCHEDULE_TOPIC, decode_properties, encode_properties
from brokers.store.log.records import MessageFields, StoredMessage, host_bytes

HOST, OTHER = host_bytes("10.0.0.1", 1), host_bytes("10.0.0.2", 2)


def message(sys_flag: int = 0, **properties: str) -> MessageFields:
    text = encode_properties(properties)
    return MessageFields("T", 3, b"body", text, 5, HOST, OTHER, 7, sys_flag, 2, 9)


def stored(fields: MessageFields) -> StoredMessage:
    return StoredMessage(fields, 100, 1, 0, 4, 1_000, 77_000)


@pytest.mark.parametrize(
    ("text", "level"),
    [(None, 0), ("0", 0), ("-1", 0), ("1", 1), ("+3", 3), ("18", 18), ("19", 19), ("007", 7)],
)
def test_a_level_is_a_whole_number_above_zero(text: str | None, level: int) -> None:
    properties = {} if text is None else {"DELAY": text}
    assert asked_level(encode_properties(properties)) == level


@pytest.mark.parametrize("text", ["x", "1.5", " 3", "3 ", "2147483648", "1e3", "٣", "--1"])
def test_3_a_level_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no whole number"):
        as_stored(message(DELAY=text))


@pytest.mark.parametrize("text", [None, "0", "-1"])
def test_2_no_level_leaves_the_message_as_it_is(text: str | None) -> None:
    properties = {"a": "b"} if text is None else {"a": "b", "DELAY": text}
    assert as_stored(message(**properties)) == message(**properties)


@pytest.mark.parametrize(("asked", "level"), [("1", 1), ("2", 2), ("18", 18), ("40", 18)])
def test_2_a_delayed_message_waits_in_the_queue_of_its_level(asked: str, level: int) -> None:
    waiting = as_stored(message(KEYS="k", TAGS="t", DELAY=asked, TIMER_DELAY_SEC="9"))
    assert (waiting.topic, waiting.queue_id) == (SCHEDULE_TOPIC, level - 1)
    assert decode_properties(waiting.properties) == {
        "KEYS": "k",
        "TAGS": "t",
        "DELAY": str(level),
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }
    assert level <= len(levels_in_force())


@given(
    st.lists(st.sampled_from(["A", "REAL_TOPIC", "KEYS", "\x01", "\x02", "x", "", "ä"])).map(
        lambda pieces: "".join(pieces).encode()
    )
)
@example(b"A\x01x\x02KEYS\x01x\x02")
@example(b"A\x01x\x02REAL_TOPIC\x01older\x02")
def test_properties_get_more_as_if_all_were_written_anew(text: bytes) -> None:
    more = {"REAL_TOPIC": "T", "REAL_QID": "3"}
    written = encode_properties(more), [name.encode() for name in more]
    anew = stored_form(decode_properties(text) | more)
    assert decode_properties(with_more(text, *written)) == decode_properties(anew)


def test_a_retry_of_a_message_that_was_delayed_before_goes_to_its_new_place() -> None:
    waiting = as_stored(message(DELAY="3", REAL_TOPIC="older", REAL_QID="8"))
    found = decode_properties(waiting.properties)
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("T", "3")


@pytest.mark.parametrize(
    ("flag", "delayed"), [(0, True), (8, True), (4, False), (12, False), (1, True)]
)
def test_half_and_rollback_messages_are_never_delayed(flag: int, delayed: bool) -> None:
    assert (as_stored(message(flag, DELAY="1")).topic == SCHEDULE_TOPIC) is delayed


def test_properties_that_leave_no_room_for_the_place_are_refused() -> None:
    with pytest.raises(ValueError, match="larger than"):
        as_stored(message(DELAY="1", a="x" * 32_740))


def test_5_what_is_delivered_keeps_everything_but_its_place() -> None:
    waiting = as_stored(message(KEYS="k", TAGS="t", UNIQ_KEY="u", DELAY="2"))
    copy = delivered(stored(waiting))
    assert (copy.topic, copy.queue_id, copy.prepared_transaction_offset) == ("T", 3, 0)
    assert copy.properties == waiting.properties
    kept = ("body", "flag", "sys_flag", "born_ms", "born_host", "store_host", "reconsume_times")
    assert [getattr(copy, name) for name in kept] == [getattr(waiting, name) for name in kept]


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_TOPIC": "T"},
        {"REAL_QID": "1"},
        {"REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"REAL_TOPIC": "T", "REAL_QID": "x"},
        {"REAL_TOPIC": "T", "REAL_QID": "9999999999"},
        {"REAL_TOPIC": "../T", "REAL_QID": "1"},
        {"REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "1"},
        {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
    ],
)
def test_13_a_record_that_does_not_say_where_it_goes_is_named(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"say|delivered"):
        delivered(stored(message(**properties)))
