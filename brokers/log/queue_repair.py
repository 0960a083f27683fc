"""Queue entries that do not lead to their messages, put right from the log.

Responsible for: where the message of a slot can lie, from the entries around it; what an entry has to be.
Refuses to know: who found out, threads, what is done where the message itself is damaged.
"""

from __future__ import annotations

from typing import NamedTuple

from brokers.log.commit_log import CommitLog
from brokers.log.consume_queue import ConsumeQueue, Entry, pack_entry
from brokers.log.integrity import LIGHT_QUEUE_PREFIX, RECORD_BYTES_MAX, Place, QueueCheck
from brokers.log.records import Record
from brokers.log.scan import LogWalk
from brokers.log.scrub import next_record

# Entries looked at on either side of a wrong one for one that is right; without any, the whole log is looked through.
NEIGHBOURS_MAX = 16


class Looked(NamedTuple):
    """How far a piece of the log was looked through, and the message if it was in it."""

    end: int
    found: Record | None


def where_to_look(log: CommitLog, queue: ConsumeQueue, place: Place, confirm_offset: int) -> tuple[int, int]:
    """The message of a slot begins in [first, last): behind the one before it in its queue, in front of the one after it.
    An empty range where no message tells its slot."""
    if place.topic.startswith(LIGHT_QUEUE_PREFIX):
        return 0, 0
    check = QueueCheck(place.topic.decode("utf-8", "surrogateescape"), place.queue_id or 0)
    first, last = log.min_offset, confirm_offset
    for slot in range(place.slot - 1, max(place.slot - NEIGHBOURS_MAX, 0) - 1, -1):
        if (entry := _sound(log, queue, check, slot)) is not None:
            first = max(first, entry.physical_offset + entry.size)
            break
    for slot in range(place.slot + 1, min(place.slot + NEIGHBOURS_MAX, queue.max_offset)):
        if (entry := _sound(log, queue, check, slot)) is not None:
            last = min(last, entry.physical_offset)
            break
    return first, last


def _sound(log: CommitLog, queue: ConsumeQueue, check: QueueCheck, slot: int) -> Entry | None:
    """The entry of a slot when it leads to its message."""
    entries = queue.read(slot, 1)
    if not entries or not 0 < entries[0].size <= RECORD_BYTES_MAX:
        return None
    physical, size, _ = entries[0]
    data = memoryview(log.read(physical, size)) if log.min_offset <= physical < log.end_offset else memoryview(b"")
    return entries[0] if data and not check.problem(data, 0, slot, physical, size) else None


def look(data: bytes, start: int, file_bytes: int, place: Place) -> Looked:
    """Whether the message of a slot is among `data`, bytes of one file from a record's start at `start`. Damaged records
    are passed over; `end` is `start` when not one record is whole."""
    topic, at, limit = place.topic.decode("utf-8", "surrogateescape"), start, start + len(data)
    while at < limit:
        walk = LogWalk(lambda offset, count: data[offset - start : offset - start + count], at, limit, file_bytes, check_body=True)
        for record in walk:
            if (record.topic, record.queue_id, record.queue_offset) == (topic, place.queue_id, place.slot):
                return Looked(walk.end, record)
        at = walk.end
        if not walk.reason or walk.incomplete:
            break
        following = next_record(data, start, at + 1)
        if following is None:
            return Looked(limit, None)
        at = following
    return Looked(at, None)


def put_right(queue: ConsumeQueue, record: Record) -> bool:
    """The entry leads to that message now; False when it did before. OSError when the disk refuses."""
    right = Entry(record.physical_offset, record.size, record.tags_code)
    if queue.read(record.queue_offset, 1) in ([], [right]):
        return False
    queue.overwrite(record.queue_offset, pack_entry(*right))
    return True
