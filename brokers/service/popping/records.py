"""Check points and acknowledgements as they lie in the revive topic (PROTOCOL 4.9).

Responsible for: bodies and keys, byte for byte those that RocketMQ's reviver reads and writes,
within limits. Refuses to know: how a record waits for its time, the store.

A check point covers up to 32 messages of one queue. It comes back a second before they may be seen
again, acknowledgements of them at that time: so all that belongs together is there when it is
decided.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from brokers.remoting import fastjson
from brokers.remoting.fastjson import JsonRejected
from brokers.service.popping.handles import TIME_MAX_MS, Handle, is_name
from brokers.service.tables.subscription_groups import group_refusal
from brokers.service.tables.topics import QUEUES_PER_TOPIC_MAX, name_refusal
from brokers.store.log.properties import encode_properties, property_value
from brokers.store.log.records import MessageFields

CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
DELIVER_PROPERTY = "TIMER_DELIVER_MS"
CHECK_POINT_EARLIER_MS = 1_000
MESSAGES_MAX = 32
BODY_BYTES_MAX = 65_536
I64_MAX = (1 << 63) - 1
# An acknowledgement as brokers write it, ours and RocketMQ's, if its names have no letters that
# stand for others. Of its numbers none is above what it may be, whatever its digits are.
_USUAL_ACK = re.compile(
    rb'\{"ao":(0|[1-9][0-9]{0,17}),"bn":"([ !#-\[\]-~]{1,255})","c":"([%|a-zA-Z0-9_-]{1,255})",'
    rb'"pt":(0|[1-9][0-9]{0,12}),"q":(0|[1-9][0-9]{0,3}),"so":(0|[1-9][0-9]{0,17}),'
    rb'"t":"([%|a-zA-Z0-9_+-]{1,255})"\}'
)


class BadRecord(ValueError):
    """The bytes are no check point or acknowledgement."""


class Key(NamedTuple):
    """What a check point and its acknowledgements have in common."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_ms: int
    broker_name: str


@dataclass(frozen=True, slots=True)
class CheckPoint:
    """`offsets`: queue offsets of the messages, in their order. `done`: bit i is the i-th message.
    `re_puts`: how often its revival failed.
    """

    key: Key
    invisible_ms: int
    offsets: tuple[int, ...]
    done: int = 0
    re_puts: int = 0

    @property
    def visible_ms(self) -> int:
        return self.key.pop_ms + self.invisible_ms

    def body(self) -> bytes:
        """Keys are sorted, as RocketMQ writes them."""
        topic, group, queue_id, start, pop_ms, broker = self.key
        steps = ",".join([str(offset - start) for offset in self.offsets])
        re_puts = f'"rp":"{self.re_puts}",' if self.re_puts else ""
        return (
            f'{{"bm":{self.done},"bn":{_quoted(broker)},"c":{_quoted(group)},"d":[{steps}],'
            f'"it":{self.invisible_ms},"n":{len(self.offsets)},"pt":{pop_ms},"q":{queue_id},'
            f'"reviveTime":{self.visible_ms},"ro":0,{re_puts}"so":{start},"t":{_quoted(topic)}}}'
        ).encode("ascii")


class Ack(NamedTuple):
    """Messages of one check point that are done."""

    key: Key
    offsets: tuple[int, ...]

    def body(self, *, batch: bool = False) -> bytes:
        """Keys are sorted, as RocketMQ writes them."""
        topic, group, queue_id, start, pop_ms, broker = self.key
        which = f'-1,"aol":[{",".join(map(str, self.offsets))}]' if batch else f"{self.offsets[0]}"
        return (
            f'{{"ao":{which},"bn":{_quoted(broker)},"c":{_quoted(group)},"pt":{pop_ms},'
            f'"q":{queue_id},"so":{start},"t":{_quoted(topic)}}}'
        ).encode("ascii")


@lru_cache(maxsize=1_024)
def _quoted(name: str) -> str:
    """A name as a text of JSON, in ASCII."""
    return fastjson.dumps(name).decode("ascii")


class RecordMaker:
    """Records as messages of the revive topic. `store_host`: this broker's packed address."""

    def __init__(self, topic: str, store_host: bytes) -> None:
        self._topic = topic
        self._store_host = store_host

    def check_point(self, one: CheckPoint, revive_queue: int, now_ms: int) -> MessageFields:
        key = one.key
        name = f"{_name(key, key.start_offset)}@ck"
        deliver_ms = one.visible_ms - CHECK_POINT_EARLIER_MS
        return self._message(CHECK_POINT_TAG, name, one.body(), deliver_ms, revive_queue, now_ms)

    def ack(self, one: Ack, visible_ms: int, revive_queue: int, now_ms: int) -> MessageFields:
        """`visible_ms`: of its check point, as the handle says."""
        name = f"{_name(one.key, one.offsets[0])}@ack"
        return self._message(ACK_TAG, name, one.body(), visible_ms, revive_queue, now_ms)

    def batch_ack(self, one: Ack, visible_ms: int, revive_queue: int, now_ms: int) -> MessageFields:
        name = f"{_name(one.key, -1)}@ack"  # as requests of Java's clients are stored
        body = one.body(batch=True)
        return self._message(BATCH_ACK_TAG, name, body, visible_ms, revive_queue, now_ms)

    def _message(
        self, tag: str, name: str, body: bytes, deliver_ms: int, queue_id: int, now_ms: int
    ) -> MessageFields:
        properties = {"TAGS": tag, "UNIQ_KEY": name, DELIVER_PROPERTY: str(deliver_ms)}
        text = encode_properties(properties)
        host = self._store_host
        return MessageFields(self._topic, queue_id, body, text, now_ms, host, host)


