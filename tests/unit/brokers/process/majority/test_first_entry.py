"""The message in the entry that begins a term: whole where it lies, and in no queue."""

from __future__ import annotations

from brokers.clock import Clock
from brokers.majority.positions import physical_offset
from brokers.process.majority.first_entry import TOPIC, first_message
from brokers.store.log.records import decode_message, has_queue_entry


class At(Clock):
    def wall_ms(self) -> int:
        return 1_700_000_000_000


def test_it_is_a_message_of_the_announced_size_that_knows_its_place() -> None:
    first = first_message(At())
    body = first.build(4_096)
    assert len(body) == first.size and first.token is None
    message = decode_message(body)
    assert message.physical_offset == physical_offset(4_096) == 4_144
    assert (message.fields.topic, message.fields.body) == (TOPIC, b"")
    assert message.store_ms == message.fields.born_ms == 1_700_000_000_000


def test_no_queue_has_it_and_no_client_may_send_there() -> None:
    message = decode_message(first_message(At()).build(0))
    assert not has_queue_entry(message.fields.sys_flag)
    assert TOPIC.startswith("rmq_sys_")
