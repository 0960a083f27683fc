"""Queue entries of many messages at once, with arrays.

Responsible for: from the bytes of a run of messages the same entries as one message after the other
gives (records.py, dispatch.py), at about a twentieth of the price. Refuses to know: files, queues,
what is wrong with a record: it stops in front of the first one that is not a plain version 1
message, and who walks record by record says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from brokers.store.log.properties import SCHEDULE_TOPIC, tag_hash, tags_code
from brokers.store.log.record_arrays import (
    Bytes,
    Ints,
    RecordArrays,
    gather,
    record_arrays,
    record_starts,
)
from brokers.store.log.records import (
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_TRANSACTION_MASK,
)
from brokers.store.queues.entries import ENTRY_BYTES

# Topics that the arrays tell apart; messages of others are looked at one by one.
TOPICS_MAX = 64
# Tags of one run; messages with others are looked at one by one.
TAGS_MAX = 64
# Longer properties are looked at one by one.
PROPERTIES_AT_ONCE = 512

_ENTRY = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert _ENTRY.itemsize == ENTRY_BYTES
_TAGS_WORD = int.from_bytes(b"TAGS", "little")


class QueueRun(NamedTuple):
    """Consecutive entries of one queue, and the log offset of the last one's message."""

    topic: str
    queue_id: int
    first_slot: int
    entries: bytes
    last_physical: int


class EntryRuns(NamedTuple):
    """Entries of the messages up to log offset `end`, of each queue in log order; store time (ms)
    of the last message.
    """

    end: int
    runs: list[QueueRun]
    store_ms: int


def entry_runs(data: Bytes, start: int, starts: Sequence[int] | None = None) -> EntryRuns:
    """Of the complete messages at the front of `data`, the log's bytes from `start` within one
    file. `starts`: where they begin, None: one behind the other.
    """
    at = record_starts(data) if starts is None else np.array(starts, np.int64)
    while len(at):
        found = record_arrays(data, start, at)
        if not isinstance(found, int):
            return runs_of(data, start, found)
        at = at[:found]
    return EntryRuns(start, [], 0)


def runs_of(data: Bytes, start: int, found: RecordArrays) -> EntryRuns:
    """The same of records that were found to be plain messages, at least one."""
    topics, topic_of = _topics(data, found.topic_at, found.topic_bytes)
    codes = _tags_codes(data, found.properties_at, found.properties_bytes)
    for number in (
        np.flatnonzero(topic_of == topics.index(SCHEDULE_TOPIC)) if SCHEDULE_TOPIC in topics else ()
    ):
        text = bytes(data[found.properties_at[number] : found.end[number]])
        codes[number] = tags_code(text, SCHEDULE_TOPIC, found.store_ms(data, int(number)))
    return EntryRuns(
        start + int(found.end[-1]), _runs(topics, topic_of, found, codes), found.store_ms(data, -1)
    )


def _topics(data: Bytes, topic_at: Ints, topic_bytes: Ints) -> tuple[list[str], Ints]:
    """(the topics, which one each message has)."""
    names: list[bytes] = []
    topic_of = np.full(len(topic_at), -1)
    left = np.arange(len(topic_at))
    while len(left) and len(names) < TOPICS_MAX:
        length = int(topic_bytes[left[0]])
        like = left[topic_bytes[left] == length]
        blocks = gather(data, topic_at[like], f"V{length + 1}")
        same = like[blocks == blocks[0]]
        topic_of[same] = len(names)
        names.append(bytes(blocks[0])[1:])
        left = left[topic_of[left] < 0]
    known = {name: number for number, name in enumerate(names)}
    for number in left.tolist():
        at = int(topic_at[number]) + 1
        topic_of[number] = known.setdefault(
            bytes(data[at : at + int(topic_bytes[number])]), len(known)
        )
    return [name.decode("utf-8", "surrogateescape") for name in known], topic_of


def _tags_codes(data: Bytes, properties_at: Ints, properties_bytes: Ints) -> Ints:
    """Hash of each message's tag, 0 without one."""
    codes = np.zeros(len(properties_at), np.int64)
    at_once = properties_bytes <= PROPERTIES_AT_ONCE
    width = int(properties_bytes[at_once].max(initial=0))
    at_once &= properties_at + width <= len(data)
    rows = np.flatnonzero(at_once)
    singly = np.flatnonzero(~at_once)
    if width and len(rows):
        texts = gather(data, properties_at[rows], f"V{width}").tobytes()
        hit, hit_row = (
            _tags_in(texts, width, properties_bytes[rows])
            if b"TAGS\x01" in texts
            else (rows[:0], rows[:0])
        )
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
    """Where in `texts`, rows of `width` bytes of which `lengths` count, the name TAGS ends; and the
    row of each place.
    """
    flat = np.frombuffer(texts, np.uint8)
    hit = np.flatnonzero(flat == 1)
    hit = hit[hit >= 4]
    hit = hit[gather(texts, hit - 4, "<u4") == _TAGS_WORD]
    row, column = np.divmod(hit, width)
    begins = (column == 4) | (flat[np.maximum(hit - 5, 0)] == 2)
    good = (column >= 4) & (column < lengths[row]) & begins
    return hit[good], row[good]


_UNKNOWN = -(1 << 62)  # no hash of a tag


def _hash_values(texts: bytes, hit: Ints, value_bytes: Ints) -> Ints:
    """Hash of the values behind `hit`, each at most that many bytes long; _UNKNOWN for empty ones
    and when they are too many.
    """
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
        equal = fits[gather(texts, hit[fits] + 1, f"V{len(value)}") == np.void(value)]
        ends = value_bytes[equal] == len(value)
        within = equal[~ends]
        behind = gather(texts, hit[within] + 1 + len(value), "u1") == 2
        same = np.concatenate((equal[ends], within[behind]))
        codes[same] = tag_hash(value)
        left = left[codes[left] == _UNKNOWN]
    return codes


def _runs(topics: list[str], topic_of: Ints, found: RecordArrays, codes: Ints) -> list[QueueRun]:
    heads = found.heads
    kind = heads["flags"] & SYS_FLAG_TRANSACTION_MASK
    shown = np.flatnonzero((kind != SYS_FLAG_PREPARED) & (kind != SYS_FLAG_ROLLBACK))
    if not len(shown):
        return []
    queue_id = heads["queue_id"][shown].astype(np.int64)
    key = topic_of[shown] << 32 | queue_id & 0xFFFFFFFF
    # sorted by buckets, then
    small = len(topics) < 128 and queue_id.min() >= 0 and queue_id.max() < 256
    order = np.argsort(
        (topic_of[shown] << 8 | queue_id).astype(np.int16) if small else key, kind="stable"
    )
    shown, key = shown[order], key[order]
    slot = heads["slot"][shown].astype(np.int64)
    entries = np.empty(len(shown), _ENTRY)
    entries["physical"], entries["size"], entries["tags_code"] = (
        heads["physical"][shown],
        heads["size"][shown],
        codes[shown],
    )
    new = np.flatnonzero((key[1:] != key[:-1]) | (slot[1:] != slot[:-1] + 1)) + 1
    made: list[QueueRun] = []
    for first, last in zip((0, *new.tolist()), (*new.tolist(), len(shown)), strict=True):
        head = heads[shown[first]]
        topic, physical = topics[int(key[first]) >> 32], int(entries["physical"][last - 1])
        made.append(
            QueueRun(
                topic,
                int(head["queue_id"]),
                int(slot[first]),
                entries[first:last].tobytes(),
                physical,
            )
        )
    return made
