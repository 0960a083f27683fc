"""The bytes of entries, filler and index records.

Responsible for: PROTOCOL 9.2 and 9.3, byte by byte; every decoder takes any bytes. Refuses to know:
files, which entry should be where.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from brokers.majority.entry import ENTRY_BYTES_MAX, HEAD_BYTES, MAGIC_NORMAL, Entry
from brokers.store.log.records import BLANK_BYTES_MIN

MAGIC_FILLER = -1
INDEX_RECORD_BYTES = 32

_HEAD = struct.Struct(">iiqqqiiii")
_FILLER = struct.Struct(">ii")
_INDEX_RECORD = struct.Struct(">iqiqq")
_POSITION_MAX = (1 << 63) - 1 - ENTRY_BYTES_MAX


class Malformed(ValueError):
    """These bytes are no entry, or no index record. One line, why."""


class Head(NamedTuple):
    """The first 48 bytes of an entry, in their order. `size` counts them and the body."""

    magic: int
    size: int
    index: int  # type: ignore[assignment]  # Hides the method of tuples, which nobody wants here.
    term: int
    position: int
    channel: int
    chain_crc: int
    body_crc: int
    body_bytes: int


class IndexRecord(NamedTuple):
    """Where the entry of an index lies. It says no more than the entry's head."""

    magic: int
    position: int
    size: int
    index: int  # type: ignore[assignment]  # As above.
    term: int


def encode_entry(entry: Entry) -> bytes:
    """Head and body. struct.error for numbers that do not fit."""
    return (
        _HEAD.pack(
            entry.magic,
            entry.size,
            entry.index,
            entry.term,
            entry.position,
            entry.channel,
            entry.chain_crc,
            entry.body_crc,
            len(entry.body),
        )
        + entry.body
    )


def decode_head(data: bytes | memoryview, at: int = 0) -> Head:
    """The head at `at`, of a form that an entry can have. Malformed, also when it is not all there;
    filler and zeros are malformed too.
    """
    if len(data) - at < HEAD_BYTES:
        raise Malformed("the head is not all there")
    head = Head._make(_HEAD.unpack_from(data, at))
    reason = _flaw(head)
    if reason:
        raise Malformed(reason)
    return head


def _flaw(head: Head) -> str:
    if head.magic != MAGIC_NORMAL:
        return f"its magic {head.magic} is that of no entry"
    if head.size != HEAD_BYTES + head.body_bytes or not HEAD_BYTES <= head.size <= ENTRY_BYTES_MAX:
        return "its lengths do not add up"
    if min(head.index, head.term, head.position) < 0 or head.position > _POSITION_MAX:
        return "its index, term or position is impossible"
    if min(head.chain_crc, head.body_crc) < 0:
        return "its checksums are none of ours"
    return ""


def decode_entry(data: bytes | memoryview, at: int = 0) -> Entry:
    """The entry at `at`; its checksums are for the caller to look at. Malformed."""
    head = decode_head(data, at)
    body = bytes(data[at + HEAD_BYTES : at + head.size])
    if len(body) != head.body_bytes:
        raise Malformed("the body is not all there")
    return Entry(
        head.index,
        head.term,
        head.position,
        body,
        head.magic,
        head.channel,
        head.chain_crc,
        head.body_crc,
    )


def encode_filler(bytes_left: int) -> bytes:
    """What closes a data file in which so many bytes are left, at least 8; zeros follow it."""
    return _FILLER.pack(MAGIC_FILLER, bytes_left)


def filler_bytes(data: bytes | memoryview, at: int) -> int | None:
    """How long the filler at `at` says it is; None when there is none."""
    if len(data) - at < BLANK_BYTES_MIN:
        return None
    magic, count = _FILLER.unpack_from(data, at)
    return count if magic == MAGIC_FILLER else None


def encode_index_record(entry: Entry | Head) -> bytes:
    """Of an entry that lies at its position."""
    return _INDEX_RECORD.pack(entry.magic, entry.position, entry.size, entry.index, entry.term)


def decode_index_record(data: bytes | memoryview, index: int, at: int = 0) -> IndexRecord:
    """The record at `at`, which is that of `index`. Malformed when it is another one's, or none."""
    if len(data) - at < INDEX_RECORD_BYTES:
        raise Malformed("the index record is not all there")
    record = IndexRecord._make(_INDEX_RECORD.unpack_from(data, at))
    if record.index != index or record.magic <= 0:
        raise Malformed("it is not the record of this index")
    if not HEAD_BYTES <= record.size <= ENTRY_BYTES_MAX:
        raise Malformed("its size is impossible")
    if not 0 <= record.position <= _POSITION_MAX or record.term < 0:
        raise Malformed("its position or term is impossible")
    return record


def agrees(record: IndexRecord, head: Entry | Head) -> bool:
    """Whether a record is that of this entry. Its magic does not count: Java writes 1 for every
    kind.
    """
    return record[1:] == (head.position, head.size, head.index, head.term)
