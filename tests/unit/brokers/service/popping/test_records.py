"""Records of the revive topic, byte for byte as RocketMQ 5.3.3 wrote them."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokers.remoting import fastjson
from brokers.service.popping.handles import parse_handle
from brokers.service.popping.records import (
    Ack,
    BadRecord,
    CheckPoint,
    Key,
    RecordMaker,
    key_of,
    read_ack,
    read_check_point,
)
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import host_bytes

# measured
CK = (
    b'{"bm":0,"bn":"b1","c":"G1","d":[0,1,2,3],"it":10000,"n":4,"pt":1795413789348,"q":0,'
    b'"reviveTime":1795413799348,"ro":0,"so":0,"t":"P1"}'
)
ACK = b'{"ao":0,"bn":"b1","c":"G1","pt":1795413789348,"q":0,"so":0,"t":"P1"}'
KEY = Key("P1", "G1", 0, 0, 1795413789348, "b1")
POINT = CheckPoint(KEY, 10_000, (0, 1, 2, 3))
MAKER = RecordMaker("rmq_sys_REVIVE_LOG_c", host_bytes("127.0.0.1", 10911))


def test_83_a_check_point_and_an_acknowledgement_have_the_bytes_of_java() -> None:
    assert POINT.body() == CK and read_check_point(CK, "other") == POINT
    assert Ack(KEY, (0,)).body() == ACK and read_ack(ACK, "other", batch=False) == Ack(KEY, (0,))
    batch = Ack(KEY, (1, 2))
    fields = json.loads(batch.body(batch=True))
    assert (fields["ao"], fields["aol"]) == (-1, [1, 2])
    assert read_ack(batch.body(batch=True), "other", batch=True) == batch


def test_83_keys_and_times_are_those_of_java() -> None:
    message = MAKER.check_point(POINT, 3, 7)
    assert (message.topic, message.queue_id) == ("rmq_sys_REVIVE_LOG_c", 3)
    assert decode_properties(message.properties) == {
        "TAGS": "ck",
        "UNIQ_KEY": "P1@0@0@G1@1795413789348@b1@ck",
        "TIMER_DELIVER_MS": "1795413798348",
    }
    acked = decode_properties(MAKER.ack(Ack(KEY, (2,)), POINT.visible_ms, 3, 7).properties)
    assert acked["UNIQ_KEY"] == "P1@0@2@G1@1795413789348@b1@ack"
    assert (acked["TAGS"], acked["TIMER_DELIVER_MS"]) == ("ack", "1795413799348")
    many = decode_properties(MAKER.batch_ack(Ack(KEY, (1, 2)), 1, 3, 7).properties)
    assert many["UNIQ_KEY"] == "P1@0@-1@G1@1795413789348@b1@ack" and many["TAGS"] == "bAck"


def test_old_and_long_forms_are_read() -> None:
    old = b'{"so":5,"pt":1,"it":2,"bm":1,"n":2,"q":0,"t":"P1","c":"G1","ro":9,"rp":"3"}'
    point = read_check_point(old, "own")
    assert point.offsets == (5, 6) and (point.done, point.re_puts) == (1, 3)
    assert point.key.broker_name == "own" and b'"rp":"3"' in point.body()
    long_names = {
        "ackOffset": 0, "startOffset": 0, "consumerGroup": "G1", "topic": "P1", "queueId": 0,
        "popTime": 1795413789348, "brokerName": "b1",
    }  # fmt: skip
    assert read_ack(json.dumps(long_names).encode(), "x", batch=False) == Ack(KEY, (0,))
    several = {**long_names, "ackOffsetList": [1, 2]}
    assert read_ack(json.dumps(several).encode(), "x", batch=True) == Ack(KEY, (1, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"n": 33, "d": list(range(33))},
        {"n": 2},
        {"n": 0, "d": []},
        {"d": [0, 1, 1, 2]},
        {"d": [3, 2, 1, 0]},
        {"d": [0, 1, 2, -3]},
        {"d": [0, 1, 2, 1 << 63], "so": 5},
        {"d": "0123"},
        {"so": -1},
        {"so": 1.5},
        {"so": True},
        {"it": 1 << 46},
        {"pt": None},
        {"t": 7},
        {"t": "a b"},
        {"c": ""},
        {"q": 70_000},
        {"rp": "x"},
        {"bn": 5},
        {"bm": -1},
    ],
)
def test_84_what_is_no_check_point_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadRecord):
        read_check_point(json.dumps({**json.loads(CK), **change}).encode(), "own")


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'"x"', b"{}", b"[" * 4_000, b"1" * 70_000])
def test_84_what_is_no_object_is_refused(body: bytes) -> None:
    for read in (
        lambda: read_check_point(body, "own"),
        lambda: read_ack(body, "own", batch=False),
        lambda: read_ack(body, "own", batch=True),
    ):
        with pytest.raises(BadRecord):
            read()


@given(
    st.dictionaries(
        st.sampled_from(["so", "pt", "it", "n", "d", "q", "t", "c", "bn", "rp", "bm"]),
        st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=4),
    )
)
def test_84_any_object_is_read_or_refused(fields: dict[str, object]) -> None:
    try:
        assert read_check_point(json.dumps({**json.loads(CK), **fields}).encode(), "own").offsets
    except BadRecord:
        pass


def test_a_handle_names_the_key_of_its_check_point() -> None:
    handle = parse_handle("0 1795413789348 10000 2 0 b1 0 3")
    assert key_of(handle, "P1", "G1", 0) == KEY


NAMES = st.sampled_from(["P1", "%RETRY%G1_P1", "%RETRY%G1+P1", "a b", "G1", "+", ""])
BROKERS = st.sampled_from(["b1", "b 1", 'b"', "b\\", "b\x7f", "ä", "x" * 256, ""])
WHOLE = st.integers(-1, 40) | st.sampled_from([10**13 - 1, 10**13, 1 << 45, 10**18, (1 << 63) - 1])


@given(NAMES, NAMES, BROKERS, WHOLE, WHOLE, WHOLE | st.just(70_000), WHOLE)
@example("P1", "G1", "b1", 1795413789348, 0, 0, 0)
@example("P1", "+", "b1", 1795413789348, 0, 0, 0)
def test_84_the_usual_form_of_an_acknowledgement_is_read_as_any_other(
    topic: str, group: str, broker: str, popped: int, start: int, queue: int, offset: int
) -> None:
    fields = {
        "ao": offset, "bn": broker, "c": group, "pt": popped, "q": queue, "so": start, "t": topic,
    }  # fmt: skip
    usual = json.dumps(fields, separators=(",", ":")).encode()
    any_other = json.dumps(fields).encode()
    try:
        expected = read_ack(any_other, "own", batch=False)
    except BadRecord as error:
        with pytest.raises(BadRecord) as raised:
            read_ack(usual, "own", batch=False)
        assert str(raised.value) == str(error)
    else:
        assert read_ack(usual, "own", batch=False) == expected


@pytest.mark.parametrize(
    "text",
    [b'"ao":00', b'"ao":1.0', b'"ao":1e1', b'"ao":true', b'"ao":"1"', b'"ao":-0', b'"ao": 0'],
)
def test_84_other_numbers_are_left_to_the_reader_of_json(text: bytes) -> None:
    body = ACK.replace(b'"ao":0', text)
    if text in (b'"ao":-0', b'"ao": 0'):
        assert read_ack(body, "own", batch=False) == Ack(KEY, (0,))
    else:
        with pytest.raises(BadRecord):
            read_ack(body, "own", batch=False)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    st.lists(st.integers(0, 99), min_size=1, max_size=4),
    st.integers(0, 2),
)
def test_83_bodies_are_json_with_sorted_keys_and_nothing_between_them(
    broker: str, offsets: list[int], re_puts: int
) -> None:
    key = Key("P1", "G1", 3, 7, 1795413789348, broker)
    many = tuple(7 + offset for offset in offsets)
    for body, tells in (
        (CheckPoint(key, 9, many, 5, re_puts).body(), {"n": len(many), "bm": 5, "d": offsets}),
        (Ack(key, many).body(), {"ao": many[0]}),
        (Ack(key, many).body(batch=True), {"ao": -1, "aol": list(many)}),
    ):
        fields = json.loads(body)
        assert body == fastjson.dumps(fields) and fields["bn"] == broker
        assert {**fields, **tells} == fields
        assert fields.get("rp", "0") == (str(re_puts) if "bm" in fields else "0")
