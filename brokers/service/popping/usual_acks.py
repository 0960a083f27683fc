"""The acknowledgement that nearly every consumer sends: 200051 with the handle of a message that is
invisible still.

Responsible for: recognising it; its record and its answer, with the bytes that the long way makes
(property tests hold both equal). Refuses to know: whether the message is there, the log, clocks;
everything unusual is left to the long way, which also words every refusal.

Acknowledgements of one check point differ in one offset: everything else in them is read and
written once (`AckForm`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from brokers.remoting.codec import encode
from brokers.remoting.command import FLAG_RESPONSE, RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR
from brokers.service.popping.records import Key
from brokers.store.log.records import MessageFields

# Digits that fit their numbers, of 64 and 32 bits, whatever they are.
DIGITS_MAX = 18
QUEUE_DIGITS_MAX = 9
# Of a handle, each with a blank behind it, up to the offset of its message.
FIELDS_IN_FRONT = 7

_HEAD = struct.Struct(">ii")


class AckOf(NamedTuple):
    """What acknowledgements of one check point have in common, as it stands in their headers.
    `handle`: up to its message's offset.
    """

    handle: str
    topic: str
    group: str
    queue: str


def usual_ack(ext: Mapping[str, str]) -> tuple[AckOf, int] | None:
    """Of which check point it is, and its message's offset; None: let the long way look at it."""
    get = ext.get
    handle, offset, queue = get("extraInfo"), get("offset"), get("queueId")
    topic, group = get("topic"), get("consumerGroup")
    if (
        not handle
        or not offset
        or not queue
        or not topic
        or not group
        or FORWARDED_FOR in ext
        or not handle.endswith(offset)
        or not (digits := offset + queue).isdecimal()
        or not digits.isascii()
        or len(offset) > DIGITS_MAX
        or len(queue) > QUEUE_DIGITS_MAX
    ):
        return None
    return AckOf(handle[: -len(offset)], topic, group, queue), int(offset)


class AckForm(Struct, frozen=True, gc=False):
    """The records of the acknowledgements of one check point as they wait for `visible_ms`, with
    room for an offset. `queue_id`: of the messages; `stored_queue_id`: of the record.
    """

    queue_id: int
    revive_queue: int
    visible_ms: int
    stored_topic: str
    stored_queue_id: int
    body: tuple[bytes, bytes]
    properties: tuple[bytes, bytes]
    host: bytes

    def record(self, offset: int, now_ms: int) -> MessageFields:
        """As it goes into the log."""
        digits, host = b"%d" % offset, self.host
        before, behind = self.body
        text, rest = self.properties
        return MessageFields(
            self.stored_topic,
            self.stored_queue_id,
            before + digits + behind,
            text + digits + rest,
            now_ms,
            host,
            host,
        )


def form_of(key: Key, revive_queue: int, visible_ms: int, waiting: MessageFields) -> AckForm | None:
    """By the record of offset 0 in the form in which it waits; None: its offset is not found."""
    name = f"\x02UNIQ_KEY\x01{key.topic}@{key.queue_id}@".encode("utf-8", "surrogateescape")
    body, properties = bytes(waiting.body), waiting.properties
    body_before, text = b'{"ao":', properties.partition(name)[2]
    if not body.startswith(body_before + b"0,") or not text.startswith(b"0@"):
        return None
    return AckForm(
        key.queue_id,
        revive_queue,
        visible_ms,
        waiting.topic,
        waiting.queue_id,
        (body_before, body[len(body_before) + 1 :]),
        (properties[: -len(text)], text[1:]),
        waiting.store_host,
    )


def general_frame(opaque: int) -> bytes:
    """Code 0 by the general encoder."""
    return encode(RemotingCommand(0, opaque, FLAG_RESPONSE))


_BEFORE, _, _BEHIND = general_frame(77777)[8:].partition(b"77777")


def done_frame(opaque: int) -> bytes:
    """As `general_frame`."""
    header = b"%b%d%b" % (_BEFORE, opaque, _BEHIND)
    return _HEAD.pack(4 + len(header), len(header)) + header
