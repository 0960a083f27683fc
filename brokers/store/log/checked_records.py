"""What is read of messages that a query checked, without decoding all of them.

Responsible for: places, body and properties of messages that lie behind one another.
Refuses to know: whether they are sound, which of them are wanted.
"""

from __future__ import annotations

import struct

from brokers.store.log.records import BODY_AT_V4, HOSTS_V6, MAGIC_V1, MAGIC_V2, decode_carefully

_PLACES = struct.Struct(">i16xqq")  # size, queue offset, offset in the log
# From behind the size on: magic, system flags and the body's length, with two IPv4 hosts.
_BEFORE_PROPERTIES_V4 = struct.Struct(">I28xi44xi")
_MAGICS = (struct.pack(">I", MAGIC_V1), struct.pack(">I", MAGIC_V2))
HEAD_BYTES = 76
"""From a record's size to the time when it was stored, with hosts of either length: two histories
differ in it.
"""


def size_and_places(data: bytes, at: int) -> tuple[int, int, int]:
    """Size in bytes, queue offset and offset in the log of the message at `at`."""
    return _PLACES.unpack_from(data, at)


def has_head(data: bytes, offset: int) -> bool:
    """Whether bytes that lie at `offset` of a log have a whole head of a record among them: one
    that says its own place.
    """
    for magic in _MAGICS:
        found = data.find(magic)
        while found >= 0:
            at = found - 4
            if 0 <= at <= len(data) - HEAD_BYTES and size_and_places(data, at)[2] == offset + at:
                return True
            found = data.find(magic, found + 1)
    return False


def queue_offsets(data: bytes) -> tuple[int, ...]:
    """Of messages that follow each other without gap."""
    found, at, places = [], 0, _PLACES.unpack_from
    while at < len(data):
        size, queue_offset, _ = places(data, at)
        found.append(queue_offset)
        at += size
    return tuple(found)


def property_text(data: bytes, at: int, end: int) -> bytes:
    """The text form of the properties of the message at [at, end)."""
    magic, sys_flag, body_bytes = _BEFORE_PROPERTIES_V4.unpack_from(data, at + 4)
    if magic != MAGIC_V1 or sys_flag & HOSTS_V6:
        return decode_carefully(data, at, check_body=False).fields.properties
    topic_at = at + BODY_AT_V4 + body_bytes
    return data[topic_at + 3 + data[topic_at] : end]


def body_and_properties(data: bytes, at: int, end: int) -> tuple[bytes, bytes]:
    """The same, and the body in front of it."""
    magic, sys_flag, body_bytes = _BEFORE_PROPERTIES_V4.unpack_from(data, at + 4)
    if magic != MAGIC_V1 or sys_flag & HOSTS_V6:
        fields = decode_carefully(data, at, check_body=False).fields
        return bytes(fields.body), fields.properties
    topic_at = at + BODY_AT_V4 + body_bytes
    return data[at + BODY_AT_V4 : topic_at], data[topic_at + 3 + data[topic_at] : end]
