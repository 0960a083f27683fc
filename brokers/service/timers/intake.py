"""From the timer topic into the wheel (PROTOCOL 4.18).

Responsible for: each message of the topic once, in its order: into its slot, or delivered at once
where its slot is over, or passed where a master before saw to it. Refuses to know: who leads, when
a slot is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from brokers.service.sending.timed import (
    NEVER_ENQUEUED,
    TIMER_TOPIC,
    TimerRules,
    Waiting,
    delivered,
    waiting_of,
)
from brokers.service.timers.deliveries import Deliveries
from brokers.service.timers.formats import Unit
from brokers.service.timers.progress import Progress
from brokers.service.timers.slot_reader import records_of
from brokers.service.timers.time_rules import Target, target_of
from brokers.service.timers.timer_files import Entry, TimerFiles
from brokers.service.timers.waiting_counts import WaitingCounts
from brokers.store.log.checked_records import property_text, size_and_places
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import topic_hash
from brokers.store.log.records import MessageFields, StoredMessage, decode_message
from brokers.store.queues.query import MESSAGES_MAX, GetStatus
from brokers.store.store import MessageStore

QUEUE = "queue"


class WheelNow(NamedTuple):
    """Of one mastership, or of a slave (`until`: it goes no further than its master). `reading_ms`:
    the slot that is being read.
    """

    files: TimerFiles
    progress: Progress
    write_ms: int
    counts: WaitingCounts | None = None
    reading_ms: int | None = None
    until: int | None = None


class _Aim(NamedTuple):
    """Where a message goes, as it says and as the wheel has it at the time of one slice."""

    goes: Waiting
    slot_ms: int
    target: Target
    topic_hash: int


class Intake:
    """`now_ms()`: the wheel's time."""

    def __init__(
        self,
        store: MessageStore,
        rules: TimerRules,
        deliveries: Deliveries,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._rules = rules
        self._deliveries = deliveries
        self._now_ms = now_ms
        self.enqueued = 0
        """Messages taken in since the start of the process."""

    @property
    def waits(self) -> bool:
        """The next message is damaged."""
        return self._deliveries.waits(QUEUE)

    def high(self) -> int:
        """The end of the topic's queue."""
        return self._store.queue_bounds(TIMER_TOPIC, 0)[1]

    def queue_offset_of(self, unit: Unit) -> int | None:
        """See `timer_files.QueueOffsetOf`."""
        if unit.offset < self._store.log_min:
            return -1
        (record,) = records_of(self._store.log, (unit,), self._store.log_end)
        return record.queue_offset if isinstance(record, StoredMessage) else None

    def within_queue(self, files: TimerFiles) -> None:
        """A log that was cut, or lost its oldest part, has another queue. OSError."""
        low, high = self._store.queue_bounds(TIMER_TOPIC, 0)
        if files.next_offset > high:
            # what is in the wheel may be in the log and not in its queue yet
            behind = files.check_tail(self.queue_offset_of) or 0
            files.next_offset = min(files.next_offset, max(behind, high))
        files.next_offset = max(files.next_offset, low)

    def take(self, wheel: WheelNow) -> bool:
        """The next messages of the topic; whether there may be more. NotPut, OSError."""
        files = wheel.files
        at, high = files.next_offset, self.high()
        most = MESSAGES_MAX if wheel.until is None else min(MESSAGES_MAX, wheel.until - at)
        if at >= high or most <= 0:
            return False
        found = self._store.query(TIMER_TOPIC, 0, at, most)
        if found.status is not GetStatus.FOUND:
            return self._without(files, found.next_offset, found.refused)
        self._deliveries.sound(QUEUE)
        # a run of one kind, so that all of it is done, or nothing
        entries: list[Entry] = []
        copies: list[MessageFields] = []
        end_offset, behind, begin, aim = 0, at, 0, None
        while begin < len(found.body):
            placed = size, queue_offset, physical_offset = size_and_places(found.body, begin)
            aim = self._aim(found.body, begin, placed, wheel, aim)
            goes = None if aim is None else self._place_of(found.body, begin, placed, wheel, aim)
            if (isinstance(goes, Entry) and copies) or (
                isinstance(goes, MessageFields) and entries
            ):
                break
            if isinstance(goes, Entry):
                entries.append(goes)
            elif goes is not None:
                copies.append(goes)
            end_offset, behind = physical_offset + size, queue_offset + 1
            begin += size
        else:
            behind = found.next_offset
        self._into_slots(wheel, entries)
        end_offset = max(end_offset, self._deliveries.put(copies))
        self.enqueued += len(entries) + len(copies)
        files.next_offset = behind
        wheel.progress.enqueued(at, end_offset)
        return True

    def _aim(
        self, data: bytes, at: int, placed: tuple[int, int, int], wheel: WheelNow, last: _Aim | None
    ) -> _Aim | None:
        """Of the message at `at`, which the query checked; None: it does not say. `last`: of the
        one before it, which often says the same.
        """
        try:
            goes = waiting_of(property_text(data, at, at + placed[0]))
        except ValueError as error:
            self._deliveries.park(str(error), placed[1])
            return None
        if last is not None and goes is last.goes:
            return last
        slot_ms = self._rules.floor(goes.slot_ms)
        target = target_of(slot_ms, wheel.write_ms, self._rules, follows=wheel.until is not None)
        name = topic_hash if wheel.counts is None else wheel.counts.name
        return _Aim(goes, slot_ms, target, name(goes.topic))

    def _place_of(
        self, data: bytes, at: int, placed: tuple[int, int, int], wheel: WheelNow, aim: _Aim
    ) -> Entry | MessageFields | None:
        """What goes into the wheel of the message at `at`; a copy, where the slot was read already;
        None: nothing is to be done.
        """
        progress = wheel.progress
        size, queue_offset, physical_offset = placed
        goes, slot_ms, target, name_hash = aim
        if progress.was_delivered(queue_offset, slot_ms):
            return None
        if wheel.until is None and (slot_ms < progress.read_ms or slot_ms == wheel.reading_ms):
            return self._late(decode_message(data, at, check_body=False).fields, goes)
        deletes = goes.deletes is not None
        return Entry(target, wheel.write_ms, physical_offset, size, name_hash, deletes)

    def _late(self, fields: MessageFields, goes: Waiting) -> MessageFields | None:
        """Its slot is over. A recall that comes too late does nothing."""
        if goes.deletes is not None:
            return None
        return delivered(fields, goes, NEVER_ENQUEUED, self._now_ms())

    def _into_slots(self, wheel: WheelNow, entries: list[Entry]) -> None:
        if not entries:
            return
        wheel.files.put(entries)
        if wheel.counts is not None:
            for entry in entries:
                if not entry.deletes:
                    wheel.counts.came(entry.target.slot_ms, entry.topic_hash)

    def _without(self, files: TimerFiles, next_offset: int, bad: BadRecord | None) -> bool:
        """Nothing can be read at the place of the queue; whether it moved on."""
        if bad is not None:
            if not self._deliveries.gives_up(bad, QUEUE):
                return False
            next_offset = files.next_offset + 1
        moved = next_offset != files.next_offset
        files.next_offset = next_offset
        return moved
