"""The forms of a transactional message behind its half: committed, asked about, given up; and the
record that says which halves are decided (PROTOCOL 4.7).

Responsible for: topics, properties, bytes. Refuses to know: the store, clocks, what is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from brokers.service.sending.delayed import HALF_TOPIC, REAL_QUEUE, REAL_TOPIC, stored_form
from brokers.service.sending.half import QUEUE_ID
from brokers.service.tables.topics import name_refusal
from brokers.store.log.properties import decode_properties, encode_properties, property_value
from brokers.store.log.records import (
    SYS_FLAG_COMMIT,
    SYS_FLAG_TRANSACTION_MASK,
    MessageFields,
    StoredMessage,
    encode_message,
    message_size,
)

OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
"""The group whose places in both topics say where a successor goes on."""
TIMES, PRODUCER_GROUP, UNIQUE_KEY = "TRANSACTION_CHECK_TIMES", "PGROUP", "UNIQ_KEY"
IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
# transactionOpMsgMaxSize: characters of one op record.
OP_CHARACTERS_MAX = 4_096
# Characters of an op record that are read; those of Java's are at most a number longer than ours.
OP_CHARACTERS_READ_MAX = 1_048_576
OFFSET_DIGITS_MAX = 19
_OP_PROPERTIES = encode_properties({"WAIT": "true", "TAGS": "d"})
# Ours, which RocketMQ passes over: the halves that it names are done with, and nobody ended them.
NOT_ENDED = "REGENT_NOT_ENDED"
_NOT_ENDED_PROPERTIES = encode_properties({"WAIT": "true", "TAGS": "d", NOT_ENDED: "true"})


def committed(half: MessageFields, commit_log_offset: int) -> MessageFields:
    """What consumers get of a half whose record began at `commit_log_offset`. ValueError: it does
    not say where it goes.
    """
    topic, queue_id = destination(half)
    return replace(
        half,
        topic=topic,
        queue_id=queue_id,
        sys_flag=half.sys_flag & ~SYS_FLAG_TRANSACTION_MASK | SYS_FLAG_COMMIT,
        prepared_transaction_offset=commit_log_offset,
    )


def destination(half: MessageFields) -> tuple[str, int]:
    """Topic and queue that a half is for. ValueError: it does not say."""
    topic = property_value(half.properties, REAL_TOPIC.encode()) or b""
    queue = property_value(half.properties, REAL_QUEUE.encode())
    if queue is None or not queue.isdigit() or len(queue) > 9:
        raise ValueError("it does not say to which queue it goes")
    name = topic.decode("utf-8", "surrogateescape")
    if (reason := name_refusal(name)) is not None:
        raise ValueError(f"it does not say to which topic it goes: {reason}")
    if name in (HALF_TOPIC, OP_TOPIC):
        raise ValueError(f"nothing is committed to {name}")
    return name, int(queue)


def again(half: MessageFields, times: int, topic: str = HALF_TOPIC) -> MessageFields:
    """A copy of a half about which its producers were asked `times` times. ValueError: its
    properties have no room for that.
    """
    properties = {**decode_properties(half.properties), TIMES: str(times)}
    return replace(
        half,
        topic=topic,
        queue_id=QUEUE_ID,
        properties=stored_form(properties),
        reconsume_times=0,
        prepared_transaction_offset=0,
    )


def times_asked(half: MessageFields) -> int:
    """How often the producers of a half were asked; 0 where it says nothing that is a number."""
    text = property_value(half.properties, TIMES.encode()) or b""
    return int(text) if text.isdigit() and len(text) <= 9 else 0


def property_text(half: MessageFields, name: str) -> str:
    """A property as text; empty without one."""
    value = property_value(half.properties, name.encode())
    return "" if value is None else value.decode("utf-8", "surrogateescape")


def question(half: StoredMessage, queue_offset: int, physical_offset: int) -> bytes:
    """The body of 39: the message under the name of its destination, at the place of the copy that
    was made of it. ValueError, RecordError: it has none.
    """
    topic, queue_id = destination(half.fields)
    asked = times_asked(half.fields) + 1
    properties = {**decode_properties(half.fields.properties), TIMES: str(asked), "WAIT": "false"}
    message = replace(
        half.fields, topic=topic, queue_id=queue_id, properties=stored_form(properties)
    )
    return encode_message(
        message, message_size(message), queue_offset, physical_offset, half.store_ms
    )


def op_records(
    half_offsets: Sequence[int], host: bytes, now_ms: int, *, ended: bool = True
) -> list[MessageFields]:
    """Records that say of these halves that they are decided, as many as it takes. `host`: this
    broker's, as stored; `ended`: their producers decided, they were not copied or given up.
    """
    properties = _OP_PROPERTIES if ended else _NOT_ENDED_PROPERTIES
    bodies: list[str] = [""]
    for offset in half_offsets:
        if len(bodies[-1]) + OFFSET_DIGITS_MAX + 1 > OP_CHARACTERS_MAX:
            bodies.append("")
        bodies[-1] += f"{offset},"
    return [
        MessageFields(OP_TOPIC, QUEUE_ID, body.encode(), properties, now_ms, host, host)
        for body in bodies
        if body
    ]


def says_ended(record: MessageFields) -> bool:
    """Whether the halves of an op record were ended by their producers, as all of RocketMQ's."""
    return property_value(record.properties, NOT_ENDED.encode()) is None


def decided_in(record: MessageFields) -> Iterable[int]:
    """The half offsets that an op record names. What is no number, and a record with another tag
    than `d`, names none.
    """
    if property_value(record.properties, b"TAGS") != b"d":
        return ()
    text = bytes(record.body[:OP_CHARACTERS_READ_MAX])
    return [
        int(part) for part in text.split(b",") if part.isdigit() and len(part) <= OFFSET_DIGITS_MAX
    ]
