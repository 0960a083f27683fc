"""Reading messages through a consume queue: by offset with the result table of the protocol, and by
time.

Responsible for: PROTOCOL 4.5 (store results, selection limits) and 4.6 (search by
time).
Refuses to know: response codes, what a subscription says beyond a set of tag hashes and a test of
properties, who asks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from brokers.store.log import segments
from brokers.store.log.integrity import BadRecord, QueueCheck
from brokers.store.log.message_log import MessageLog
from brokers.store.queues import matching
from brokers.store.queues.consume_queue import ConsumeQueue
from brokers.store.queues.entries import (
    DAMAGED_RUN_MAX,
    ENTRY_BYTES,
    FILLER_SIZE,
    Entry,
    behind_mute,
)
from brokers.store.queues.matching import Candidates, Limits, Wants, low_32

MESSAGES_MAX = 32
BODY_BYTES_MAX = 262_144
COLD_MESSAGES_MAX = 8
COLD_BODY_BYTES_MAX = 65_536
ENTRIES_EXAMINED_BYTES = 16_000
# Neighbouring messages are fetched with one read as long as they lie within this many bytes.
READ_SPAN_BYTES = 262_144
# Only a damaged entry asks for more.
READ_BYTES_MAX = 64 << 20
# Of a search by time: slots looked at in front of what was found.
TIME_PROBES = 64
NO_TIME = 1 << 63
# What a pull without a filter can need, and one more to see that it is full.
ENTRIES_AT_FIRST = MESSAGES_MAX + 1


class GetStatus(Enum):
    """Store results of 4.5; names as the protocol uses them in remarks."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    # Not one of RocketMQ's: the next message is damaged here.
    RECORD_REFUSED = "RECORD_REFUSED"


