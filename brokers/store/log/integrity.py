"""Whether stored bytes are the message that was stored: checked whenever one is read.

Responsible for: what can be known without another copy (place, lengths, checksum of the body, the
queue it belongs to).
Refuses to know: where the bytes come from, what is done with a damaged message.

The format has no checksum over headers and properties: damage there shows only where it changes a
place or a length.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, cast
from zlib import crc32

from brokers.store.log.records import (
    BODY_BYTES_MAX,
    MAGIC_V1,
    MAGIC_V2,
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_STORE_HOST_V6,
    TOPIC_BYTES_MAX_V1,
)

# No message that a broker of ours took is larger.
RECORD_BYTES_MAX = BODY_BYTES_MAX + 3 * 65_536
# Queues of these topics point to messages of other topics.
LIGHT_QUEUE_PREFIX = b"%LMQ%"

_HEAD = struct.Struct(">iIIiiqqi")  # up to and with sysFlag
_COMMON = struct.Struct(">iIIi4xqqi44xi")  # the same, and the body's length, with two IPv4 hosts
_V6 = SYS_FLAG_BORN_HOST_V6 | SYS_FLAG_STORE_HOST_V6
_I32 = struct.Struct(">i")
_U16 = struct.Struct(">H")
_BODY_LENGTH_AT = 84  # with two IPv4 hosts


class Place(NamedTuple):
    """Where a message is to lie: offset and size in bytes; and its queue, None when it was not
    found through one.
    """

    offset: int
    size: int
    topic: bytes = b""
    queue_id: int | None = None
    slot: int = 0


class BadRecord(NamedTuple):
    """A message that must not be served, and what is wrong with it. `proven`: a record is known to
    begin there.
    """

    place: Place
    reason: str
    proven: bool = True


def problem(data: memoryview | bytes, place: Place) -> str:
    """What is wrong with `data` as the message of `place`; empty when nothing is."""
    offset, size, topic, queue_id, slot = place
    if len(data) < size or size < _BODY_LENGTH_AT:
        return "its bytes are not all there"
    total, magic, crc, queue, _, number, position, flags = _HEAD.unpack_from(data)
    if (total, position) != (size, offset):
        return "its length or position is another"
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return "its magic is that of no message"
    body_at = _BODY_LENGTH_AT + 4
    if flags & _V6:
        body_at += 12 * (bool(flags & SYS_FLAG_BORN_HOST_V6) + bool(flags & SYS_FLAG_STORE_HOST_V6))
    try:
        body_end = body_at + _I32.unpack_from(data, body_at - 4)[0]
        if magic == MAGIC_V1:
            topic_at, topic_end = body_end + 1, body_end + 1 + data[body_end]
        else:
            topic_at, topic_end = body_end + 2, body_end + 2 + _U16.unpack_from(data, body_end)[0]
        if body_end < body_at or topic_end + 2 + _U16.unpack_from(data, topic_end)[0] != size:
            return "its lengths do not add up"
    except (struct.error, IndexError):
        return "its lengths do not add up"
    if body_end > body_at and crc32(data[body_at:body_end]) & 0x7FFFFFFF != crc:
        return "its body does not fit the checksum"
    if queue_id is not None and (
        queue != queue_id or number != slot or data[topic_at:topic_end] != topic
    ):
        if not topic.startswith(LIGHT_QUEUE_PREFIX):
            return "it belongs to another queue or place there"
    return ""


class QueueCheck:
    """The same check for message after message of one queue, without an object for each."""

    def __init__(self, topic: str, queue_id: int) -> None:
        self._topic = topic.encode("utf-8", "surrogateescape")
        self._queue_id = queue_id
        self._topic_block = (
            bytes((len(self._topic),)) + self._topic
            if len(self._topic) <= TOPIC_BYTES_MAX_V1
            else b""
        )

    def place(self, slot: int, offset: int, size: int) -> Place:
        return Place(offset, size, self._topic, self._queue_id, slot)

    def sound_until(
        self,
        data: memoryview,
        start: int,
        chosen: Sequence[tuple[int, tuple[int, int, int]]],
        first: int,
        stop: int,
    ) -> tuple[int, bool]:
        """(up to which of chosen[first:stop] `problem` has nothing to say for certain, whether
        these are just `data`).

        `data` lies at `start`. Every message of a pull passes here, so it is written out.
        """
        unpack, topic_block, queue_id, begins = (
            _COMMON.unpack_from,
            self._topic_block,
            self._queue_id,
            cast(bytes, data.obj).startswith,
        )
        head_bytes, topic_bytes, available, end, row = (
            _BODY_LENGTH_AT + 4,
            len(topic_block),
            len(data),
            0,
            True,
        )
        for number in range(first, stop):
            slot, (offset, size, _) = chosen[number]
            at = offset - start
            row = row and at == end
            end = at + size
            if at < 0 or not 0 < size <= available - at:
                return number, False
            try:
                total, magic, crc, queue, slot_there, position, flags, body_bytes = unpack(data, at)
                body_at = at + head_bytes
                topic_at = body_at + body_bytes
                behind = topic_at + topic_bytes
                if (
                    position != offset
                    or slot_there != slot
                    or total != size
                    or magic != MAGIC_V1
                    or flags & _V6
                    or body_bytes < 0
                    or queue != queue_id
                    or not begins(topic_block, topic_at)
                    or behind + 2 + (data[behind] << 8 | data[behind + 1]) != end
                    or crc32(data[body_at:topic_at]) & 0x7FFFFFFF != crc
                ):
                    return number, False
            except (struct.error, IndexError):
                return number, False
        return stop, row and end == available

    def problem(self, data: memoryview, at: int, slot: int, offset: int, size: int) -> str:
        """`problem` of the bytes at `at` of `data`."""
        try:
            total, magic, crc, queue, number, position, flags, body_bytes = _COMMON.unpack_from(
                data, at
            )
            body_at = at + _BODY_LENGTH_AT + 4
            topic_at = body_at + body_bytes
            topic_end = topic_at + len(self._topic_block)
            if (
                position == offset
                and number == slot
                and total == size
                and magic == MAGIC_V1
                and not flags & _V6
                and body_bytes >= 0
                and queue == self._queue_id
                and data[topic_at:topic_end] == self._topic_block
                and topic_end + 2 + _U16.unpack_from(data, topic_end)[0] == at + size <= len(data)
                and crc32(data[body_at:topic_at]) & 0x7FFFFFFF == crc
            ):
                return ""
        except struct.error:
            pass
        return problem(data[at : at + size], self.place(slot, offset, size))
