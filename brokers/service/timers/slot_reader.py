"""One slot of the wheel, read from its oldest message on (PROTOCOL 4.18).

Responsible for: which messages are in it, which of them were recalled, which come for the second
time; what is put into the log for each. Refuses to know: when a slot is due, how messages get into
the log, what becomes of damaged ones.

Of a slot only places are in memory, 8 bytes for each message of the one that is being read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from brokers.service.sending.timed import (
    TIMER_TOPIC,
    TimerRules,
    Waiting,
    delivered,
    identity_of,
    rolled,
    waiting_of,
    was_rolled,
)
from brokers.service.timers.formats import Slot, Unit
from brokers.service.timers.time_rules import may_have_rolled
from brokers.service.timers.timer_log import TimerLog
from brokers.store.log.integrity import RECORD_BYTES_MAX, BadRecord, Place, problem
from brokers.store.log.message_log import MessageLog
from brokers.store.log.records import MessageFields, RecordError, StoredMessage, decode_message

# Units looked at in one step.
STEP_UNITS = 2_000
# Messages put into the log together.
CHUNK = 64
# Neighbours are fetched with one read as long as they lie within this many bytes.
READ_SPAN_BYTES = 262_144

Found = StoredMessage | BadRecord | None


def records_of(log: MessageLog, units: Sequence[Unit], readable_end: int) -> list[Found]:
    """The records of some units; None: the log has none there, or another one."""
    found: list[Found] = []
    data, begin = b"", 0
    for number, unit in enumerate(units):
        if unit.size > RECORD_BYTES_MAX or unit.offset + unit.size > readable_end:
            found.append(None)
            continue
        if not begin <= unit.offset or unit.offset + unit.size > begin + len(data):
            begin, end = unit.offset, unit.offset + unit.size
            for later in units[number + 1 :]:
                if (
                    not end
                    <= later.offset
                    <= later.offset + later.size
                    <= min(begin + READ_SPAN_BYTES, readable_end)
                ):
                    break
                end = later.offset + later.size
            try:
                data = log.read(begin, end - begin)
            except OSError as error:
                place = Place(unit.offset, unit.size)
                found.append(BadRecord(place, f"it cannot be read: {error.strerror or error}"))
                data = b""
                continue
        found.append(_record(data, unit.offset - begin, unit))
    return found


def _record(data: bytes, at: int, unit: Unit) -> Found:
    place = Place(unit.offset, unit.size)
    if at + unit.size > len(data):
        return None
    if data[at : at + 4] != unit.size.to_bytes(4, "big") or (
        data[at + 28 : at + 36] != unit.offset.to_bytes(8, "big")
    ):
        return None
    try:
        message = decode_message(data, at)
    except RecordError:
        reason = problem(data[at : at + unit.size], place)
        return BadRecord(place, reason or "it is no message")
    return message if message.fields.topic == TIMER_TOPIC else None


class Chunk(NamedTuple):
    """The next messages of a slot. `copies`: what is put into the log for them; `topics`: the hash
    of each unit that leaves; `recalled`, `repeated`, `gone`: those that nothing is put for;
    `refused`: why some are not delivered; `bad`: the first of the rest is damaged.
    """

    units: int
    copies: list[MessageFields]
    topics: list[int]
    seen: list[bytes]
    recalled: int
    repeated: int
    gone: int
    rolled: int
    refused: list[str]
    bad: BadRecord | None


class SlotReader:
    """Messages of `slot`, in the order in which they came, but those that masters before delivered
    (`was_delivered`: by queue offset and slot).
    """

    def __init__(
        self,
        slot: Slot,
        timer_log: TimerLog,
        log: MessageLog,
        rules: TimerRules,
        was_delivered: Callable[[int, int], bool],
    ) -> None:
        self.slot_ms = slot.time_ms
        self._was_delivered = was_delivered
        self._timer_log = timer_log
        self._log = log
        self._rules = rules
        self._walk: Iterator[tuple[int, Unit]] | None = timer_log.back(slot.last, slot.time_ms)
        self._places = array("q")
        self._recalls: list[int] = []
        self._recalled: set[bytes] = set()
        self._seen: set[bytes] = set()
        self._next = 0

    def prepare(self, readable_end: int) -> bool:
        """Some of the search for what is in it; False: it is over, `chunk` has them."""
        if self._walk is not None:
            for _ in range(STEP_UNITS):
                step = next(self._walk, None)
                if step is None:
                    self._walk = None
                    self._places.reverse()
                    break
                if step[1].recalls:
                    self._recalls.append(step[0])
                else:
                    self._places.append(step[0])
            return True
        if self._recalls:
            places = sorted(self._recalls[-CHUNK:])
            for message in self._records(places, readable_end)[1]:
                if isinstance(message, StoredMessage):
                    self._take_recall(message)
            del self._recalls[-CHUNK:]
            return True
        return False

    def _take_recall(self, message: StoredMessage) -> None:
        try:
            deletes = waiting_of(message.fields.properties).deletes
        except ValueError:
            return
        if deletes is not None:
            self._recalled.add(deletes)

    def _records(self, places: Sequence[int], end: int) -> tuple[list[Unit], list[Found]]:
        units = [unit for unit in self._timer_log.units(places) if unit is not None]
        return units, records_of(self._log, units, end)

    @property
    def is_over(self) -> bool:
        """Every message was taken (`done`)."""
        return self._walk is None and not self._recalls and self._next >= len(self._places)

    def chunk(self, readable_end: int, now_ms: int) -> Chunk:
        """The next messages; `done` when they are in the log."""
        places = self._places[self._next : self._next + CHUNK]
        units = self._timer_log.units(places)
        known = [unit for unit in units if unit is not None]
        made = _Making(self, now_ms, len(places) - len(known))
        for unit, record in zip(known, records_of(self._log, known, readable_end), strict=True):
            if isinstance(record, BadRecord):
                made.bad = record
                break
            made.units += 1
            made.topics.append(unit.topic_hash)
            if record is None:
                made.gone += 1
            else:
                made.take(unit, record)
        return made.chunk()

    def done(self, chunk: Chunk) -> None:
        """They are dealt with."""
        self._next += chunk.units
        self._seen.update(chunk.seen)

    def pass_over(self) -> None:
        """The next message is given up."""
        self._next += 1

    def is_recalled(self, identity: bytes | None) -> bool:
        return identity in self._recalled

    def is_repeat(self, identity: bytes) -> bool:
        return identity in self._seen

    def is_candidate(self, message: StoredMessage) -> bool:
        """Whether it may be here twice, rolled and not."""
        return was_rolled(message.fields.properties) or may_have_rolled(
            self.slot_ms, message.store_ms, self._rules
        )

    @property
    def recalls_some(self) -> bool:
        return bool(self._recalled)

    def is_done(self, message: StoredMessage) -> bool:
        """A master before delivered it, or put it into the topic again."""
        return self._was_delivered(message.queue_offset, self.slot_ms)

    def is_of_slot(self, unit: Unit, out_ms: int) -> bool:
        return unit.rolls or self._rules.floor(out_ms) == self.slot_ms


class _Making:
    """What becomes of the messages of one chunk."""

    def __init__(self, slot: SlotReader, now_ms: int, lost: int) -> None:
        self._slot = slot
        self._now_ms = now_ms
        self.units = self.gone = lost
        self.copies: list[MessageFields] = []
        self.topics: list[int] = []
        self.bad: BadRecord | None = None
        self._seen: list[bytes] = []
        self._refused: list[str] = []
        self._recalled = self._repeated = self._rolled = 0

    def chunk(self) -> Chunk:
        return Chunk(
            self.units,
            self.copies,
            self.topics,
            self._seen,
            self._recalled,
            self._repeated,
            self.gone,
            self._rolled,
            self._refused,
            self.bad,
        )

    def take(self, unit: Unit, message: StoredMessage) -> None:
        try:
            goes = waiting_of(message.fields.properties)
        except ValueError as error:
            self._refused.append(str(error))
            return
        if not self._slot.is_of_slot(unit, goes.slot_ms):
            self.gone += 1
        elif self._slot.is_done(message):
            self._repeated += 1
        elif unit.rolls:
            self._rolled += 1
            self.copies.append(rolled(message.fields, unit.enqueued_ms, self._now_ms))
        elif goes.deletes is None and not self._is_out(message, goes):
            self.copies.append(delivered(message.fields, goes, unit.enqueued_ms, self._now_ms))

    def _is_out(self, message: StoredMessage, goes: Waiting) -> bool:
        slot = self._slot
        candidate = slot.is_candidate(message)
        if not candidate and not slot.recalls_some:
            return False
        identity = identity_of(message.fields.properties, goes.topic)
        if identity is None:
            return False
        if slot.is_recalled(identity):
            self._recalled += 1
            return True
        if candidate:
            if slot.is_repeat(identity) or identity in self._seen:
                self._repeated += 1
                return True
            self._seen.append(identity)
        return False
