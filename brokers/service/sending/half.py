"""The form in which a transactional message waits for its producer (PROTOCOL 4.7).

Refuses to know: the store, clocks, what becomes of it.
"""

from __future__ import annotations

from msgspec.structs import replace

from brokers.service.sending.delayed import HALF_TOPIC, REAL_QUEUE, REAL_TOPIC, with_more
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import SYS_FLAG_TRANSACTION_MASK, MessageFields

QUEUE_ID = 0
"""Of the half topic, which has one."""
TRANSACTION_ID = "__transactionId__"
_NAMES = tuple(name.encode() for name in (TRANSACTION_ID, REAL_TOPIC, REAL_QUEUE))


def as_half(message: MessageFields, unique_key: str | None) -> MessageFields:
    """A transactional message as it goes into the log. ValueError: its properties have no room for
    where it goes.
    """
    goes = {REAL_TOPIC: message.topic, REAL_QUEUE: str(message.queue_id)}
    if unique_key:
        goes = {TRANSACTION_ID: unique_key} | goes
    properties = with_more(message.properties, encode_properties(goes), _NAMES)
    return replace(
        message,
        topic=HALF_TOPIC,
        queue_id=QUEUE_ID,
        properties=properties,
        sys_flag=message.sys_flag & ~SYS_FLAG_TRANSACTION_MASK,
    )
