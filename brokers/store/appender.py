"""Appending as master: places and queue offsets of new messages.

Responsible for: groups that stay within one file (PROTOCOL 3.10), with as few writes as possible.
Refuses to know: who acknowledges, recovery, reading, where queues go on (queue_offsets.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from brokers.store.files.errors import DiskFull
from brokers.store.log.commit_log import CommitLog
from brokers.store.log.properties import tags_code
from brokers.store.log.records import (
    BLANK_BYTES_MIN,
    MessageFields,
    Record,
    RecordError,
    encode_parts,
    has_queue_entry,
    message_size,
    offset_message_id,
)
from brokers.store.queue_offsets import QueueOffsets
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher


class PutResult(NamedTuple):
    """Where a message, or the first of a batch, went. `msg_id`: offset message ids, comma-joined
    for a batch.
    """

    physical_offset: int
    end_offset: int
    queue_offset: int
    msg_id: str


class Appender(QueueOffsets):
    """Into a log of records."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        floors: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        super().__init__(log, queues, dispatcher, floors)
        self._log = log

    def put_many(
        self, groups: Sequence[Sequence[MessageFields]], now_ms: int
    ) -> list[PutResult | RecordError]:
        """Appends groups of messages with as few writes as possible; each group stays within one
        file.

        A group that cannot be stored gets its RecordError and leaves the others alone. DiskFull:
        none is stored. Another LogError: the log failed; what was written before counts as not
        acknowledged.
        """
        if not self._slots_known:
            self.rebuild_queue_offsets()
        start = self._log.end_offset
        try:
            return self._put_groups(groups, now_ms)
        except DiskFull:
            self.forget_queue_offsets()
            if self._log.end_offset > start:  # files of this call that still found room
                self._log.truncate(start)
            raise

    def _put_groups(
        self, groups: Sequence[Sequence[MessageFields]], now_ms: int
    ) -> list[PutResult | RecordError]:
        log, file_bytes = self._log, self._log.file_bytes
        start = chunk_start = at = log.end_offset
        chunk: list[bytes | memoryview] = []
        records: list[Record] = []
        results: list[PutResult | RecordError] = []
        for group in groups:
            try:
                sizes = [message_size(message) for message in group]
                needed = sum(sizes) + BLANK_BYTES_MIN
                if not sizes or needed > file_bytes:
                    raise RecordError(
                        f"{len(sizes)} messages of {needed} bytes do not fit a file of {file_bytes}"
                    )
                if needed > file_bytes - at % file_bytes:
                    if chunk:
                        log.write(chunk_start, b"".join(chunk))
                        chunk = []
                    at = chunk_start = log.reserve(needed - BLANK_BYTES_MIN)
                encode = self._encode_one if len(sizes) == 1 else self._encode_group
                result = encode(group, sizes, at, now_ms, chunk, records)
                results.append(result)
                at = result.end_offset
            except RecordError as error:
                results.append(error)
        if chunk:
            log.write(chunk_start, b"".join(chunk))
        self._dispatcher.appended(start, log.end_offset, records)
        return results

    def _encode_group(
        self,
        group: Sequence[MessageFields],
        sizes: list[int],
        at: int,
        now_ms: int,
        chunk: list[bytes | memoryview],
        records: list[Record],
    ) -> PutResult:
        """Adds the bytes and records of a group that begins at `at`; nothing is added when one of
        it is refused.
        """
        next_slots, first = self._next_slots, at
        taken: dict[tuple[str, int], int] = {}
        encoded: list[bytes | memoryview] = []
        made: list[Record] = []
        ids: list[str] = []
        for message, size in zip(group, sizes, strict=True):
            topic, queue_id, flags = message.topic, message.queue_id, message.sys_flag
            slot = 0
            if has_queue_entry(flags):
                key = (topic, queue_id)
                known = taken.get(key)
                slot = self._next_slot(key) if known is None else known
                taken[key] = slot + 1
            encoded += encode_parts(message, size, slot, at, now_ms)
            code = tags_code(message.properties, topic, now_ms)
            made.append(
                Record(at, size, topic, queue_id, slot, code, now_ms, flags, message.properties)
            )
            ids.append(offset_message_id(message.store_host, at))
            at += size
        next_slots.update(taken)
        chunk += encoded
        records += made
        return PutResult(first, at, made[0].queue_offset, ",".join(ids))

    def _encode_one(
        self,
        group: Sequence[MessageFields],
        sizes: list[int],
        at: int,
        now_ms: int,
        chunk: list[bytes | memoryview],
        records: list[Record],
    ) -> PutResult:
        """`_encode_group` for a group of one: what nearly every send is."""
        message, size, slot, next_slots = group[0], sizes[0], 0, self._next_slots
        topic, queue_id, flags, properties = (
            message.topic,
            message.queue_id,
            message.sys_flag,
            message.properties,
        )
        shown = has_queue_entry(flags)
        if shown:
            key = (topic, queue_id)
            known = next_slots.get(key)
            slot = self._next_slot(key) if known is None else known
        chunk += encode_parts(message, size, slot, at, now_ms)
        if shown:
            next_slots[key] = slot + 1
        records.append(
            Record(
                at,
                size,
                topic,
                queue_id,
                slot,
                tags_code(properties, topic, now_ms),
                now_ms,
                flags,
                properties,
            )
        )
        return PutResult(at, at + size, slot, offset_message_id(message.store_host, at))
