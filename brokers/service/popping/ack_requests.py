"""Acknowledgements and changes of the invisible time, as typed values (PROTOCOL 4.9).

Responsible for: headers and bodies of 200051, 200151 and 200053, within limits. Refuses to know:
whether what they name is there, what is done with it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from brokers.remoting import fastjson
from brokers.remoting.fastjson import JsonRejected
from brokers.remoting.fields import BadField, number
from brokers.service.popping.handles import NAME_CHARACTERS_MAX, TIME_MAX_MS, Handle, is_name
from brokers.service.popping.names import NORMAL, RETRY_V1, RETRY_V2, real_topic
from brokers.service.popping.records import MESSAGES_MAX
from brokers.service.tables.subscription_groups import group_refusal

ENTRIES_MAX = 1_024
# A check point's messages lie within so many queue offsets of its start: bits of one batch.
BITS_BYTES_MAX = 131_072
_I64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AckRequest:
    """One message; `topic` is the real one, also of a retry. `invisible_ms`: of 200053."""

    group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    invisible_ms: int


def parse_ack(ext: Mapping[str, str]) -> AckRequest:
    """The header of 200051 and 200053. `BadField`."""
    group, topic = ext.get("consumerGroup") or "", ext.get("topic") or ""
    if (reason := group_refusal(group)) is not None:
        raise BadField(f"consumerGroup: {reason}")
    if len(topic) > NAME_CHARACTERS_MAX:
        raise BadField(f"a topic has at most {NAME_CHARACTERS_MAX} characters")
    return AckRequest(
        group,
        topic,
        number(ext, "queueId", 0),
        ext.get("extraInfo") or "",
        number(ext, "offset", 0),
        number(ext, "invisibleTime", 0),
    )


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """Messages of one check point, which `handle` names."""

    group: str
    topic: str
    handle: Handle
    offsets: tuple[int, ...]


def parse_batch(body: bytes) -> list[BatchEntry]:
    """The body of 200151; nothing in it: []. `BadField`."""
    if not body:
        return []
    try:
        fields = fastjson.loads(body)
    except JsonRejected as error:
        raise BadField(str(error)) from None
    entries = fields.get("acks") if isinstance(fields, Mapping) else None
    if not isinstance(entries, list) or not entries:
        return []
    if len(entries) > ENTRIES_MAX:
        raise BadField(f"more than {ENTRIES_MAX} acknowledgements in one request")
    assert isinstance(fields, Mapping)
    broker = fields.get("brokerName")
    return [_entry(one, broker if isinstance(broker, str) else "") for one in entries]


def _entry(fields: object, broker: str) -> BatchEntry:
    if not isinstance(fields, Mapping):
        raise BadField("an acknowledgement is no object")
    group, topic = _text(fields, "c", "consumerGroup"), _text(fields, "t", "topic")
    if (reason := group_refusal(group)) is not None or not is_name(broker):
        raise BadField(f"no name of a group or a broker: {reason}")
    kind = str(_either(fields, "r", "retry"))
    if kind not in (NORMAL, RETRY_V1, RETRY_V2):
        raise BadField(f"retry is {kind[:40]!r}, and not 0, 1 or 2")
    start = _whole(fields, "so", "startOffset")
    handle = Handle(
        start,
        _whole(fields, "pt", "popTime", maximum=TIME_MAX_MS),
        _whole(fields, "it", "invisibleTime", maximum=TIME_MAX_MS),
        _whole(fields, "rq", "reviveQueueId", maximum=1 << 16),
        kind,
        broker,
        _whole(fields, "q", "queueId", maximum=1 << 16),
    )
    offsets = tuple(start + bit for bit in _bits(_text(fields, "b", "bitSet", limit=1 << 18)))
    if len(offsets) > MESSAGES_MAX:
        raise BadField(f"more than {MESSAGES_MAX} messages of one pop")
    return BatchEntry(group, real_topic(kind, group, topic), handle, offsets)


def _bits(text: str) -> Iterator[int]:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadField("the set of messages is no base64") from None
    if len(data) > BITS_BYTES_MAX:
        raise BadField("the set of messages is too large")
    for at, byte in enumerate(data):
        if byte:
            yield from (8 * at + bit for bit in range(8) if byte >> bit & 1)


def _either(fields: Mapping[str, object], *names: str) -> object:
    return next((fields[name] for name in names if name in fields), "")


def _text(fields: Mapping[str, object], *names: str, limit: int = NAME_CHARACTERS_MAX) -> str:
    value = _either(fields, *names)
    if not isinstance(value, str) or len(value) > limit:
        raise BadField(f"{names[-1]} is no text, or too long")
    return value


def _whole(fields: Mapping[str, object], *names: str, maximum: int = _I64_MAX) -> int:
    value = _either(fields, *names)
    if type(value) is not int or not 0 <= value <= maximum:
        raise BadField(f"{names[-1]} is no number between 0 and {maximum}")
    return value
