"""Transactions in the log of a Java 5.3.3 master: ours writes what it wrote, byte for byte."""

from pathlib import Path

from msgspec.structs import replace

from brokers.service.sending.half import as_half
from brokers.service.transactions.forms import committed, decided_in, op_records
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import MessageFields, StoredMessage, decode_message

LOG = (Path(__file__).parent / "commitlog_first_8k").read_bytes()
HALF, ROLLED_BACK, FINAL, OP = 3430, 3844, 4260, 5863
BY_THE_BROKER = ("REAL_TOPIC", "REAL_QID", "__transactionId__")


def recorded(offset: int) -> StoredMessage:
    found = decode_message(LOG[offset:])
    assert found.physical_offset == offset
    return found


def as_set(message: MessageFields) -> MessageFields:
    """Java writes properties in the order of a hash table."""
    found = decode_properties(message.properties)
    return replace(message, properties=encode_properties(dict(sorted(found.items()))))


def test_a_half_is_stored_as_java_stored_it() -> None:
    half = recorded(HALF).fields
    properties = decode_properties(half.properties)
    topic, queue, key = (properties.pop(name) for name in BY_THE_BROKER)
    sent = replace(
        half, topic=topic, queue_id=int(queue), sys_flag=4, properties=encode_properties(properties)
    )
    assert as_set(as_half(sent, key)) == as_set(half)


def test_what_is_committed_is_what_java_committed() -> None:
    final, half = recorded(FINAL).fields, recorded(HALF).fields
    assert committed(half, HALF) == final


def test_the_record_of_decisions_is_javas() -> None:
    op = recorded(OP).fields
    assert list(decided_in(op)) == [recorded(HALF).queue_offset, recorded(ROLLED_BACK).queue_offset]
    (ours,) = op_records([0, 1], op.store_host, op.born_ms)
    assert replace(ours, born_host=op.born_host) == op
