"""What was put, what was acknowledged, and what a consumer who reads everything gets of it.

Responsible for: every acknowledged message under one offset, once, unchanged; no offset given
twice; nothing sound hidden.
Refuses to know: files, roles, how a store answers so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from brokers.store.log.integrity import BadRecord
from brokers.store.log.records import decode_messages
from brokers.store.queues.query import GetResult, GetStatus
from brokers.store.store import MessageStore
from tests.simulation.world import InvariantBroken

PULLED_MAX = 32
Key = tuple[str, int]


class Message(NamedTuple):
    """One that a master stored: where, under which offset, when (ms), and its whole record."""

    start: int
    end: int
    key: Key
    slot: int
    store_ms: int
    data: bytes


@dataclass(slots=True)
class Ledger:
    """`acknowledged`: by queue and offset. `pending`: not acknowledged yet, in the order of the
    log. `given_up`: queues of which nothing is promised any more.
    """

    acknowledged: dict[Key, dict[int, Message]] = field(default_factory=dict)
    pending: list[Message] = field(default_factory=list)
    given_up: set[Key] = field(default_factory=set)

    def confirmed(self, up_to: int) -> int:
        """Messages up to there are acknowledged now; how many are new. InvariantBroken: an offset
        was given twice.
        """
        count = 0
        while count < len(self.pending) and self.pending[count].end <= up_to:
            message = self.pending[count]
            count += 1
            if message.key in self.given_up:
                continue
            known = self.acknowledged.setdefault(message.key, {}).setdefault(message.slot, message)
            if known is not message:
                raise InvariantBroken(
                    f"offset {message.slot} of {message.key} was given twice: at {known.start} "
                    f"and {message.start}"
                )
        del self.pending[:count]
        return count

    def cut(self, end: int, lasting: int, log_min: int) -> None:
        """The log of the set goes on at `end`; all that ends at or below `lasting` had to be kept.
        Where a queue loses messages that nobody had flushed, and those in front of `log_min` are
        deleted, nothing says where it goes on: it is given up.
        """
        self.pending = [one for one in self.pending if one.end <= end]
        for key, slots in self.acknowledged.items():
            gone = [message for message in slots.values() if message.end > end]
            for message in gone:
                if message.end <= lasting:
                    raise InvariantBroken(
                        f"acknowledged offset {message.slot} of {key} at {message.start} is lost: "
                        f"the log ends at {end}"
                    )
                del slots[message.slot]
            if gone and any(message.start < log_min for message in slots.values()):
                self.given_up.add(key)
        self._drop_given_up()

    def _drop_given_up(self) -> None:
        for key in self.given_up:
            self.acknowledged.pop(key, None)
        self.pending = [one for one in self.pending if one.key not in self.given_up]

    def kept(self, store: MessageStore) -> list[Message]:
        """Acknowledged messages that this log still holds, and that can be read by now."""
        return [
            one
            for slots in self.acknowledged.values()
            for one in slots.values()
            if one.start >= store.log_min and one.end <= store.dispatched_offset
        ]


class Reading(NamedTuple):
    """Offsets of one queue that were given, and those that were refused as damaged."""

    given: dict[int, bytes]
    refused: dict[int, BadRecord]


def read_queue(store: MessageStore, key: Key, from_slot: int) -> Reading:
    """As a consumer pulls a queue to its end; behind a refused offset it goes on by hand.
    InvariantBroken: it gets stuck.
    """
    reading, at = Reading({}, {}), from_slot
    while True:
        answer = store.query(*key, at, PULLED_MAX)
        status = answer.status
        if status in (
            GetStatus.OFFSET_OVERFLOW_ONE,
            GetStatus.NO_MESSAGE_IN_QUEUE,
            GetStatus.NO_MATCHED_LOGIC_QUEUE,
        ):
            return reading
        if status is GetStatus.OFFSET_OVERFLOW_BADLY:
            raise InvariantBroken(
                f"{key}: a consumer at {at} is told that the queue ends at {answer.max_offset}"
            )
        if status is GetStatus.RECORD_REFUSED:
            assert answer.refused is not None
            reading.refused[answer.next_offset] = answer.refused
            at = answer.next_offset + 1
            continue
        if status is GetStatus.FOUND:
            _take(reading, key, answer, at)
        if answer.next_offset <= at:
            raise InvariantBroken(
                f"{key}: a consumer at {at} is sent to {answer.next_offset} ({status.value})"
            )
        at = answer.next_offset


def _take(reading: Reading, key: Key, answer: GetResult, at: int) -> None:
    place = 0
    for message in decode_messages(answer.body):
        data = bytes(answer.body[place : place + message.size])
        place += message.size
        if message.queue_offset < at or message.queue_offset in reading.given:
            raise InvariantBroken(
                f"{key}: offset {message.queue_offset} comes again to a consumer at {at}"
            )
        reading.given[message.queue_offset] = data


def compare(
    ledger: Ledger, store: MessageStore, damaged: set[int], altered: set[int], who: str
) -> int:
    """Reads all queues; how many messages were read. `damaged`: starts of messages that may be
    refused here; `altered`: of those that may come with other properties, over which the format has
    no checksum. InvariantBroken.
    """
    by_queue: dict[Key, dict[int, Message]] = {}
    for one in ledger.kept(store):
        by_queue.setdefault(one.key, {})[one.slot] = one
    for key, expected in by_queue.items():
        reading = read_queue(store, key, min(expected))
        for slot, one in expected.items():
            data = reading.given.get(slot)
            if data is None and one.start in damaged:
                continue
            if data is None:
                how = "refused" if slot in reading.refused else "not there"
                raise InvariantBroken(
                    f"{who}: offset {slot} of {key} at {one.start} is {how}; bounds "
                    f"{store.queue_bounds(*key)}, log {store.log_min} to {store.log_end}, "
                    f"dispatched {store.dispatched_offset}"
                )
            if data != one.data and one.start not in altered:
                raise InvariantBroken(
                    f"{who}: offset {slot} of {key} at {one.start} is another message, or was "
                    "changed"
                )
    return sum(map(len, by_queue.values()))
