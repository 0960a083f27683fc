"""Queue entries that do not lead to their messages, put right from the log.

Responsible for: where the message of a slot can lie, from the entries around it; what an entry has to be.
Refuses to know: who found out, threads, what is done where the message itself is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from brokers.log.commit_log import CommitLog
from brokers.log.consume_queue import ConsumeQueue, Entry, pack_entry
from brokers.log.consume_queues import ConsumeQueues
from brokers.log.integrity import LIGHT_QUEUE_PREFIX, RECORD_BYTES_MAX, Place, QueueCheck
from brokers.log.queue_entries import FILLER_SIZE
from brokers.log.records import Record, has_queue_entry
from brokers.log.scan import LogWalk
from brokers.log.scrub import next_record

# Entries looked at on either side of a wrong one for one that is right; without any, the whole log is looked through.
NEIGHBOURS_MAX = 16


class Looked(NamedTuple):
    """How far a piece of the log was looked through, the message if it was in it, the others before that, and whether all
    of them could be read."""

    end: int
    found: Record | None
    others: list[Record]
    sound: bool


class Between(NamedTuple):
    """The message of a slot begins in [first, last). `closed`: so its neighbours say, both of them, and not only where the
    log begins or what is confirmed ends."""

    first: int
    last: int
    closed: bool


def where_to_look(log: CommitLog, queue: ConsumeQueue, place: Place, confirm_offset: int) -> Between:
    """Behind the message before it in its queue, in front of the one after it. Nowhere where no message tells its slot."""
    if place.topic.startswith(LIGHT_QUEUE_PREFIX):
        return Between(0, 0, False)
    key = (place.topic.decode("utf-8", "surrogateescape"), place.queue_id or 0)
    before = range(place.slot - 1, max(place.slot - NEIGHBOURS_MAX, 0) - 1, -1)
    after = range(place.slot + 1, min(place.slot + NEIGHBOURS_MAX, queue.max_offset))
    low = next((entry for slot in before if (entry := sound_entry(log, queue, key, slot))), None)
    high = next((entry for slot in after if (entry := sound_entry(log, queue, key, slot))), None)
    first = log.min_offset if low is None else low.physical_offset + low.size
    last = confirm_offset if high is None else min(confirm_offset, high.physical_offset)
    return Between(first, last, low is not None and high is not None and first <= last)


def sound_entry(log: CommitLog, queue: ConsumeQueue, key: tuple[str, int], slot: int) -> Entry | None:
    """The entry of a slot when it leads to its message. `key`: topic and id of the queue."""
    entries = queue.read(slot, 1)
    if not entries or not 0 < entries[0].size <= RECORD_BYTES_MAX:
        return None
    physical, size, _ = entries[0]
    data = log.read(physical, size) if log.min_offset <= physical < log.end_offset else b""
    return entries[0] if data and not QueueCheck(*key).problem(memoryview(data), 0, slot, physical, size) else None


def last_dispatched(log: CommitLog, queues: ConsumeQueues) -> int:
    """Highest message that an entry leads to, -1 without. A damaged entry speaks of messages that never had one."""
    for key, queue in sorted(queues, key=lambda one: -one[1].last_physical):
        if queue.last_physical < 0 or sound_entry(log, queue, key, queue.max_offset - 1) is not None:
            return queue.last_physical
    return -1


def cut_queues(log: CommitLog, queues: ConsumeQueues, physical_offset: int) -> None:
    """Removes the entries of messages at or above `physical_offset`, where the log ends by now."""
    queues.truncate(physical_offset, lambda queue, key, slot: sound_entry(log, queue, key, slot) is not None)


def look(data: bytes, start: int, file_bytes: int, place: Place) -> Looked:
    """Whether the message of a slot is among `data`, bytes of one file from a record's start at `start`. Damaged records
    are passed over; `end` is `start` when not one record is whole."""
    topic, at, limit = place.topic.decode("utf-8", "surrogateescape"), start, start + len(data)
    others: list[Record] = []
    sound = True
    while at < limit:
        walk = LogWalk(lambda offset, count: data[offset - start : offset - start + count], at, limit, file_bytes, check_body=True)
        for record in walk:
            if (record.topic, record.queue_id, record.queue_offset) == (topic, place.queue_id, place.slot):
                return Looked(walk.end, record, others, sound)
            others.append(record)
        at = walk.end
        if not walk.reason or walk.incomplete:
            break
        sound = False
        following = next_record(data, start, at + 1)
        at = limit if following is None else following
    return Looked(at, None, others, sound)


def all_led_to(queues: ConsumeQueues, records: Sequence[Record]) -> bool:
    """Whether every one of them has its entry: then none is another message whose header is damaged."""
    for record in records:
        queue = queues.get(record.topic, record.queue_id)
        entries = [] if queue is None else queue.read(record.queue_offset, 1)
        if not entries or entries[0][:2] != (record.physical_offset, record.size) or not has_queue_entry(record.sys_flag):
            return False
    return True


def put_right(queue: ConsumeQueue, slot: int, record: Record | None) -> bool:
    """The entry leads to that message now, or to none that there is (None); False when it did before. OSError when the disk
    refuses."""
    right = Entry(0, FILLER_SIZE, 0) if record is None else Entry(record.physical_offset, record.size, record.tags_code)
    if queue.read(slot, 1) in ([], [right]):
        return False
    queue.overwrite(slot, pack_entry(*right))
    return True