def deliver_ms_of(record: MessageFields) -> int:
    """The time that a record of this maker waits for, in ms since 1970."""
    return int(property_value(record.properties, DELIVER_PROPERTY.encode()) or 0)


def _name(key: Key, offset: int) -> str:
    return f"{key.topic}@{key.queue_id}@{offset}@{key.group}@{key.pop_ms}@{key.broker_name}"


def key_of(handle: Handle, topic: str, group: str, queue_id: int) -> Key:
    """Of the check point that a handle names."""
    start, popped = handle.start_offset, handle.pop_ms
    return Key(topic, group, queue_id, start, popped, handle.broker_name)


def read_check_point(body: bytes, own_name: str) -> CheckPoint:
    """A body with tag `ck`. `own_name` stands for a broker that it does not name. `BadRecord`."""
    fields = _object(body)
    key = _key(fields, own_name)
    invisible = _number(fields, "it", maximum=TIME_MAX_MS)
    count = _number(fields, "n", maximum=MESSAGES_MAX)
    steps = fields.get("d")
    if steps is None or steps == []:
        offsets = tuple(range(key.start_offset, key.start_offset + count))
    else:
        if not isinstance(steps, list) or len(steps) != count:
            raise BadRecord("it does not name its messages")
        offsets = tuple(key.start_offset + _whole(step, "d") for step in steps)
    if not offsets or list(offsets) != sorted(set(offsets)) or offsets[-1] > I64_MAX:
        raise BadRecord("its messages are in no order")
    re_puts = fields.get("rp")
    if re_puts is not None and not (str(re_puts).isascii() and str(re_puts).isdigit()):
        raise BadRecord("rp is no number")
    done = _whole(fields.get("bm", 0), "bm", 1 << 31)
    return CheckPoint(key, invisible, offsets, done, int(str(re_puts or 0)[:9]))


def read_ack(body: bytes, own_name: str, *, batch: bool) -> Ack:
    """A body with tag `ack` or `bAck`, with short or long names. `BadRecord`."""
    if not batch and (usual := _USUAL_ACK.fullmatch(body)):
        offset, broker, group, popped, queue, start, topic = usual.groups()
        names = _names(topic, group, broker)
        if names is not None:
            key = Key(names[0], names[1], int(queue), int(start), int(popped), names[2])
            return Ack(key, (int(offset),))
    fields = _object(body)
    key = _key(fields, own_name)
    if not batch:
        return Ack(key, (_number(fields, "ao", "ackOffset"),))
    listed = fields.get("aol", fields.get("ackOffsetList"))
    if not isinstance(listed, list) or not 0 < len(listed) <= MESSAGES_MAX:
        raise BadRecord("it names no messages, or too many")
    return Ack(key, tuple(_whole(offset, "aol") for offset in listed))


@lru_cache(maxsize=1_024)
def _names(topic: bytes, group: bytes, broker: bytes) -> tuple[str, str, str] | None:
    """None: one of them is none."""
    names = topic.decode("ascii"), group.decode("ascii"), broker.decode("ascii")
    return None if name_refusal(names[0]) or group_refusal(names[1]) else names


def _object(body: bytes) -> Mapping[str, object]:
    try:
        fields = fastjson.loads(body, BODY_BYTES_MAX)
    except JsonRejected as error:
        raise BadRecord(str(error)) from None
    if not isinstance(fields, Mapping):
        raise BadRecord("it is no JSON object")
    return fields


def _key(fields: Mapping[str, object], own_name: str) -> Key:
    topic, group = _text(fields, "t", "topic"), _text(fields, "c", "consumerGroup")
    if name_refusal(topic) or group_refusal(group):
        raise BadRecord("it names no topic or no group")
    broker = fields.get("bn", fields.get("brokerName")) or own_name
    if not isinstance(broker, str) or not is_name(broker):
        raise BadRecord("bn is no name")
    return Key(
        topic,
        group,
        _number(fields, "q", "queueId", maximum=QUEUES_PER_TOPIC_MAX),
        _number(fields, "so", "startOffset"),
        _number(fields, "pt", "popTime", maximum=TIME_MAX_MS),
        broker,
    )


def _text(fields: Mapping[str, object], *names: str) -> str:
    value = next((fields[name] for name in names if name in fields), None)
    if not isinstance(value, str):
        raise BadRecord(f"{names[0]} is no text")
    return value


def _number(fields: Mapping[str, object], *names: str, maximum: int = I64_MAX) -> int:
    return _whole(next((fields[name] for name in names if name in fields), None), names[0], maximum)


def _whole(value: object, name: str, maximum: int = I64_MAX) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise BadRecord(f"{name} is no number between 0 and {maximum}")
    return value
