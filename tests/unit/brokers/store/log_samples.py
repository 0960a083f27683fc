"""Messages, stores and recorded files for the tests of brokers.store."""

from __future__ import annotations

from pathlib import Path

from brokers.store.log.properties import encode_properties
from brokers.store.log.records import (
    MessageFields,
    decode_messages,
    encode_message,
    host_bytes,
    message_size,
)
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.entries import ENTRY_BYTES, pack_entry
from brokers.store.store import MessageStore, StoreConfig

GOLDEN = Path(__file__).parents[3] / "golden" / "store"
BORN = host_bytes("10.0.0.1", 1234)
STORED_AT = host_bytes("10.0.0.2", 10911)
SMALL = StoreConfig(log_file_bytes=4096, queue_file_bytes=200)
NOW_MS = 1_700_000_000_000
QUEUE_FILE = 10 * ENTRY_BYTES


def message(
    topic: str = "T", queue_id: int = 0, body: bytes = b"body", tag: str = "", **others: object
) -> MessageFields:
    properties = encode_properties({"TAGS": tag}) if tag else b""
    return MessageFields(topic, queue_id, body, properties, NOW_MS - 5, BORN, STORED_AT, **others)  # type: ignore[arg-type]


def sized(total: int, queue_id: int = 0) -> MessageFields:
    """A message whose record has exactly `total` bytes."""
    return message(queue_id=queue_id, body=b"z" * (total - message_size(message(body=b""))))


def encoded(fields: MessageFields, slot: int = 0, at: int = 0, store_ms: int = NOW_MS) -> bytes:
    return encode_message(fields, message_size(fields), slot, at, store_ms)


def small_store(root: Path, **others: bool) -> MessageStore:
    return MessageStore(root, SMALL, **others)


def log_bytes(store: MessageStore) -> bytes:
    """The whole log."""
    parts, at = [], store.log_min
    while at < store.log_end:
        parts.append(store.read_log(at, 1 << 20))
        at += len(parts[-1])
    return b"".join(parts)


def bodies(store: MessageStore, queue_id: int = 0, topic: str = "T") -> list[bytes]:
    """Bodies of a queue from its first message on, as a consumer would read them."""
    found: list[bytes] = []
    offset, end = store.queue_bounds(topic, queue_id)
    while offset < end:
        answer = store.query(topic, queue_id, offset, 32)
        found += [read.fields.body for read in decode_messages(answer.body)]
        assert answer.next_offset > offset
        offset = answer.next_offset
    return found


def open_queues(root: Path, open_files_max: int = 16) -> ConsumeQueues:
    """With ten entries a file."""
    return ConsumeQueues(root, QUEUE_FILE, open_files_max)


def fill(queues: ConsumeQueues, slots: range, queue_id: int = 0, step: int = 100) -> None:
    queue = queues.get_or_create("T", queue_id)
    assert queue is not None
    for slot in slots:
        queue.append(slot, pack_entry(slot * step, step, 0), slot * step)
