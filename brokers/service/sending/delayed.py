"""The two forms of a delayed message: as it waits, and as it is delivered (PROTOCOL 4.14).

Responsible for: which level a message asks for, where it waits, what is delivered of it.
Refuses to know: the store, clocks, when it is due.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from brokers.service.tables.topics import name_refusal
from brokers.store.log.delay_levels import levels_in_force
from brokers.store.log.properties import (
    PROPERTIES_BYTES_MAX,
    SCHEDULE_TOPIC,
    decode_properties,
    encode_properties,
    property_value,
)
from brokers.store.log.records import (
    SYS_FLAG_COMMIT,
    SYS_FLAG_TRANSACTION_MASK,
    MessageFields,
    StoredMessage,
)

DELAY, REAL_TOPIC, REAL_QUEUE = "DELAY", "REAL_TOPIC", "REAL_QID"
TIMER_REQUESTS = ("TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC")
"""By which a producer asks for a time; a level wins over them."""
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"

# As Java reads a number of 32 bits.
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}\Z")
# Nothing but properties with a name and a value: more can be written behind them as they are.
_WHOLE = re.compile(rb"(?:[^\x01\x02]+\x01[^\x01\x02]+\x02)*\Z")


def asked_level(properties: bytes) -> int:
    """The level that property DELAY asks for; 0: none. ValueError: it is no whole number."""
    if b"DELAY\x01" not in properties:
        return 0
    value = property_value(properties, b"DELAY")
    if value is None:
        return 0
    text = value.decode("utf-8", "replace")
    if not _NUMBER.match(text) or not -(2**31) <= int(text) < 2**31:
        raise ValueError(f"the delay level {text[:40]!r} is no whole number")
    return max(0, int(text))


def as_stored(message: MessageFields) -> MessageFields:
    """A message as it goes into the log: itself, or the form in which it waits for its time.
    ValueError: its DELAY is no number, or the properties have no room for where it goes.
    """
    kind = message.sys_flag & SYS_FLAG_TRANSACTION_MASK
    if kind not in (0, SYS_FLAG_COMMIT) or not (level := asked_level(message.properties)):
        return message
    level = min(level, len(levels_in_force()))
    found = decode_properties(message.properties)
    for name in TIMER_REQUESTS:
        found.pop(name, None)
    found[DELAY] = str(level)
    found[REAL_TOPIC], found[REAL_QUEUE] = message.topic, str(message.queue_id)
    properties = stored_form(found)
    return replace(message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=properties)


def stored_form(properties: Mapping[str, str]) -> bytes:
    """The text of properties that were changed. ValueError: it is too long."""
    return _fitting(encode_properties(properties))


def with_more(text: bytes, more: bytes, names: Sequence[bytes]) -> bytes:
    """The text of properties with those of the text `more`, which win over others of their `names`.
    ValueError: it is too long, or what was there cannot be written.
    """
    if _WHOLE.match(text) and not any(map(text.__contains__, names)):
        return _fitting(text + more)
    return stored_form(decode_properties(text) | decode_properties(more))


def _fitting(text: bytes) -> bytes:
    if len(text) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"properties of {len(text)} bytes are larger than {PROPERTIES_BYTES_MAX}")
    return text


def delivered(waiting: StoredMessage) -> MessageFields:
    """What is delivered of a message that waited; all its properties stay. ValueError: it does not
    say where it goes.
    """
    fields = waiting.fields
    topic = property_value(fields.properties, REAL_TOPIC.encode())
    queue = property_value(fields.properties, REAL_QUEUE.encode())
    name = b"" if topic is None else topic
    if queue is None or not queue.isdigit() or len(queue) > 9:
        raise ValueError("it does not say to which queue it goes")
    goes_to = name.decode("utf-8", "surrogateescape")
    if (reason := name_refusal(goes_to)) is not None:
        raise ValueError(f"it does not say to which topic it goes: {reason}")
    if goes_to in (SCHEDULE_TOPIC, HALF_TOPIC):
        raise ValueError(f"nothing is delivered to {goes_to}")
    return replace(fields, topic=goes_to, queue_id=int(queue), prepared_transaction_offset=0)
