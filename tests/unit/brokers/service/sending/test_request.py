"""Sends: both header forms, the checks of PROTOCOL 4.3 row by row, the
properties, the answer.
"""

from dataclasses import replace

import pytest

from brokers.remoting.fields import BadField
from brokers.service.sending.request import (
    answer_ext,
    has_property,
    joined_properties,
    kind_of,
    parse_v1,
    parse_v2,
    property_value,
    refusal,
    stored_properties,
    topic_refusal,
    waits_for_replicas,
)
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.properties import decode_properties

V2 = {
    "a": "g",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "5",
    "h": "0",
    "i": "K\x01v\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}
REQUEST = parse_v2(V2)
TOPIC = TopicConfig("T", 4, 4)


def test_both_forms_say_the_same() -> None:
    v1 = {
        "producerGroup": "g",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "0",
        "bornTimestamp": "5",
        "flag": "0",
        "properties": "K\x01v\x02",
    }
    assert parse_v1(v1) == REQUEST


@pytest.mark.parametrize("key", list("abcdefgh"))
def test_a_missing_field_is_refused(key: str) -> None:
    with pytest.raises(BadField):
        parse_v2({name: value for name, value in V2.items() if name != key})


@pytest.mark.parametrize(
    ("topic", "code"),
    [("T", None), ("a b", 29), ("", 29), ("SCHEDULE_TOPIC_XXXX", 16), ("SELF_TEST_TOPIC", 16)],
)
def test_names_are_checked_first(topic: str, code: int | None) -> None:
    refused = topic_refusal(topic)
    assert (refused and refused.code) == code


IN_WHEEL = "TIMER_OUT_MS\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02"


@pytest.mark.parametrize(
    ("request_change", "topic_change", "body", "code"),
    [
        ({}, {}, b"x", None),
        ({"queue_id": -1}, {}, b"x", None),
        ({}, {"perm": 4}, b"x", None),
        ({"queue_id": 4}, {}, b"x", 29),
        ({"queue_id": 4}, {"read_queues": 5}, b"x", None),
        ({"topic": "%RETRY%g", "batch": True}, {}, b"x", 13),
        ({"topic": "%DLQ%g", "batch": True}, {}, b"x", None),
        ({"topic": "%DLQ%" + "g" * 123, "batch": True}, {}, b"x", 13),
        ({}, {}, b"x" * (4 * 1024 * 1024 + 1), 13),
        ({}, {}, b"", 1),
        ({"flag": 2**31}, {}, b"x", 13),
        ({"born_ms": 2**63}, {}, b"x", 13),
        ({"sys_flag": 4}, {}, b"x", 13),
        ({"properties": "TRAN_MSG\x01true\x02"}, {}, b"x", None),
        ({"properties": "TRAN_MSG\x01TRUE\x02", "sys_flag": 4}, {}, b"x", None),
        ({"properties": "TRAN_MSG\x01false\x02", "sys_flag": 4}, {}, b"x", 13),
        ({"properties": "TRAN_MSG\x01true\x02DELAY\x011\x02"}, {}, b"x", 13),
        ({"properties": "TRAN_MSG\x01true\x02TIMER_DELAY_MS\x0110\x02"}, {}, b"x", 13),
        ({"properties": "a\x01b\x02DELAY\x013\x02"}, {}, b"x", None),
        ({"properties": "a\x01b\x02DELAY\x013\x02", "batch": True}, {}, b"x", 13),
        ({"properties": "DELAY\x010\x02"}, {}, b"x", None),
        ({"properties": "DELAY\x010\x02TIMER_DELAY_MS\x0110\x02"}, {}, b"x", None),
        ({"properties": "DELAY\x011\x02TIMER_DELAY_MS\x0110\x02"}, {}, b"x", None),
        ({"properties": "TIMER_DELAY_MS\x0110\x02"}, {}, b"x", None),
        ({"properties": "TIMER_DELAY_MS\x0110\x02", "batch": True}, {}, b"x", 13),
        ({"topic": "rmq_sys_wheel_timer"}, {}, b"x", 13),
        ({"topic": "rmq_sys_wheel_timer", "properties": IN_WHEEL}, {}, b"x", None),
        ({"topic": "rmq_sys_wheel_timer", "properties": IN_WHEEL, "batch": True}, {}, b"x", 13),
    ],
)
def test_the_checks(
    request_change: dict[str, object],
    topic_change: dict[str, object],
    body: bytes,
    code: int | None,
) -> None:
    refused = refusal(replace(REQUEST, **request_change), replace(TOPIC, **topic_change), body)  # type: ignore[arg-type]
    assert (refused and refused.code) == code


@pytest.mark.parametrize("flags", [0x40, 0x80, 0xC0 | 0x1])
def test_an_inner_batch_is_refused_by_name(flags: int) -> None:
    refused = refusal(replace(REQUEST, sys_flag=flags), TOPIC, b"x")
    assert refused is not None and refused.code == 13 and "inner batches" in refused.remark


def test_properties_are_found_at_either_place() -> None:
    text = "A\x011\x02UNIQ_KEY\x01id\x02"
    assert (
        has_property(text, "A")
        and property_value(text, "A") == "1"
        and property_value(text, "UNIQ_KEY") == "id"
    )
    assert (
        not has_property(text, "KEY")
        and property_value("A\x01x", "A") == "x"
        and property_value(text, "B") is None
    )


@pytest.mark.parametrize(
    "text",
    [
        "K\x01a\x02K\x01b\x02",
        "K\x01b\x02K\x01\x02",
        "K\x01a\x02xK\x01c\x02K\x01b",
        "K\x01\x02",
        "xK\x01a\x02",
        "K\x01a\x01b\x02",
    ],
)
def test_of_equal_properties_the_one_that_readers_decode_counts(text: str) -> None:
    assert property_value(text, "K") == decode_properties(text.encode()).get("K")


def test_what_the_broker_adds_follows_what_the_producer_sent() -> None:
    assert stored_properties("", "C\x01c\x02") == b"C\x01c\x02"
    assert stored_properties("A\x011", "C\x01c\x02") == b"A\x011\x02C\x01c\x02"
    with pytest.raises(ValueError):
        stored_properties("x" * 32767, "C\x01c\x02")


def test_a_batch_message_keeps_its_own_properties_in_front() -> None:
    assert joined_properties(b"", b"C\x01c\x02") == b"C\x01c\x02"
    assert (
        joined_properties(b"A\x011\x02", b"C\x01c\x02")
        == joined_properties(b"A\x011", b"C\x01c\x02")
        == b"A\x011\x02C\x01c\x02"
    )


def test_the_answer_holds_texts_only() -> None:
    ext = answer_ext("00", 1, 2, "u")
    assert (
        ext["queueId"] == "1"
        and ext["transactionId"] == "u"
        and "transactionId" not in answer_ext("00", 1, 2, None)
    )
    assert all(isinstance(value, str) for value in ext.values())


@pytest.mark.parametrize(
    ("properties", "waits"),
    [
        ("", True),
        ("KEYS\x01WAIT\x02", True),
        ("WAIT\x01true\x02", True),
        ("WAIT\x01false\x02", False),
        ("a\x01b\x02WAIT\x01FALSE", False),
        ("WAIT\x01\x02", True),
        ("AWAIT\x01false\x02", True),
    ],
)
def test_only_a_producer_that_says_so_is_not_made_to_wait(properties: str, waits: bool) -> None:
    assert waits_for_replicas(properties) is waits


@pytest.mark.parametrize(
    ("stored_topic", "properties", "kind"),
    [
        ("T", "KEYS\x01a\x02", "normal"),
        ("T", "__SHARDINGKEY\x01a\x02", "fifo"),
        ("SCHEDULE_TOPIC_XXXX", "DELAY\x013\x02", "delay"),
        ("rmq_sys_wheel_timer", "TIMER_DELAY_SEC\x013\x02", "delay"),
        ("rmq_sys_wheel_timer", "__SHARDINGKEY\x01a\x02", "fifo"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "__SHARDINGKEY\x01a\x02TRAN_MSG\x01true\x02", "transaction"),
    ],
)
def test_96_a_message_has_the_type_that_rocketmqs_metrics_name(
    stored_topic: str, properties: str, kind: str
) -> None:
    assert kind_of(stored_topic, properties) == kind
