"""Record layouts against recorded bytes of the real broker, hand-checked vectors and random
bytes.
"""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from brokers.store.log.records import (
    BODY_BYTES_MAX,
    MAGIC_V2,
    MessageFields,
    RecordError,
    body_checksum,
    decode_carefully,
    decode_message,
    decode_messages,
    encode_blank,
    encode_message,
    encode_stored,
    has_queue_entry,
    host_bytes,
    host_text,
    message_size,
    offset_message_id,
    parse_offset_message_id,
    read_record,
)
from tests.unit.brokers.store.log_samples import GOLDEN, NOW_MS, encoded, message

VECTOR = bytes.fromhex(
    "00000074 daa320a7 00000000 00000002 00000000 0000000000000007 0000000000001000 "
    "000000000000018bcfe56800 0a000001 000004d2 0000018bcfe56801 0a000002 00002a9f 00000000 "
    "000000000000000000000005 68656c6c6f 06 466f6f426172 000e 6101620254414753015461674102"
)
HOSTS = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MESSAGES = st.builds(
    MessageFields,
    topic=st.text(st.characters(codec="utf-8"), min_size=1, max_size=140),
    queue_id=I32,
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300),
    born_ms=I64,
    born_host=HOSTS,
    store_host=HOSTS,
    flag=I32,
    sys_flag=st.integers(0, 0xFFFF),
    reconsume_times=I32,
    prepared_transaction_offset=I64,
)


def test_the_vector_of_the_reference_is_read_and_written() -> None:
    stored = decode_message(VECTOR, check_body=False)
    assert (stored.fields.topic, stored.fields.body, stored.fields.queue_id) == (
        "FooBar",
        b"hello",
        2,
    )
    assert (stored.queue_offset, stored.physical_offset, stored.store_ms) == (
        7,
        4096,
        1700000000001,
    )
    assert (host_text(stored.fields.born_host), host_text(stored.fields.store_host)) == (
        "10.0.0.1:1234",
        "10.0.0.2:10911",
    )
    assert encode_stored(stored) == VECTOR
    with_checksum = encode_message(stored.fields, 116, 7, 4096, 1700000000001)
    assert with_checksum[8:12].hex() == "3610a686"
    assert body_checksum(b"hello") == 0x3610A686
    assert offset_message_id(stored.fields.store_host, 4096) == "0A00000200002A9F0000000000001000"


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("commitlog_first_8k", 7302),
        ("epoch-collision-master__commitlog", 448),
        ("epoch-collision-returned__commitlog", 448),
    ],
)
def test_every_message_of_a_real_log_is_written_back_byte_by_byte(name: str, end: int) -> None:
    data = (GOLDEN / name).read_bytes()[:end]
    messages = decode_messages(data)
    assert b"".join(encode_stored(stored) for stored in messages) == data
    at = 0
    for stored in messages:
        assert stored.physical_offset == at
        assert message_size(stored.fields) == stored.size
        at += stored.size


def test_example_size_of_the_reference() -> None:
    fields = replace(
        message("FooBar", body=b"b" * 32), properties=b"KEYS\x01k0\x02TAGS\x01TAG1\x02"
    )
    assert message_size(fields) == 147


@given(MESSAGES, I64, I64, I64)
def test_messages_come_back_as_they_were_written(
    fields: MessageFields, slot: int, at: int, store_ms: int
) -> None:
    size = message_size(fields)
    data = encode_message(fields, size, slot, at, store_ms)
    stored = decode_message(b"\xff" + data + b"\xff", 1)
    assert len(data) == size == stored.size
    hosts = (0x10 if len(fields.born_host) == 20 else 0) | (
        0x20 if len(fields.store_host) == 20 else 0
    )
    assert stored.fields == replace(fields, sys_flag=fields.sys_flag & ~0x30 | hosts)
    assert (stored.queue_offset, stored.physical_offset, stored.store_ms) == (slot, at, store_ms)
    assert stored.version == (2 if len(fields.topic.encode()) > 127 else 1)
    assert encode_stored(stored) == data
    record = read_record(data, 0, check_body=True)
    assert (record.topic, record.queue_offset, record.size, record.store_ms) == (
        fields.topic,
        slot,
        size,
        store_ms,
    )


