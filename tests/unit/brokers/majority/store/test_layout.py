"""Bytes of entries, filler and index records, one row of the format each."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.majority.entry import ENTRY_BYTES_MAX, Entry
from brokers.majority.store.layout import (
    Head,
    IndexRecord,
    Malformed,
    agrees,
    decode_entry,
    decode_head,
    decode_index_record,
    encode_entry,
    encode_filler,
    encode_index_record,
    filler_bytes,
)

ENTRY = Entry(7, 3, 4096, b"body!", 1, 9, 0x01020304, 0x05060708)
# offset, bytes, value: each field where DLedger has it, big endian.
ROWS = [
    ("magic", 0, 4, 1),
    ("size", 4, 4, 53),
    ("index", 8, 8, 7),
    ("term", 16, 8, 3),
    ("pos", 24, 8, 4096),
    ("channel", 32, 4, 9),
    ("chain CRC", 36, 4, 0x01020304),
    ("body CRC", 40, 4, 0x05060708),
    ("body length", 44, 4, 5),
]
INDEX_ROWS = [
    ("magic", 0, 4, 1),
    ("pos", 4, 8, 4096),
    ("size", 12, 4, 53),
    ("index", 16, 8, 7),
    ("term", 24, 8, 3),
]


@pytest.mark.parametrize(("name", "at", "count", "value"), ROWS, ids=[row[0] for row in ROWS])
def test_each_field_of_an_entry_has_its_place(name: str, at: int, count: int, value: int) -> None:
    assert int.from_bytes(encode_entry(ENTRY)[at : at + count], "big") == value, name


@pytest.mark.parametrize(
    ("name", "at", "count", "value"), INDEX_ROWS, ids=[row[0] for row in INDEX_ROWS]
)
def test_each_field_of_an_index_record_has_its_place(
    name: str, at: int, count: int, value: int
) -> None:
    record = encode_index_record(ENTRY)
    assert len(record) == 32 and int.from_bytes(record[at : at + count], "big") == value, name


def test_an_entry_comes_back_as_it_was() -> None:
    data = b"xx" + encode_entry(ENTRY)
    assert data[50:] == b"body!"
    assert decode_entry(data, 2) == ENTRY
    assert decode_head(data, 2) == Head(1, 53, 7, 3, 4096, 9, 0x01020304, 0x05060708, 5)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0, "magic"),
        (0, 2, "magic"),
        (0, -1, "magic"),
        (4, 54, "lengths"),
        (4, 5, "lengths"),
        (44, 4, "lengths"),
        (44, -1, "lengths"),
        (8, -1, "impossible"),
        (16, -1, "impossible"),
        (24, -1, "impossible"),
        (36, -1, "checksums"),
        (40, -1, "checksums"),
    ],
)
def test_a_head_that_no_entry_can_have_is_malformed(at: int, value: int, reason: str) -> None:
    data = bytearray(encode_entry(ENTRY))
    data[at : at + 4] = struct.pack(">i", value)
    with pytest.raises(Malformed, match=reason):
        decode_head(bytes(data))


def test_an_entry_above_four_mebibytes_is_malformed() -> None:
    body_bytes = ENTRY_BYTES_MAX - 48 + 1
    head = struct.pack(">iiqqqiiii", 1, 48 + body_bytes, 0, 0, 0, 0, 0, 0, body_bytes)
    with pytest.raises(Malformed, match="lengths"):
        decode_head(head)


@pytest.mark.parametrize("count", [0, 47, 48, 52])
def test_an_entry_that_is_not_all_there_is_malformed(count: int) -> None:
    with pytest.raises(Malformed, match="not all there"):
        decode_entry(encode_entry(ENTRY)[:count])


def test_filler_says_how_much_it_fills() -> None:
    assert encode_filler(100).hex() == "ffffffff00000064"
    assert filler_bytes(b"x" + encode_filler(8), 1) == 8
    assert filler_bytes(encode_entry(ENTRY), 0) is None and filler_bytes(b"\xff" * 7, 0) is None


@pytest.mark.parametrize(
    ("record", "index"),
    [
        (IndexRecord(1, 4096, 53, 7, 3), 8),
        (IndexRecord(0, 0, 0, 0, 0), 0),
        (IndexRecord(1, 4096, 47, 7, 3), 7),
        (IndexRecord(1, 4096, ENTRY_BYTES_MAX + 1, 7, 3), 7),
        (IndexRecord(1, -1, 53, 7, 3), 7),
        (IndexRecord(1, 4096, 53, 7, -1), 7),
    ],
    ids=["another one's", "zeros", "too small", "too large", "nowhere", "no term"],
)
def test_an_index_record_that_no_entry_can_have_is_malformed(
    record: IndexRecord, index: int
) -> None:
    with pytest.raises(Malformed):
        decode_index_record(struct.pack(">iqiqq", *record), index)


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [({"magic": 2}, True), ({"position": 1}, False), ({"size": 54}, False), ({"term": 4}, False)],
)
def test_a_record_agrees_with_its_entry_whatever_kind_it_is_of(
    changed: dict[str, int], wanted: bool
) -> None:
    record = decode_index_record(encode_index_record(ENTRY), 7)._replace(**changed)
    assert agrees(record, ENTRY) is wanted
    assert agrees(record, decode_head(encode_entry(ENTRY))) is wanted


@given(st.binary(max_size=200), st.integers(0, 100), st.integers(-5, 5))
def test_any_bytes_are_decoded_or_malformed(data: bytes, at: int, index: int) -> None:
    at = min(at, len(data))
    for decode in (decode_head, decode_entry, lambda d, a: decode_index_record(d, index, a)):
        try:
            decode(data, at)
        except Malformed:
            pass
    filler_bytes(data, at)


@given(
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 50),
    st.binary(max_size=100),
    st.lists(st.integers(0, (1 << 31) - 1), min_size=2, max_size=2),
)
def test_every_entry_survives(index, term, position, body, crcs) -> None:
    entry = Entry(index, term, position, body, 1, 0, *crcs)
    assert decode_entry(encode_entry(entry)) == entry
    assert agrees(decode_index_record(encode_index_record(entry), index), entry)
