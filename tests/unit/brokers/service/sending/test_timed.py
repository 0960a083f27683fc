"""The forms of a message with a time of delivery: as it waits, as it is delivered, its handle."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from brokers.service.sending.timed import (
    NEVER_ENQUEUED,
    TIMER_TOPIC,
    RecallHandle,
    Timed,
    TimerRefused,
    TimerRules,
    asks_for_time,
    decode_handle,
    delivered,
    encode_handle,
    handle_of,
    identity_of,
    rolled,
    waiting_of,
    was_rolled,
)
from brokers.store.log.properties import (
    PROPERTIES_BYTES_MAX,
    SCHEDULE_TOPIC,
    decode_properties,
    encode_properties,
)
from brokers.store.log.records import SYS_FLAG_COMMIT, SYS_FLAG_PREPARED, MessageFields, host_bytes

HOST = host_bytes("127.0.0.1", 1)
NOW_MS = 1_795_413_484_185
DEL = "T+k"


def message(sys_flag: Any = 0, topic: Any = "T", **properties: object) -> MessageFields:
    text = encode_properties({name: str(value) for name, value in properties.items()})
    return MessageFields(topic, 3, b"x", text, 1, HOST, HOST, sys_flag=sys_flag)


def made(rules: TimerRules | None = None, waiting: int = 0, chance: float = 0.0) -> Timed:
    rules = TimerRules("b1") if rules is None else rules
    return Timed(rules, lambda: NOW_MS, lambda slot_ms: waiting, lambda: chance)


def found(stored: MessageFields) -> dict[str, str]:
    return decode_properties(stored.properties)


@pytest.mark.parametrize(
    ("asked", "due_ms"),
    [
        ({"TIMER_DELAY_SEC": 4}, NOW_MS + 4_000),
        ({"TIMER_DELAY_MS": 4_321}, NOW_MS + 4_321),
        ({"TIMER_DELIVER_MS": NOW_MS + 9}, NOW_MS + 9),
        ({"TIMER_DELIVER_MS": NOW_MS + 9, "TIMER_DELAY_MS": 7_000}, NOW_MS + 7_000),
        ({"TIMER_DELIVER_MS": 5, "TIMER_DELAY_MS": 7, "TIMER_DELAY_SEC": 2}, NOW_MS + 2_000),
    ],
)
def test_22_seconds_win_over_milliseconds_over_a_time(asked: dict[str, int], due_ms: int) -> None:
    stored = made().as_stored(message(UNIQ_KEY="k", **asked))
    assert (stored.topic, stored.queue_id) == (TIMER_TOPIC, 0)
    properties = found(stored)
    slot_ms = int(properties["TIMER_OUT_MS"])
    assert slot_ms < due_ms <= slot_ms + 1_000 and slot_ms % 1_000 == 0
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("T", "3")
    assert all(properties[name] == str(value) for name, value in asked.items())


def test_22_a_level_wins_and_the_time_vanishes_from_the_text() -> None:
    stored = made().as_stored(message(DELAY=3, TIMER_DELAY_SEC=4, TIMER_DELIVER_MS=1, KEYS="k"))
    assert stored.topic == SCHEDULE_TOPIC
    assert found(stored) == {"DELAY": "3", "KEYS": "k", "REAL_TOPIC": "T", "REAL_QID": "3"}


@pytest.mark.parametrize("asked", [{"TIMER_DELIVER_MS": NOW_MS}, {"TIMER_DELAY_MS": -1}])
def test_23_a_time_that_is_over_leaves_the_message_as_it_is(asked: dict[str, int]) -> None:
    sent = message(**asked)
    assert made().as_stored(sent) == sent
    with pytest.raises(TimerRefused, match="timer message illegal") as refused:
        made().as_stored(message(TIMER_DEL_UNIQKEY=DEL, **asked))
    assert refused.value.code == 13


def test_24_what_lies_too_far_off_is_refused_with_rocketmqs_words() -> None:
    most = 259_200
    assert made().as_stored(message(TIMER_DELAY_SEC=most - 1)).topic == TIMER_TOPIC
    assert made().as_stored(message(TIMER_DELAY_SEC=most)).topic == TIMER_TOPIC
    with pytest.raises(TimerRefused) as refused:
        made().as_stored(message(TIMER_DELAY_MS=most * 1_000 + 1))
    assert refused.value.code == 13
    assert str(refused.value) == (
        "timer message illegal, the delay time should not be bigger than the max delay "
        "259200000ms; or if set del msg, the delay time should be bigger than the current time"
    )


@pytest.mark.parametrize("text", ["soon", "1.5", "9" * 19, "1" * 30, "0x10"])
def test_a_time_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(TimerRefused) as refused:
        made().as_stored(message(TIMER_DELIVER_MS=text))
    assert refused.value.code == 13


@pytest.mark.parametrize(
    ("deliver_ms", "precision_ms", "slot_ms"),
    [
        (1_795_413_489_001, 1_000, 1_795_413_489_000),
        (1_795_413_489_000, 1_000, 1_795_413_488_000),
        (1_795_413_489_999, 1_000, 1_795_413_489_000),
        (1_795_413_489_100, 100, 1_795_413_489_000),
        (1_795_413_489_199, 100, 1_795_413_489_100),
    ],
)
def test_25_the_slot_is_floored_and_one_lower_for_a_multiple(
    deliver_ms: int, precision_ms: int, slot_ms: int
) -> None:
    rules = TimerRules("b1", precision_ms=precision_ms)
    stored = made(rules).as_stored(message(TIMER_DELIVER_MS=deliver_ms))
    assert found(stored)["TIMER_OUT_MS"] == str(slot_ms)


@pytest.mark.parametrize(
    "sent",
    [
        message(TIMER_OUT_MS=5, TIMER_DELAY_SEC=4),
        message(TIMER_DELAY_SEC=4, topic=TIMER_TOPIC),
        message(SYS_FLAG_PREPARED, TIMER_DELAY_SEC=4),
        message(KEYS="k"),
        message(NOTTIMER_DELAY_SEC=4),
    ],
    ids=["retried", "timer topic", "half", "no time", "another name"],
)
def test_what_is_no_message_for_the_wheel_stays_as_it_is(sent: MessageFields) -> None:
    assert made().as_stored(sent) == sent


TEXTS = st.lists(
    st.sampled_from(
        [
            "TIMER_DELAY_SEC\x014\x02",
            "TIMER_DELAY_MS\x01-1\x02",
            f"TIMER_DELIVER_MS\x01{NOW_MS + 9}\x02",
            "TIMER_DELIVER_MS\x01soon\x02",
            f"TIMER_DELIVER_MS\x01{NOW_MS + 10**9}\x02",
            "TIMER_DEL_UNIQKEY\x01T+k\x02",
            "TIMER_OUT_MS\x015\x02",
            "TIMER_OUT_MS\x01\x02",
            "REAL_TOPIC\x01U\x02",
            "KEYS\x01a",
            "\x01",
            "\x02",
        ]
    ),
    max_size=4,
).map(lambda pieces: "".join(pieces).encode() + b"\x02UNIQ_KEY\x01k\x02MSG_REGION\x01R\x02")


@given(TEXTS, st.sampled_from(["T", "%RETRY%g"]), st.sampled_from([0, 9, 15]))
@example(b"UNIQ_KEY\x01k\x02TIMER_DELAY_SEC\x014\x02", "T", 9)
def test_what_waits_as_usual_is_the_same_the_long_way(text: bytes, topic: str, there: int) -> None:
    timed = made(TimerRules("b1", slot_messages=10), there)
    sent = MessageFields(topic, 3, b"x", text, 1, HOST, HOST)
    waits = timed.usual(sent, "k")
    if waits is None:
        return
    stored = timed.as_stored(sent)
    assert waits == (stored, handle_of(stored, "b1")) and stored.topic == TIMER_TOPIC


def test_a_slot_that_fills_up_is_for_the_long_way_to_refuse() -> None:
    sent = message(UNIQ_KEY="k", TIMER_DELAY_SEC=4)
    assert made(TimerRules(slot_messages=10), 11).usual(sent, "k") is None
    assert made(TimerRules(enabled=False)).usual(sent, "k") is None


def test_a_commit_waits_too() -> None:
    stored = made().as_stored(message(SYS_FLAG_COMMIT, TIMER_DELAY_SEC=4))
    assert stored.topic == TIMER_TOPIC


def test_without_a_wheel_a_time_is_refused() -> None:
    with pytest.raises(TimerRefused) as refused:
        made(TimerRules("b1", enabled=False)).as_stored(message(TIMER_DELAY_SEC=4))
    assert refused.value.code == 1
    assert str(refused.value) == (
        "accurate timer message is not enabled, timerWheelEnable is false"
    )


@pytest.mark.parametrize(
    ("waiting", "chance", "taken"),
    [(0, 0.0, True), (10, 0.0, True), (15, 0.4, False), (15, 0.6, True), (19, 0.6, False),
     (20, 0.999, False)],
)  # fmt: skip
def test_38_a_full_slot_refuses_the_likelier_the_fuller_it_is(
    waiting: int, chance: float, taken: bool
) -> None:
    timed = made(TimerRules("b1", slot_messages=10), waiting, chance)
    if taken:
        assert timed.as_stored(message(TIMER_DELAY_SEC=4)).topic == TIMER_TOPIC
        return
    with pytest.raises(TimerRefused, match="max num limit is 20") as refused:
        timed.as_stored(message(TIMER_DELAY_SEC=4))
    assert refused.value.code == 1


def test_26_the_handle_is_the_recorded_one() -> None:
    handle = "djEgVDEgYjEgMTc5NTQxMzQ4OTAwMSBCQkJB"
    assert decode_handle(handle) == RecallHandle("T1", "b1", 1_795_413_489_001, "BBBA")
    waits = message(TIMER_OUT_MS=1_795_413_489_000, REAL_TOPIC="T1", UNIQ_KEY="BBBA")
    assert handle_of(replace(waits, topic=TIMER_TOPIC), "b1") == handle


def test_26_a_retry_and_what_does_not_wait_have_no_handle() -> None:
    retry = made().as_stored(message(topic="%RETRY%g", UNIQ_KEY="k", TIMER_DELAY_SEC=4))
    assert retry.topic == TIMER_TOPIC and handle_of(retry, "b") is None
    assert handle_of(message(UNIQ_KEY="k"), "b") is None
    assert handle_of(made().as_stored(message(UNIQ_KEY="k", DELAY=3)), "b") is None


@given(st.text(max_size=200))
def test_a_handle_that_is_none_is_seen(text: str) -> None:
    handle = decode_handle(text)
    assert handle is None or handle.time_ms >= -1


@given(
    st.from_regex(r"[a-zA-Z0-9_-]{1,40}", fullmatch=True),
    st.integers(0, 2**45),
    st.from_regex(r"[A-Z0-9]{1,40}", fullmatch=True),
)
def test_a_handle_comes_back(topic: str, time_ms: int, key: str) -> None:
    handle = RecallHandle(topic, "b", time_ms, key)
    assert decode_handle(encode_handle(handle)) == handle
    assert decode_handle(encode_handle(handle).rstrip("=")) == handle


def test_the_delivered_form_keeps_all_and_adds_the_wheels_stamps() -> None:
    """As recorded (reference 2.5)."""
    stored = made().as_stored(message(TIMER_DELAY_SEC=4, TAGS="a", UNIQ_KEY="k"))
    goes = waiting_of(stored.properties)
    assert (goes.topic, goes.queue_id, goes.deletes) == ("T", 3, None)
    copy = delivered(stored, goes, 1_795_413_484_000, 1_795_413_489_084)
    assert (copy.topic, copy.queue_id, copy.body) == ("T", 3, b"x")
    assert found(copy) == {
        **found(stored),
        "TIMER_ENQUEUE_MS": "1795413484000",
        "TIMER_DEQUEUE_MS": "1795413489084",
    }
    assert made().as_stored(copy) == copy  # a later retry is not delayed once more
    late = delivered(stored, goes, NEVER_ENQUEUED, NOW_MS)
    assert found(late)["TIMER_ENQUEUE_MS"] == "9223372036854775807"


def test_a_roll_counts_and_keeps_its_slot() -> None:
    stored = made().as_stored(message(TIMER_DELAY_SEC=4, UNIQ_KEY="k"))
    assert not was_rolled(stored.properties)
    once = rolled(stored, 1, 2)
    twice = rolled(once, 3, 4)
    assert was_rolled(once.properties) and once.topic == TIMER_TOPIC
    assert found(once)["TIMER_ROLL_TIMES"] == "1"
    properties = found(twice)
    assert (properties["TIMER_ROLL_TIMES"], properties["TIMER_ENQUEUE_MS"]) == ("2", "3")
    assert properties["TIMER_OUT_MS"] == found(stored)["TIMER_OUT_MS"]
    assert identity_of(twice.properties, "T") == b"T+k"


def test_where_the_stamps_have_no_room_the_message_goes_without_them() -> None:
    stored = made().as_stored(message(TIMER_DELAY_SEC=4, K="v"))
    room = PROPERTIES_BYTES_MAX - len(stored.properties) - len(b"L\x01\x02") - 10
    full = replace(stored, properties=stored.properties + b"L\x01" + b"x" * room + b"\x02")
    copy = delivered(full, waiting_of(full.properties), 1, 2)
    assert copy.topic == "T" and copy.properties == full.properties


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_TOPIC": "T", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "x", "REAL_TOPIC": "T", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "-1", "REAL_TOPIC": "T", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "9" * 19, "REAL_TOPIC": "T", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "1", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": "T"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": "T", "REAL_QID": "-1"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": "a b", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": TIMER_TOPIC, "REAL_QID": "0"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": SCHEDULE_TOPIC, "REAL_QID": "0"},
    ],
)
def test_35_a_record_that_does_not_say_when_and_where_is_seen(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"does not say|nothing is delivered"):
        waiting_of(encode_properties(properties))


WHERE = {"TIMER_OUT_MS": "7", "REAL_TOPIC": "T", "REAL_QID": "2"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WHERE, (7, "T", 2, None)),
        ({"K": "v"} | WHERE, (7, "T", 2, None)),
        (WHERE | {"K": "v" * 500}, (7, "T", 2, None)),
        ({"REAL_QID": "3", "TIMER_DEL_UNIQKEY": DEL, "TIMER_OUT_MS": "7", "REAL_TOPIC": "T"},
         (7, "T", 3, DEL.encode())),
        ({"TIMER_DEL_UNIQKEY": DEL} | WHERE, (7, "T", 2, DEL.encode())),
        (WHERE | {"xTIMER_OUT_MS": "8", "XREAL_TOPIC": "U"}, (7, "T", 2, None)),
    ],
)  # fmt: skip
def test_a_record_says_when_and_where_in_any_order(text: dict[str, str], says: object) -> None:
    assert waiting_of(encode_properties(text)) == says


def test_of_two_times_the_last_one_with_a_value_counts() -> None:
    text = encode_properties(WHERE)
    assert waiting_of(text + b"TIMER_OUT_MS\x01\x02").slot_ms == 7
    assert waiting_of(b"TIMER_OUT_MS\x015\x02" + text + b"REAL_QID\x014\x02")[::2] == (7, 4)
    assert waiting_of(text + b"xTIMER_OUT_MS\x018\x02REAL_TOPIC\x01U\x02REAL_QID\x011\x02") == (
        7,
        "U",
        1,
        None,
    )


@given(st.binary(max_size=120))
def test_hostile_properties_are_answered(data: bytes) -> None:
    sent = MessageFields("T", 0, b"x", data, 1, HOST, HOST)
    try:
        assert made().as_stored(sent).topic in ("T", TIMER_TOPIC, SCHEDULE_TOPIC)
    except ValueError:
        pass
    try:
        waiting_of(data)
    except ValueError:
        pass


def test_a_message_of_the_broker_itself_waits_without_a_limit() -> None:
    check_point = message(UNIQ_KEY="k", TAGS="ck")
    waits = made().at(check_point, NOW_MS + 10**9)
    assert waits.topic == TIMER_TOPIC and asks_for_time(waits.properties)
    assert waiting_of(waits.properties).slot_ms >= NOW_MS + 10**9 - 1_000
    assert made().at(check_point, NOW_MS) == check_point
