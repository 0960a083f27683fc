"""Queue entries of many messages at once, with arrays.

Responsible for: from the bytes of a run of messages the same entries as one message after the other gives (records.py,
dispatch.py), at about a twentieth of the price. Refuses to know: files, queues, what is wrong with a record: it stops in
front of the first one that is not a plain version 1 message, and who walks record by record says why.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.log.properties import PROPERTIES_BYTES_MAX, SCHEDULE_TOPIC, tag_hash, tags_code
from brokers.log.queue_entries import ENTRY_BYTES
from brokers.log.records import (
    MAGIC_V1, MESSAGE_BYTES_MIN, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, SYS_FLAG_TRANSACTION_MASK, TOPIC_BYTES_MAX_V1,
)  # fmt: skip

# So many different topics in one run; the run ends in front of the next one.
TOPICS_MAX = 64
# So many different tags in one run; messages with others are looked at one by one.
TAGS_MAX = 64
# Longer properties are looked at one by one.
PROPERTIES_AT_ONCE = 512
# Records of one size are looked for this far ahead, at first and at most.
SAME_SIZE_MIN, SAME_SIZE_MAX = 32, 4096

Ints = NDArray[np.int64]
Bytes = bytes | memoryview

_HEAD = np.dtype({
    "names": ["size", "magic", "queue_id", "slot", "physical", "flags"],
    "formats": [">i4", ">u4", ">i4", ">i8", ">i8", ">u4"],
    "offsets": [0, 4, 12, 20, 28, 36],
    "itemsize": 40,
})  # fmt: skip
_ENTRY = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert _ENTRY.itemsize == ENTRY_BYTES
_STORE_MS = struct.Struct(">q")
_size_at = struct.Struct(">i").unpack_from
_TAGS_WORD = int.from_bytes(b"TAGS", "little")


class QueueRun(NamedTuple):
    """Consecutive entries of one queue, and the log offset of the last one's message."""

    topic: str
    queue_id: int
    first_slot: int
    entries: bytes
    last_physical: int


class EntryRuns(NamedTuple):
    """Entries of the messages up to log offset `end`, of each queue in log order; store time (ms) of the last message."""

    end: int
    runs: list[QueueRun]
    store_ms: int


def entry_runs(data: Bytes, start: int) -> EntryRuns:
    """Of the complete messages at the front of `data`, the log's bytes from `start` within one file."""
    at = _record_starts(data)
    while len(at):
        made = _entries(data, start, at)
        if not isinstance(made, int):
            return made
        at = at[:made]
    return EntryRuns(start, [], 0)


def _record_starts(data: Bytes) -> Ints:
    """Where whole records may begin: the chain of sizes from the front, as long as they make sense."""
    found: list[Ints] = []
    one_by_one: list[int] = []
    at, last, before, reach = 0, len(data) - MESSAGE_BYTES_MIN, 0, SAME_SIZE_MIN
    while at <= last:
        size = _size_at(data, at)[0]
        if size == before and (same := _same_size(data, at, size, reach)) > 1:
            found += [np.array(one_by_one, np.int64), at + size * np.arange(same)]
            one_by_one, reach = [], min(4 * reach, SAME_SIZE_MAX)
            at += size * same
            continue
        if size < MESSAGE_BYTES_MIN or at + size > len(data):
            break
        one_by_one.append(at)
        at, before, reach = at + size, size, SAME_SIZE_MIN
    found.append(np.array(one_by_one, np.int64))
    return np.concatenate(found)