def test_a_long_topic_takes_version_2() -> None:
    data = encoded(message("t" * 128))
    assert struct.unpack_from(">I", data, 4)[0] == MAGIC_V2
    assert decode_message(data).fields.topic == "t" * 128


@given(st.binary(max_size=300), st.integers(0, 40))
@example(VECTOR[:-1], 0)
def test_hostile_bytes_end_in_record_errors(data: bytes, at: int) -> None:
    try:
        decode_message(data, at)
    except RecordError:
        pass


@given(st.data())
def test_a_damaged_message_is_read_or_refused_but_nothing_else(data: st.DataObject) -> None:
    good = bytearray(encoded(message(body=b"0123456789", tag="a")))
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        stored = decode_message(bytes(good))
    except RecordError:
        return
    assert stored.size == len(good)


def test_a_flipped_body_byte_is_found() -> None:
    data = bytearray(encoded(message(body=b"hello")))
    data[data.index(b"hello")] ^= 1
    with pytest.raises(RecordError, match="checksum"):
        decode_message(bytes(data))
    assert decode_message(bytes(data), check_body=False).fields.body == b"iello"


@pytest.mark.parametrize(
    "fields",
    [
        message(body=bytes(BODY_BYTES_MAX + 1)),
        replace(message(), properties=bytes(32768)),
        message(topic=""),
        message(topic="t" * 65536),
        replace(message(), born_host=b"1234"),
        replace(message(), queue_id=1 << 31),
    ],
)
def test_messages_beyond_a_limit_are_refused(fields: MessageFields) -> None:
    with pytest.raises(RecordError):
        encode_message(fields, message_size(fields), 0, 0, NOW_MS)


@pytest.mark.parametrize(
    ("sys_flag", "shows"), [(0, True), (0x4, False), (0x8, True), (0xC, False), (0x301, True)]
)
def test_prepared_and_rollback_messages_have_no_queue_entry(sys_flag: int, shows: bool) -> None:
    assert has_queue_entry(sys_flag) is shows


def test_the_blank_record_is_that_of_the_real_log() -> None:
    assert encode_blank(0x6F).hex() == "0000006fcbd43194"


def test_message_ids_of_ipv6_hosts_have_56_characters() -> None:
    host = host_bytes("fe80::1", 10911)
    text = offset_message_id(host, 77)
    assert len(text) == 56
    assert parse_offset_message_id(text) == (host, 77)
    assert host_text(host) == "[fe80::1]:10911"


@pytest.mark.parametrize("text", ["", "xx", "00", "0" * 33, "0" * 34])
def test_other_texts_are_no_message_ids(text: str) -> None:
    with pytest.raises(RecordError):
        parse_offset_message_id(text)


@given(MESSAGES, st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=2))
@example(message(), [])
@example(message(body=b""), [(88, 200)])
def test_the_quick_reading_of_a_record_is_the_careful_one(
    fields: MessageFields, damage: list[tuple[int, int]]
) -> None:
    try:
        data = bytearray(encode_message(fields, message_size(fields), 3, 1 << 40, NOW_MS))
    except RecordError:
        return
    for at, byte in damage:
        data[at % len(data)] = byte
    for check_body in (True, False):
        text = b"before" + bytes(data) + b"behind"
        try:
            expected = decode_carefully(text, 6, check_body=check_body)
        except RecordError as error:
            with pytest.raises(RecordError, match=f"^{error.reason}$"):
                decode_message(text, 6, check_body=check_body)
            continue
        assert decode_message(text, 6, check_body=check_body) == expected
