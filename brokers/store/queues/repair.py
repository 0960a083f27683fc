"""Queue entries that do not lead to their messages, put right from the log.

Responsible for: where the message of a slot can lie, from the entries around it; what an entry has
to be.
Refuses to know: who found out, threads, what is done where the message itself is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from brokers.store.files.errors import is_unreadable
from brokers.store.log.integrity import (
    LIGHT_QUEUE_PREFIX,
    RECORD_BYTES_MAX,
    BadRecord,
    Place,
    QueueCheck,
    problem,
)
from brokers.store.log.message_log import MessageLog
from brokers.store.log.records import MAGIC_V1, MAGIC_V2, Record, has_queue_entry, size_and_magic
from brokers.store.log.scan import LogWalk
from brokers.store.log.scrub import next_record
from brokers.store.queues.consume_queue import ConsumeQueue
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.entries import FILLER_SIZE, Entry, pack_entry, stretch

# Entries looked at on either side of a wrong one for one that is right, those that are all alike
# counting as one; without any, the whole log is looked through.
NEIGHBOURS_MAX = 16
# Queues of a topic that are asked for the entry of one message.
QUEUES_ASKED_MAX = 1_024
# Looks at a queue for the entry of one message: some forty are enough where entries are sound.
LOOKS_MAX = 4_096
# Slots without a message that are put right at once.
NOBODYS_MAX = 8192


class Looked(NamedTuple):
    """How far a piece of the log was looked through, the message if it was in it, the others before
    that, and whether all of them could be read.
    """

    end: int
    found: Record | None
    others: list[Record]
    sound: bool


class Between(NamedTuple):
    """The message of a slot begins in [first, last), if there is one. `closed`: so a message behind
    it says, and not only where what is confirmed ends; and nothing in front of `first` can be it,
    for that is another's or deleted.
    """

    first: int
    last: int
    closed: bool


def where_to_look(
    log: MessageLog, queue: ConsumeQueue, place: Place, confirm_offset: int
) -> Between:
    """Behind the message before it in its queue, in front of the one after it. Nowhere when no
    message shows its slot.
    """
    if place.topic.startswith(LIGHT_QUEUE_PREFIX):
        return Between(0, 0, False)
    key = (place.topic.decode("utf-8", "surrogateescape"), place.queue_id or 0)
    low = next(
        (
            entry
            for slot in _beside(queue, place.slot, -1)
            if (entry := sound_entry(log, queue, key, slot))
        ),
        None,
    )
    high = next(
        (
            entry
            for slot in _beside(queue, place.slot, 1)
            if (entry := sound_entry(log, queue, key, slot))
        ),
        None,
    )
    first = log.min_offset if low is None else low.physical_offset + low.size
    last = confirm_offset if high is None else min(confirm_offset, high.physical_offset)
    return Between(first, last, high is not None and first <= last)


def _beside(queue: ConsumeQueue, slot: int, step: int) -> Iterator[int]:
    """Slots on one side of `slot`, the nearest first; of a row of entries that are all alike only
    the first one.
    """
    at = slot
    for _ in range(NEIGHBOURS_MAX):
        at += step * _alike(queue, at, step)
        if not queue.read(at, 1):
            return
        yield at


def _alike(queue: ConsumeQueue, slot: int, step: int) -> int:
    """How far from `slot` the first entry is that is another one: markers of a gap are found out by
    their ends.
    """
    entry, near, far = queue.read(slot, 1), 0, 1
    while queue.read(slot + step * far, 1) == entry:
        near, far = far, 2 * far
    while far - near > 1:
        middle = (near + far) // 2
        near, far = (
            (middle, far) if queue.read(slot + step * middle, 1) == entry else (near, middle)
        )
    return far


def sound_entry(
    log: MessageLog, queue: ConsumeQueue, key: tuple[str, int], slot: int
) -> Entry | None:
    """The entry of a slot when it leads to its message. `key`: topic and id of the queue."""
    entries = queue.read(slot, 1)
    if not entries or not 0 < entries[0].size <= RECORD_BYTES_MAX:
        return None
    physical, size, _ = entries[0]
    try:
        data = log.read(physical, size) if log.min_offset <= physical < log.end_offset else b""
    except OSError as error:
        if not is_unreadable(error):
            raise
        return None
    return (
        entries[0]
        if data and not QueueCheck(*key).problem(memoryview(data), 0, slot, physical, size)
        else None
    )


def last_dispatched(log: MessageLog, queues: ConsumeQueues) -> int:
    """Highest message that an entry leads to, -1 without. A damaged entry speaks of messages that
    never had one.
    """
    for key, queue in sorted(queues, key=lambda one: -one[1].last_physical):
        if (
            queue.last_physical < 0
            or sound_entry(log, queue, key, queue.max_offset - 1) is not None
        ):
            return queue.last_physical
    return -1


class Misplaced:
    """Messages that a start reads once more, and whose headers ask for another place than the
    entries say that they have: then the header is damaged, for entries are made once and in order.
    """

    def __init__(self, log: MessageLog, queues: ConsumeQueues) -> None:
        self._log, self._queues = log, queues
        self._of_topic: dict[str, list[tuple[str, int]]] = {}

    def look(self, key: tuple[str, int], slot: int, physical: int, size: int) -> BadRecord | None:
        """None where nothing speaks against `slot`, which is at or behind the end of that queue."""
        queue = self._queues.get(*key)
        if queue is not None and physical > queue.last_physical and slot == queue.max_offset:
            return None
        for at in self._others(key) if queue is None else (key, *self._others(key)):
            there = self._slot(at, physical, size)
            if there is not None:
                return _asks_elsewhere(at, there, physical, size, proven=True)
        if queue is not None and _is_behind(self._log, queue, key, physical):
            return _asks_elsewhere(key, slot, physical, size, proven=False)
        return None

    def _others(self, key: tuple[str, int]) -> list[tuple[str, int]]:
        """Other queues of the topic; none where they are too many to be asked."""
        if not self._of_topic:
            for one, _ in self._queues:
                self._of_topic.setdefault(one[0], []).append(one)
        found = self._of_topic.get(key[0], [])
        return [one for one in found if one != key] if len(found) <= QUEUES_ASKED_MAX else []

    def _slot(self, key: tuple[str, int], physical: int, size: int) -> int | None:
        """The slot whose entry leads to that message. Entries that lead to no record's start are
        seen through: one of them would turn the search the wrong way.
        """
        queue = self._queues.get(*key)
        if queue is None or queue.last_physical < physical:
            return None
        ranges = [(queue.min_offset(self._log.min_offset), queue.max_offset)]
        for _ in range(LOOKS_MAX):
            if not ranges:
                return None
            low, high = ranges.pop()
            if low >= high:
                continue
            middle = (low + high) // 2
            ahead = min(middle + NEIGHBOURS_MAX, high)
            for slot, entry in enumerate(stretch(queue.read, middle, ahead), middle):
                if self._leads(entry):
                    if entry[:2] == (physical, size):
                        return slot
                    is_left = entry.physical_offset >= physical
                    ranges.append((low, middle) if is_left else (slot + 1, high))
                    break
            else:  # Nothing here says on which side it is.
                ranges += [(ahead, high), (low, middle)]
        return None

    def _leads(self, entry: Entry) -> bool:
        """Whether a record begins where it leads. The marker of a gap, which has no size, leads to
        the message in front of the gap.
        """
        physical, size, _ = entry
        if not 0 <= size <= RECORD_BYTES_MAX or physical < self._log.min_offset:
            return False
        try:
            head = self._log.read(physical, 8)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return False
        if len(head) < 8:
            return False
        found, magic = size_and_magic(head, 0)
        return size == found or (size == 0 < physical and magic in (MAGIC_V1, MAGIC_V2))


def _asks_elsewhere(
    key: tuple[str, int], slot: int, physical: int, size: int, *, proven: bool
) -> BadRecord:
    place = Place(physical, size, key[0].encode("utf-8", "surrogateescape"), key[1], slot)
    return BadRecord(place, "it asks for another place in its queue than it has", proven)


def _is_behind(log: MessageLog, queue: ConsumeQueue, key: tuple[str, int], physical: int) -> bool:
    """Whether the newest sound entry is that of a later message."""
    last = range(queue.max_offset - 1, queue.max_offset - 1 - NEIGHBOURS_MAX, -1)
    newest = next((entry for slot in last if (entry := sound_entry(log, queue, key, slot))), None)
    return newest is not None and newest.physical_offset > physical


def cut_queues(log: MessageLog, queues: ConsumeQueues, physical_offset: int) -> None:
    """Removes the entries of messages at or above `physical_offset`, where the log ends by now."""
    queues.truncate(
        physical_offset, lambda queue, key, slot: sound_entry(log, queue, key, slot) is not None
    )


def look(data: bytes, start: int, file_bytes: int, place: Place, *, whole: bool = False) -> Looked:
    """Whether the message of a slot is among `data`, bytes of one file from a record's start at
    `start`. Damaged records are passed over; `end` is `start` when not one record is whole.
    `whole`: a record ends where `data` does, so that one that says it goes on is damaged.
    """
    topic, at, limit = place.topic.decode("utf-8", "surrogateescape"), start, start + len(data)
    others: list[Record] = []
    sound = True
    while at < limit:
        walk = LogWalk(
            lambda offset, count: data[offset - start : offset - start + count],
            at,
            limit,
            file_bytes,
            check_body=True,
        )
        for record in walk:
            if (record.topic, record.queue_id, record.queue_offset) == (
                topic,
                place.queue_id,
                place.slot,
            ):
                return Looked(walk.end, record, others, sound)
            others.append(record)
        at = walk.end
        if not walk.reason or (walk.incomplete and not whole):
            break
        sound = False
        following = next_record(data, start, at + 1)
        at = limit if following is None else following
    return Looked(at, None, others, sound)


def all_led_to(queues: ConsumeQueues, records: Sequence[Record]) -> bool:
    """Whether every one of them has its entry: then none is another message whose header is
    damaged.
    """
    for record in records:
        queue = queues.get(record.topic, record.queue_id)
        entries = [] if queue is None else queue.read(record.queue_offset, 1)
        if (
            not entries
            or entries[0][:2] != (record.physical_offset, record.size)
            or not has_queue_entry(record.sys_flag)
        ):
            return False
    return True


def enter(
    queues: ConsumeQueues, record: Record, waiting_from: int | None, misplaced: Misplaced
) -> bool:
    """A message that was damaged when its queue was made gets its entry, unless its slot is
    another's or it has one elsewhere. `waiting_from`: the first slot that a message may have which
    waits for its entry; None: none waits. OSError, LogError.
    """
    key, slot = (record.topic, record.queue_id), record.queue_offset
    there = queues.get(*key)
    if there is None or slot >= there.max_offset:
        if misplaced.look(key, slot, record.physical_offset, record.size) is not None:
            return False
    queue = queues.get_or_create(*key) if has_queue_entry(record.sys_flag) else None
    if queue is None or (waiting_from is not None and slot >= max(waiting_from, queue.max_offset)):
        return False
    return queue.enter(
        slot,
        pack_entry(record.physical_offset, record.size, record.tags_code),
        record.physical_offset,
    )


def leads_to_a_message(log: MessageLog, place: Place) -> bool:
    """Whether a whole message of just that size begins there, whatever queue and slot its header
    names. OSError.
    """
    if not 0 < place.size <= RECORD_BYTES_MAX or place.offset < log.min_offset:
        return False
    return not problem(log.read(place.offset, place.size), Place(place.offset, place.size))


def put_right(queue: ConsumeQueue, slot: int, record: Record | None) -> bool:
    """The entry leads to that message now, or to none that there is (None); False when it did
    before. OSError when the disk refuses. Behind a slot without a message those of the same gap are
    put right, too.
    """
    right = (
        Entry(0, FILLER_SIZE, 0)
        if record is None
        else Entry(record.physical_offset, record.size, record.tags_code)
    )
    wrong = queue.read(slot, 1)
    if wrong in ([], [right]):
        return False
    count = 1
    # the search for this one was one for those like it
    if record is None and wrong[0].size <= 0:
        while count < NOBODYS_MAX and queue.read(slot + count, 1) == wrong:
            count += 1
    queue.overwrite(slot, pack_entry(*right) * count)
    return True
