"""Reading messages through a consume queue: by offset with the result table of the protocol, and by time.

Responsible for: broker-wire-and-storage.md 4.5 (store results, selection limits) and 4.6 (search by time).
Refuses to know: response codes, subscriptions beyond a set of tag hashes, who asks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from brokers.log import segments
from brokers.log.commit_log import CommitLog
from brokers.log.consume_queue import ENTRY_BYTES, FILLER_SIZE, ConsumeQueue, Entry

MESSAGES_MAX = 32
BODY_BYTES_MAX = 262_144
COLD_MESSAGES_MAX = 8
COLD_BODY_BYTES_MAX = 65_536
ENTRIES_EXAMINED_BYTES = 16_000
# Neighbouring messages are fetched with one read as long as they lie within this many bytes.
READ_SPAN_BYTES = 262_144


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


@dataclass(frozen=True, slots=True)
class GetResult:
    """`body`: the stored messages one behind the other. Offsets are slots of the queue."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    messages: int = 0


def get_messages(
    log: CommitLog, queue: ConsumeQueue | None, offset: int, max_messages: int, codes: Collection[int] | None, memory_bytes: int
) -> GetResult:
    """Messages of `queue` from slot `offset`: at most `max_messages`, filtered by the low 32 bits of tags codes.

    `codes` None or empty = all (signed 32-bit Java hashes). Messages further than `memory_bytes` behind the log's end
    count as cold and get the smaller limits.
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
    entries = queue.read(offset, examined)
    if not entries:
        return GetResult(GetStatus.OFFSET_FOUND_NULL, min(queue.next_file(offset), high), low, high)
    chosen, next_offset = _select(entries, offset, max_messages, codes, log.end_offset - memory_bytes)
    if not chosen:
        return GetResult(GetStatus.NO_MATCHED_MESSAGE, next_offset, low, high)
    body = _read_bodies(log, [entry for _, entry in chosen])
    if not body:
        return GetResult(GetStatus.MESSAGE_WAS_REMOVING, _behind_file(log, queue, *chosen[0]), low, high)
    if len(body) < len(chosen):
        next_offset = chosen[len(body)][0]  # what could not be read now is asked for again
    return GetResult(GetStatus.FOUND, next_offset, low, high, b"".join(body), len(body))


def _behind_file(log: CommitLog, queue: ConsumeQueue, slot: int, entry: Entry) -> int:
    """Slot of the first message behind the log file in which the message of `slot` was."""
    file_end = segments.file_start(entry.physical_offset, log.file_bytes) + log.file_bytes
    return queue.first_slot_where(slot + 1, lambda later: later.physical_offset >= file_end)


def _select(
    entries: list[Entry], offset: int, max_messages: int, codes: Collection[int] | None, cold_below: int
) -> tuple[list[tuple[int, Entry]], int]:
    """(slots and entries to answer with, slot behind the last one examined)."""
    chosen: list[tuple[int, Entry]] = []
    total = 0
    for entry in entries:
        physical, size, tags_code = entry
        cold = physical < cold_below
        if chosen and (
            len(chosen) >= min(max_messages, COLD_MESSAGES_MAX if cold else MESSAGES_MAX)
            or total + size > (COLD_BODY_BYTES_MAX if cold else BODY_BYTES_MAX)
        ):
            break
        offset += 1
        if size == FILLER_SIZE or (codes and _low_32(tags_code) not in codes):
            continue
        chosen.append((offset - 1, entry))
        total += size
    return chosen, offset


def _low_32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def _read_bodies(log: CommitLog, entries: list[Entry]) -> list[bytes | memoryview]:
    """Bytes of the messages, with one read for those that lie close together. Stops at the first that is not readable."""
    bodies: list[bytes | memoryview] = []
    at = 0
    while at < len(entries):
        first = entries[at].physical_offset
        stop = at + 1
        while stop < len(entries):
            physical, size, _ = entries[stop]
            if physical + size - first > READ_SPAN_BYTES or physical // log.file_bytes != first // log.file_bytes:
                break
            stop += 1
        last = entries[stop - 1]
        data = memoryview(log.read(first, last.physical_offset + last.size - first))
        for physical, size, _ in entries[at:stop]:
            body = data[physical - first : physical - first + size]
            if len(body) < size:
                return bodies
            bodies.append(body)
        at = stop
    return bodies


def offset_by_time(log: CommitLog, queue: ConsumeQueue, timestamp_ms: int, *, upper: bool) -> int:
    """Slot by store time: the first at or after `timestamp_ms`; with `upper` the last at or before it (4.6)."""
    low, high = queue.min_offset(log.min_offset), queue.max_offset
    if low >= high:
        return high
    slots = range(low, high)
    if not upper:
        return low + bisect_left(slots, timestamp_ms, key=lambda slot: store_ms(log, queue, slot))
    behind = low + bisect_right(slots, timestamp_ms, key=lambda slot: store_ms(log, queue, slot))
    return behind - 1 if behind > low else 0


def store_ms(log: CommitLog, queue: ConsumeQueue, slot: int) -> int:
    """Store time (ms) of the message of `slot`, −1 when there is none or it is not readable."""
    entries = queue.read(slot, 1)
    if not entries or entries[0].size == FILLER_SIZE:
        return -1
    found = log.store_ms_at(entries[0].physical_offset)
    return -1 if found is None else found
