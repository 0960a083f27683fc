"""The form in which a transactional message waits for its producer (PROTOCOL 4.7).

Refuses to know: the store, clocks, what becomes of it.
"""

from __future__ import annotations

from msgspec.structs import replace

from brokers.service.sending.delayed import HALF_TOPIC, REAL_QUEUE, REAL_TOPIC, stored_form
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import SYS_FLAG_TRANSACTION_MASK, MessageFields

QUEUE_ID = 0
"""Of the half topic, which has one."""
TRANSACTION_ID = "__transactionId__"


def as_half(message: MessageFields, unique_key: str | None) -> MessageFields:
    """A transactional message as it goes into the log. ValueError: its properties have no room for
    where it goes.
    """
    found = decode_properties(message.properties)
    if unique_key:
        found[TRANSACTION_ID] = unique_key
    found[REAL_TOPIC], found[REAL_QUEUE] = message.topic, str(message.queue_id)
    return replace(
        message,
        topic=HALF_TOPIC,
        queue_id=QUEUE_ID,
        properties=stored_form(found),
        sys_flag=message.sys_flag & ~SYS_FLAG_TRANSACTION_MASK,
    )