@dataclass(frozen=True, slots=True)
class GetResult:
    """`body`: the stored messages one behind the other. Offsets are slots of the queue.

    `refused`: the message at `next_offset` is damaged; what is in front of it is answered, itself
    it never is.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    messages: int = 0
    refused: BadRecord | None = None


class Choice(NamedTuple):
    """Which of the candidates are given: those that match, as far as the limits go."""

    candidates: Candidates
    wants: Wants
    limits: Limits


class Selection(NamedTuple):
    """What a read will give: slots and entries, and the slot behind the last one examined. With a
    `choice` they are the first of its candidates, and what of them is given only reading tells.
    """

    queue: ConsumeQueue
    check: QueueCheck
    chosen: list[tuple[int, Entry]]
    next_offset: int
    low: int
    high: int
    choice: Choice | None = None

    def whole(self) -> Selection:
        """With all candidates at hand: it can be read more than once, and on any thread."""
        if self.choice is None:
            return self
        chosen = list(self.chosen)
        while more := self.choice.candidates.take(matching.TESTED_TOGETHER):
            chosen += more
        return self._replace(chosen=chosen)


def select(
    log: MessageLog,
    queue: ConsumeQueue | None,
    offset: int,
    max_messages: int,
    codes: Collection[int] | None,
    memory_bytes: int,
    check: QueueCheck,
    wants: Wants | None = None,
) -> GetResult | Selection:
    """Messages of `queue` from slot `offset`: at most `max_messages`, filtered by the low 32 bits
    of tags codes and by what `wants` says of their properties.

    `codes` None = all (signed 32-bit Java hashes). Messages further than `memory_bytes` behind the
    log's end count as cold and get the smaller limits. A result when there is nothing to read.
    """
    if queue is None:
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    low, high = queue.min_offset(log.min_offset), queue.max_offset
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
    if offset > high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
    examined = max(ENTRIES_EXAMINED_BYTES, ENTRY_BYTES * max_messages) // ENTRY_BYTES
    if wants is not None:
        examined = min(examined, max(1, matching.PARTS_ASKED_MAX // wants.cost))
    at_first = min(
        examined, min(max_messages, MESSAGES_MAX) + 1 if codes is None else ENTRIES_AT_FIRST
    )
    first = queue.read(offset, at_first if wants is None else 1)
    if not first:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, min(queue.next_file(offset), high), low, high)
    limits = Limits(
        (min(max_messages, MESSAGES_MAX), BODY_BYTES_MAX),
        (min(max_messages, COLD_MESSAGES_MAX), COLD_BODY_BYTES_MAX),
        log.end_offset - memory_bytes,
    )
    choice = None
    if wants is None:
        entries = _entries(queue, offset, first, at_first, examined)
        chosen, next_offset = _select(entries, offset, codes, limits)
    else:
        candidates = Candidates(queue.read, offset, examined, codes)
        choice = Choice(candidates, wants, limits)
        chosen = candidates.take(matching.TESTED_AT_FIRST)
        next_offset = candidates.next_offset
    if not chosen:
        return GetResult(GetStatus.NO_MATCHED_MESSAGE, next_offset, low, high)
    return Selection(queue, check, chosen, next_offset, low, high, choice)


def get_messages(
    log: MessageLog,
    queue: ConsumeQueue | None,
    offset: int,
    max_messages: int,
    codes: Collection[int] | None,
    memory_bytes: int,
    check: QueueCheck,
    wants: Wants | None = None,
) -> GetResult:
    """`select`, and what it chose, read at once."""
    selection = select(log, queue, offset, max_messages, codes, memory_bytes, check, wants)
    return (
        selection
        if isinstance(selection, GetResult)
        else answer(log, selection, fetch(log.read, log.file_bytes, selection))
    )


def answer(log: MessageLog, selection: Selection, fetched: Fetched) -> GetResult:
    """What came of the reading of a selection."""
    queue, _, chosen, next_offset, low, high, choice = selection
    pieces, count, refused, matched, stopped = fetched
    if refused is not None and _is_deleted(log, queue, refused.place.slot):
        refused = None
    if choice is not None:
        next_offset = choice.candidates.next_offset
    elif count < len(chosen):
        stopped = chosen[count]
    if stopped is not None:
        slot, entry = stopped
        if count == 0 and refused is None:
            return GetResult(
                GetStatus.MESSAGE_WAS_REMOVING, _behind_file(log, queue, slot, entry), low, high
            )
        if count == 0:
            return GetResult(GetStatus.RECORD_REFUSED, slot, low, high, refused=refused)
        next_offset = slot  # what could not be read now is asked for again
    messages = count if matched is None else matched
    status = GetStatus.FOUND if messages else GetStatus.NO_MATCHED_MESSAGE
    return GetResult(status, next_offset, low, high, _joined(pieces), messages, refused)


def _joined(pieces: list[memoryview]) -> bytes:
    """One read that was wanted as a whole is given as it is."""
    whole = pieces[0].obj if len(pieces) == 1 else None
    return whole if type(whole) is bytes and len(whole) == len(pieces[0]) else b"".join(pieces)


def _is_deleted(log: MessageLog, queue: ConsumeQueue, slot: int) -> bool:
    """Whether the message of a slot went meanwhile. An entry that is kept and leads out of the log
    is damaged.
    """
    return (
        log.min_offset == log.end_offset
        or not queue.min_offset(log.min_offset) <= slot < queue.max_offset
    )


def _behind_file(log: MessageLog, queue: ConsumeQueue, slot: int, entry: Entry) -> int:
    """Slot of the first message behind the log file in which the message of `slot` was."""
    file_end = segments.file_start(entry.physical_offset, log.file_bytes) + log.file_bytes
    return queue.first_slot_where(slot + 1, lambda later: later.physical_offset >= file_end)


def _entries(
    queue: ConsumeQueue, offset: int, read: list[Entry], asked: int, examined: int
) -> Iterator[Entry]:
    """Up to `examined` entries of one file, first those that were `read` of as many as were
    `asked` for: the more were passed over, the more are read together.
    """
    while True:
        yield from read
        offset, examined = offset + len(read), examined - len(read)
        if len(read) < asked or examined <= 0:
            return
        asked = min(2 * asked, examined)
        read = queue.read(offset, asked)


def _select(
    entries: Iterable[Entry], offset: int, codes: Collection[int] | None, limits: Limits
) -> tuple[list[tuple[int, Entry]], int]:
    """(slots and entries to answer with, slot behind the last one examined)."""
    chosen: list[tuple[int, Entry]] = []
    count = total = 0
    for entry in entries:
        physical, size, tags_code = entry
        if count:
            most, most_bytes = limits.at(physical)
            if count >= most or total + size > most_bytes:
                break
        offset += 1
        if size == FILLER_SIZE or (codes is not None and low_32(tags_code) not in codes):
            continue
        chosen.append((offset - 1, entry))
        count += 1
        total += size
    return chosen, offset


class Fetched(NamedTuple):
    """The bytes of the first `count` of the chosen messages, and why the next one is not among
    them. Of a choice `matched` of `count` that were tested, and the first that was not.
    """

    pieces: list[memoryview]
    count: int  # type: ignore[assignment]  # Hides the method of tuples, as in `commit_log`.
    refused: BadRecord | None
    matched: int | None = None
    stopped: tuple[int, Entry] | None = None


def fetch(read: Callable[[int, int], bytes], file_bytes: int, selection: Selection) -> Fetched:
    """Reads and checks what was chosen, with one read for messages that lie close together. May run
    on any thread.
    """
    if selection.choice is not None:
        return _fetch_matching(read, file_bytes, selection, selection.choice)
    chosen, check = selection.chosen, selection.check
    pieces: list[memoryview] = []
    for first, stop, last in spans(chosen, file_bytes):
        start = chosen[first][1].physical_offset
        data, why = _read(read, start, last - start)
        sound, row = check.sound_until(data, start, chosen, first, stop)
        if sound == stop and row:
            pieces.append(data)
            continue
        begin = end = 0  # a row of messages without anything between them
        for number in range(first, stop):
            slot, (physical, size, _) = chosen[number]
            at = physical - start
            reason = "" if number < sound else check.problem(data, at, slot, physical, size)
            if reason:
                if why and stop - first > 1:  # the disk refused all of it: one by one
                    return _one_by_one(read, selection, pieces, number)
                pieces.append(data[begin:end])
                return Fetched(
                    pieces, number, BadRecord(check.place(slot, physical, size), why or reason)
                )
            if at != end:
                pieces.append(data[begin:end])
                begin = at
            end = at + size
        pieces.append(data[begin:end])
    return Fetched(pieces, len(chosen), None)


def _fetch_matching(
    read: Callable[[int, int], bytes], file_bytes: int, selection: Selection, choice: Choice
) -> Fetched:
    def together(chosen: list[tuple[int, Entry]]) -> tuple[list[memoryview], int, BadRecord | None]:
        return fetch(read, file_bytes, selection._replace(chosen=chosen, choice=None))[:3]

    candidates, wants, limits = choice
    found = matching.tested(together, selection.chosen, candidates, limits, wants)
    return Fetched(found.pieces, found.count, found.refused, found.matched, found.stopped)


def _one_by_one(
    read: Callable[[int, int], bytes], selection: Selection, pieces: list[memoryview], number: int
) -> Fetched:
    for slot, entry in selection.chosen[number:]:
        alone = fetch(read, 1 << 62, selection._replace(chosen=[(slot, entry)]))
        pieces += alone.pieces
        if alone.refused is not None:
            return Fetched(pieces, number, alone.refused)
        number += 1
    return Fetched(pieces, number, None)


def _read(read: Callable[[int, int], bytes], offset: int, count: int) -> tuple[memoryview, str]:
    if not 0 < count <= READ_BYTES_MAX:
        return memoryview(b""), ""
    try:
        return memoryview(read(offset, count)), ""
    except OSError as error:
        return memoryview(b""), f"it cannot be read: {error.strerror or error}"


def spans(chosen: list[tuple[int, Entry]], file_bytes: int) -> list[tuple[int, int, int]]:
    """[first, stop) of the messages that one read gives, and where it ends: near to each other, in
    order, in one file.

    An entry that cannot be one of a message there is read by itself: it must not spoil those beside
    it.
    """
    found: list[tuple[int, int, int]] = []
    at = 0
    while at < len(chosen):
        first, size, _ = chosen[at][1]
        end = first + size
        file_end = segments.file_start(first, file_bytes) + file_bytes
        limit = min(first + READ_SPAN_BYTES, file_end)
        stop = at + 1
        while size > 0 and stop < len(chosen):
            physical, size, _ = chosen[stop][1]
            if size <= 0 or physical < end or physical + size > limit:
                break
            end = physical + size
            stop += 1
        found.append((at, stop, end))
        at = stop
    return found


def offset_by_time(log: MessageLog, queue: ConsumeQueue, timestamp_ms: int, *, upper: bool) -> int:
    """Slot by store time: the first at or after `timestamp_ms`; with `upper` the last at or before
    it (4.6).

    Slots without a message count as the next one that has one. A later master's clock may be behind
    that of the one before, so times may fall: in front of what was found TIME_PROBES slots are
    looked at, and where they fall, and who reads from there on gets messages twice rather than too
    few. A stretch of later times between two of them is missed.
    """
    low, high = queue.min_offset(log.min_offset), queue.max_offset
    if low >= high:
        return high
    slots = range(low, high)

    def time_of(slot: int) -> int:
        return _next_store_ms(log, queue, slot, high)

    if upper:
        behind = low + bisect_right(slots, timestamp_ms, key=time_of)
        return behind - 1 if behind > low else 0
    found = low + bisect_left(slots, timestamp_ms, key=time_of)
    before = low
    for slot in (*range(low, found, max(1, (found - low) // TIME_PROBES)), found):
        fallen = slot
        if slot < high and time_of(slot) < time_of(before):
            from_ms = time_of(before)
            fallen = before + bisect_left(
                range(before, slot), True, key=lambda one: time_of(one) < from_ms
            )
        if fallen > before and time_of(fallen - 1) >= timestamp_ms:
            return before + bisect_left(range(before, fallen), timestamp_ms, key=time_of)
        before = slot
    return found


def _next_store_ms(log: MessageLog, queue: ConsumeQueue, slot: int, high: int) -> int:
    """Store time of the first message at or behind `slot`; NO_TIME when there is none, or damage
    hides it.
    """
    for _ in range(DAMAGED_RUN_MAX):
        slot = behind_mute(queue.read, slot, high)
        entries = queue.read(slot, 1) if slot < high else []
        if not entries:
            break
        if (
            entries[0].size > 0
            and (found := log.store_ms_at(entries[0].physical_offset)) is not None
        ):
            return found
        slot += 1
    return NO_TIME


def store_ms(log: MessageLog, queue: ConsumeQueue, slot: int) -> int:
    """Store time (ms) of the message of `slot`, −1 when there is none or it is not readable."""
    entries = queue.read(slot, 1)
    if not entries or entries[0].size == FILLER_SIZE:
        return -1
    found = log.store_ms_at(entries[0].physical_offset)
    return -1 if found is None else found
