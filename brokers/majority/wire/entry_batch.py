"""Entries one behind the other as in a data log, behind the JSON of their push: among ours only.

Responsible for: what stands around them (PROTOCOL 10.4), bounds, checksums. Refuses to know: what
the JSON says, how an entry is laid out (`brokers/majority/store/layout.py`).

A body that begins with the mark is none of Java's: its JSON begins with a brace.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from brokers.majority.entry import Entry, body_fits
from brokers.majority.store.layout import Malformed, decode_entry, encode_entry
from brokers.majority.wire.json_fields import MessageRejected

MARK = 1
ENTRIES_MAX = 4_096
BYTES_MAX = 8 << 20
_LENGTHS = struct.Struct(">BII")


def is_binary(body: bytes) -> bool:
    """Whether entries stand behind the JSON."""
    return body[:1] == bytes([MARK])


def join(head: bytes, entries: Sequence[Entry]) -> bytes:
    """Mark, length of the JSON, number of entries; JSON; entries."""
    lengths = _LENGTHS.pack(MARK, len(head), len(entries))
    return b"".join((lengths, head, *map(encode_entry, entries)))


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
        try:
            entry = decode_entry(body, at)
        except Malformed as error:
            raise MessageRejected(f"an entry of a push: {error}") from None
        if not body_fits(entry):
            raise MessageRejected(f"the checksum of entry {entry.index} does not fit its body")
        entries.append(entry)
        at += entry.size
    if at != len(body):
        raise MessageRejected("bytes behind the last entry")
    return body[_LENGTHS.size : _LENGTHS.size + head_bytes], tuple(entries)
