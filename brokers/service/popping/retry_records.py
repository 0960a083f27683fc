"""Copies for another try: as they are put into a retry topic, and as a pop hands them out
(PROTOCOL 4.9).

Responsible for: what of a message changes on both ways. Refuses to know: the store, who tries.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from brokers.service.popping.handles import Handle
from brokers.service.sending.delayed import stored_form
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import MessageFields, StoredMessage, encode_message, message_size

FIRST_POP_PROPERTY = "1ST_POP_TIME"
HANDLE_PROPERTY = "POP_CK"


def another_try(message: StoredMessage, topic: str, pop_ms: int, own_host: bytes) -> MessageFields:
    """The copy for a retry topic of a message that was popped at `pop_ms` and not acknowledged.
    Where its properties have no room for that time, it is left out.
    """
    fields = message.fields
    text, properties = fields.properties, decode_properties(fields.properties)
    if not fields.reconsume_times or FIRST_POP_PROPERTY not in properties:
        with suppress(ValueError):
            text = stored_form(properties | {FIRST_POP_PROPERTY: str(pop_ms)})
    return replace(
        fields,
        topic=topic,
        queue_id=0,
        properties=text,
        born_host=own_host,
        store_host=own_host,
        reconsume_times=fields.reconsume_times + 1,
        prepared_transaction_offset=0,
    )


def as_popped(record: StoredMessage, topic: str, handle: Handle) -> bytes:
    """A copy of a retry topic as clients want it: of the topic that they asked for, with the handle
    in it. Offsets, times and the body stay. One whose properties have no room for the handle comes
    without it: such a copy comes again, but holds up nothing behind it.
    """
    fields = record.fields
    text, properties = fields.properties, decode_properties(fields.properties)
    if HANDLE_PROPERTY not in properties:
        with suppress(ValueError):
            text = stored_form(properties | {HANDLE_PROPERTY: handle.text()})
    changed = replace(fields, topic=topic, properties=text)
    return encode_message(
        changed,
        message_size(changed),
        record.queue_offset,
        record.physical_offset,
        record.store_ms,
        record.body_crc,
    )
