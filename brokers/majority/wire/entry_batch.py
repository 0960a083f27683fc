"""Entries one behind the other as in a data log, behind the JSON of their push: among ours only.

Responsible for: 48 bytes of head and the body of each (PROTOCOL 10.4), bounds, checksums. Refuses
to know: what the JSON says.

A body that begins with the mark is none of Java's: its JSON begins with a brace.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from brokers.majority.entry import BODY_BYTES_MAX, HEAD_BYTES, Entry, body_fits
from brokers.majority.wire.json_fields import MessageRejected

MARK = 1
ENTRIES_MAX = 4_096
BYTES_MAX = 8 << 20
_LENGTHS = struct.Struct(">BII")
# magic, size, index, term, position, channel, chain's checksum, body's checksum, body's length
_HEAD = struct.Struct(">iiqqqiiii")


def is_binary(body: bytes) -> bool:
    """Whether entries stand behind the JSON."""
    return body[:1] == bytes([MARK])


def join(head: bytes, entries: Sequence[Entry]) -> bytes:
    """Mark, length of the JSON, number of entries; JSON; entries."""
    parts = [_LENGTHS.pack(MARK, len(head), len(entries)), head]
    for entry in entries:
        parts.append(
            _HEAD.pack(
                entry.magic, entry.size, entry.index, entry.term, entry.position, entry.channel,
                entry.chain_crc, entry.body_crc, len(entry.body),
            )
        )  # fmt: skip
        parts.append(entry.body)
    return b"".join(parts)


def part(body: bytes) -> tuple[bytes, tuple[Entry, ...]]:
    """(the JSON, the entries). MessageRejected: they are not these."""
    if not _LENGTHS.size <= len(body) <= BYTES_MAX:
        raise MessageRejected(f"{len(body)} bytes are no push with entries in binary")
    _, head_bytes, count = _LENGTHS.unpack_from(body)
    at = _LENGTHS.size + head_bytes
    if at > len(body) or not 0 < count <= ENTRIES_MAX:
        raise MessageRejected("the lengths of a push do not fit it")
    entries = []
    for _ in range(count):
        entry, at = _entry_at(body, at)
        entries.append(entry)
    if at != len(body):
        raise MessageRejected("bytes behind the last entry")
    return body[_LENGTHS.size : _LENGTHS.size + head_bytes], tuple(entries)


def _entry_at(body: bytes, at: int) -> tuple[Entry, int]:
    if at + HEAD_BYTES > len(body):
        raise MessageRejected("the push ends inside of an entry's head")
    magic, size, index, term, position, channel, chain, crc, length = _HEAD.unpack_from(body, at)
    begin, end = at + HEAD_BYTES, at + HEAD_BYTES + length
    if not 0 <= length <= BODY_BYTES_MAX or size != HEAD_BYTES + length or end > len(body):
        raise MessageRejected("the lengths of an entry do not fit it")
    if min(index, term, position, chain, crc) < 0:
        raise MessageRejected("numbers that no entry has")
    entry = Entry(index, term, position, body[begin:end], magic, channel, chain, crc)
    if not body_fits(entry):
        raise MessageRejected(f"the checksum of entry {index} does not fit its body")
    return entry, end