def _same_size(data: Bytes, at: int, size: int, reach: int) -> int:
    """How many records of `size` follow each other from `at`, as far as `reach`: whole ones only."""
    count = min(reach, (len(data) - at) // size)
    if count < 2 or size < MESSAGE_BYTES_MIN:
        return 0
    sizes = np.ndarray((count,), ">i4", data, at, (size,))
    return _leading(sizes == size)


def _leading(good: NDArray[np.bool_]) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(good.argmin())


def _gather(data: Bytes, at: Ints, item: str) -> NDArray[Any]:
    """The items that begin at each of `at`; all must lie within `data`."""
    kind = np.dtype(item)
    places = max(0, len(data) - kind.itemsize + 1)
    raw = np.ndarray((places,), f"V{kind.itemsize}", data, strides=(1,))[at]
    return raw if kind.kind == "V" else raw.view(kind)


def _entries(data: Bytes, start: int, at: Ints) -> EntryRuns | int:
    """Of the records at `at`; or how many of them it can be done for, when not for all."""
    heads = _gather(data, at, f"V{_HEAD.itemsize}").view(_HEAD)
    size, flags = heads["size"].astype(np.int64), heads["flags"].astype(np.int64)
    end = at + size
    good = (heads["magic"] == MAGIC_V1) & (heads["physical"] == start + at)
    hosts = 12 * ((flags >> 4 & 1) + (flags >> 5 & 1))  # IPv6 hosts are 12 bytes longer
    body_at = at + 88 + hosts
    good &= body_at < end
    if not good.all():
        return _leading(good)
    topic_at = body_at + _gather(data, body_at - 4, ">i4")
    good = (topic_at >= body_at) & (topic_at < end)
    if not good.all():
        return _leading(good)
    topic_bytes = _gather(data, topic_at, "u1").astype(np.int64)
    properties_at = topic_at + topic_bytes + 3
    good = (topic_bytes <= TOPIC_BYTES_MAX_V1) & (properties_at <= end)
    if not good.all():
        return _leading(good)
    properties_bytes = _gather(data, properties_at - 2, ">u2").astype(np.int64)
    good = (properties_bytes <= PROPERTIES_BYTES_MAX) & (properties_at + properties_bytes == end)
    if not good.all():
        return _leading(good)
    topics, topic_of, known = _topics(data, topic_at, topic_bytes)
    if known < len(at):
        return known
    codes = _tags_codes(data, properties_at, properties_bytes)
    for number in np.flatnonzero(topic_of == topics.index(SCHEDULE_TOPIC)) if SCHEDULE_TOPIC in topics else ():
        text = bytes(data[properties_at[number] : end[number]])
        codes[number] = tags_code(text, SCHEDULE_TOPIC, _store_ms(data, at, flags, int(number)))
    runs = _runs(topics, topic_of, heads, codes)
    return EntryRuns(start + int(end[-1]), runs, _store_ms(data, at, flags, -1))


def _store_ms(data: Bytes, at: Ints, flags: Ints, number: int) -> int:
    return _STORE_MS.unpack_from(data, int(at[number]) + (68 if flags[number] & 0x10 else 56))[0]


def _topics(data: Bytes, topic_at: Ints, topic_bytes: Ints) -> tuple[list[str], Ints, int]:
    """(the topics, which one each message has, how many messages from the front have one of these)."""
    topics: list[str] = []
    topic_of = np.full(len(topic_at), -1)
    left = np.arange(len(topic_at))
    while len(left):
        if len(topics) == TOPICS_MAX:
            return topics, topic_of, int(left[0])
        length = int(topic_bytes[left[0]])
        like = left[topic_bytes[left] == length]
        blocks = _gather(data, topic_at[like], f"V{length + 1}")
        same = like[blocks == blocks[0]]
        topic_of[same] = len(topics)
        topics.append(bytes(blocks[0])[1:].decode("utf-8", "surrogateescape"))
        left = left[topic_of[left] < 0]
    return topics, topic_of, len(topic_at)


def _tags_codes(data: Bytes, properties_at: Ints, properties_bytes: Ints) -> Ints:
    """Hash of each message's tag, 0 without one."""
    codes = np.zeros(len(properties_at), np.int64)
    at_once = properties_bytes <= PROPERTIES_AT_ONCE
    width = int(properties_bytes[at_once].max(initial=0))
    at_once &= properties_at + width <= len(data)
    rows = np.flatnonzero(at_once)
    singly = np.flatnonzero(~at_once)
    if width and len(rows):
        texts = _gather(data, properties_at[rows], f"V{width}").tobytes()
        hit, hit_row = _tags_in(texts, width, properties_bytes[rows]) if b"TAGS\x01" in texts else (rows[:0], rows[:0])
        if len(hit):
            # The last of several counts, unless it is empty: rare enough.
            several = np.unique(hit_row[1:][hit_row[1:] == hit_row[:-1]])
            one = ~np.isin(hit_row, several)
            value_bytes = properties_bytes[rows[hit_row]] - hit % width - 1
            done = _hash_values(texts, hit[one], value_bytes[one])
            codes[rows[hit_row[one]]] = done
            unknown = hit_row[one][done == _UNKNOWN]
            singly = np.concatenate((singly, rows[several], rows[unknown]))
    for number in singly:
        text = bytes(data[properties_at[number] : properties_at[number] + properties_bytes[number]])
        codes[number] = tags_code(text, "", 0)
    return codes


def _tags_in(texts: bytes, width: int, lengths: Ints) -> tuple[Ints, Ints]:
    """Where in `texts`, rows of `width` bytes of which `lengths` count, the name TAGS ends; and the row of each place."""
    flat = np.frombuffer(texts, np.uint8)
    hit = np.flatnonzero(flat == 1)
    hit = hit[hit >= 4]
    hit = hit[_gather(texts, hit - 4, "<u4") == _TAGS_WORD]
    row, column = np.divmod(hit, width)
    begins = (column == 4) | (flat[np.maximum(hit - 5, 0)] == 2)
    good = (column >= 4) & (column < lengths[row]) & begins
    return hit[good], row[good]


_UNKNOWN = -(1 << 62)  # no hash of a tag


def _hash_values(texts: bytes, hit: Ints, value_bytes: Ints) -> Ints:
    """Hash of the values behind `hit`, each at most that many bytes long; _UNKNOWN for empty ones and when they are too many."""
    codes = np.full(len(hit), _UNKNOWN, np.int64)
    left = np.arange(len(hit))
    for _ in range(TAGS_MAX):
        if not len(left):
            break
        first = int(hit[left[0]]) + 1
        value = texts[first : first + int(value_bytes[left[0]])].partition(b"\x02")[0]
        if not value:
            left = left[1:]
            continue
        fits = left[value_bytes[left] >= len(value)]
        equal = fits[_gather(texts, hit[fits] + 1, f"V{len(value)}") == np.void(value)]
        ends = value_bytes[equal] == len(value)
        within = equal[~ends]
        behind = _gather(texts, hit[within] + 1 + len(value), "u1") == 2
        same = np.concatenate((equal[ends], within[behind]))
        codes[same] = tag_hash(value)
        left = left[codes[left] == _UNKNOWN]
    return codes


def _runs(topics: list[str], topic_of: Ints, heads: NDArray[Any], codes: Ints) -> list[QueueRun]:
    kind = heads["flags"] & SYS_FLAG_TRANSACTION_MASK
    shown = np.flatnonzero((kind != SYS_FLAG_PREPARED) & (kind != SYS_FLAG_ROLLBACK))
    if not len(shown):
        return []
    queue_id = heads["queue_id"][shown].astype(np.int64)
    key = topic_of[shown] << 32 | queue_id & 0xFFFFFFFF
    small = queue_id.min() >= 0 and queue_id.max() < 256  # sorted by buckets, then: TOPICS_MAX << 8 fits
    order = np.argsort((topic_of[shown] << 8 | queue_id).astype(np.int16) if small else key, kind="stable")
    shown, key = shown[order], key[order]
    slot = heads["slot"][shown].astype(np.int64)
    entries = np.empty(len(shown), _ENTRY)
    entries["physical"], entries["size"], entries["tags_code"] = heads["physical"][shown], heads["size"][shown], codes[shown]
    new = np.flatnonzero((key[1:] != key[:-1]) | (slot[1:] != slot[:-1] + 1)) + 1
    made: list[QueueRun] = []
    for first, last in zip((0, *new.tolist()), (*new.tolist(), len(shown)), strict=True):
        head = heads[shown[first]]
        topic, physical = topics[int(key[first]) >> 32], int(entries["physical"][last - 1])
        made.append(QueueRun(topic, int(head["queue_id"]), int(slot[first]), entries[first:last].tobytes(), physical))
    return made
