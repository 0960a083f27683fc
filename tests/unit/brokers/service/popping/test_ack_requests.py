"""Bodies and headers of acknowledgements."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting import fastjson
from brokers.remoting.fields import BadField
from brokers.service.popping.ack_requests import parse_ack, parse_batch
from brokers.service.popping.handles import Handle

ENTRY = {
    "c": "g", "t": "T", "r": "0", "so": 0, "q": 1, "rq": 2, "pt": 7, "it": 9, "b": "Bg==",
}  # fmt: skip


def body(**changes: object) -> bytes:
    return fastjson.dumps({"acks": [{**ENTRY, **changes}], "brokerName": "b1"})


def test_60_a_batch_names_its_messages_by_bits() -> None:
    (one,) = parse_batch(body())
    assert one.offsets == (1, 2) and one.handle == Handle(0, 7, 9, 2, "0", "b1", 1)
    assert (one.group, one.topic, one.handle.visible_ms) == ("g", "T", 16)
    (far,) = parse_batch(body(so=100, b=base64.b64encode(b"\1\0\0\x80").decode(), r="1"))
    assert far.offsets == (100, 131) and far.topic == "%RETRY%g_T"


def test_60_long_names_are_read() -> None:
    long_names = {
        "consumerGroup": "g", "topic": "T", "retry": "2", "startOffset": 5, "queueId": 0,
        "reviveQueueId": 2, "popTime": 7, "invisibleTime": 9, "bitSet": "AQ==",
    }  # fmt: skip
    (one,) = parse_batch(fastjson.dumps({"acks": [long_names], "brokerName": "b1"}))
    assert (one.offsets, one.topic) == ((5,), "%RETRY%g+T")


@pytest.mark.parametrize("empty", [b"", b"{}", b'{"acks":[]}', b"[]", b'{"acks":null}'])
def test_nothing_in_it_is_nothing(empty: bytes) -> None:
    assert parse_batch(empty) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"r": "3"}, {"r": None}, {"so": -1}, {"so": "0"}, {"pt": 1 << 50}, {"it": None},
        {"q": 1 << 20}, {"b": "!"}, {"b": 5}, {"c": "a b"}, {"c": "a\x01"}, {"t": 5},
        {"b": base64.b64encode(b"\xff" * 5).decode()},
    ],
)  # fmt: skip
def test_hostile_entries_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadField):
        parse_batch(body(**changes))


@pytest.mark.parametrize(
    "hostile", [b"?", b'{"acks":[5]}', fastjson.dumps({"acks": [ENTRY] * 1_025}), b"[" * 9_000]
)
def test_hostile_bodies_are_refused(hostile: bytes) -> None:
    with pytest.raises(BadField):
        parse_batch(hostile)


def test_a_name_of_a_broker_goes_into_properties_and_must_be_one() -> None:
    with pytest.raises(BadField):
        parse_batch(fastjson.dumps({"acks": [ENTRY], "brokerName": "b\x02"}))


@given(
    st.dictionaries(st.sampled_from(sorted(ENTRY)), st.none() | st.integers() | st.text(max_size=9))
)
def test_any_entry_is_read_or_refused(changes: dict[str, object]) -> None:
    try:
        assert len(parse_batch(body(**changes))[0].offsets) <= 32
    except BadField:
        pass


def test_headers_have_limits() -> None:
    ext = {"consumerGroup": "g", "topic": "T", "offset": "5"}
    assert parse_ack(ext).offset == 5
    for changes in ({"consumerGroup": ""}, {"topic": "t" * 256}, {"offset": "x"}):
        with pytest.raises(BadField):
            parse_ack({**ext, **changes})
