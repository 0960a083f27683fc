"""The message in the entry that begins a term.

RocketMQ's brokers read a message in every entry: behind one without, their dispatch skips all that
it has read of the log, and a start behind a kill ends there. A message of a transaction that was
rolled back is passed over everywhere: no queue has it, and no client sees it.

Responsible for: PROTOCOL 10.7. Refuses to know: when a term begins.
"""

from __future__ import annotations

from brokers.clock import Clock
from brokers.majority.positions import physical_offset
from brokers.majority.quorum.effects import NewEntry
from brokers.store.log.records import (
    SYS_FLAG_ROLLBACK,
    MessageFields,
    encode_message,
    host_bytes,
    message_size,
)

TOPIC = "rmq_sys_TERM_BEGIN"
"""RocketMQ's clients may not send to a topic with this prefix."""
_NOBODY = host_bytes("127.0.0.1", 0)


def first_message(clock: Clock) -> NewEntry:
    """To be written at the begin of each term, with the time and place of then."""
    size = message_size(_fields(0))

    def build(position: int) -> bytes:
        now_ms = clock.wall_ms()
        return encode_message(_fields(now_ms), size, 0, physical_offset(position), now_ms)

    return NewEntry(None, size, build)


def _fields(now_ms: int) -> MessageFields:
    return MessageFields(TOPIC, 0, b"", b"", now_ms, _NOBODY, _NOBODY, sys_flag=SYS_FLAG_ROLLBACK)
