"""Entries of many messages at once are those of one after the other, whatever the bytes are."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.store.log.properties import encode_properties
from brokers.store.log.records import (
    MAGIC_BLANK,
    MessageFields,
    Record,
    encode_message,
    has_queue_entry,
    host_bytes,
    message_size,
)
from brokers.store.log.scan import LogWalk
from brokers.store.queues import entry_runs as runs_module
from brokers.store.queues.entries import pack_entry
from brokers.store.queues.entry_runs import EntryRuns, entry_runs
from tests.support.examples import examples
from tests.unit.brokers.store.log_samples import NOW_MS, encoded, message

FILE_BYTES = 1 << 30
Entries = dict[tuple[str, int], list[tuple[int, bytes]]]


def one_by_one(data: bytes, start: int) -> tuple[list[Record], LogWalk]:
    walk = LogWalk(
        lambda at, count: data[at - start : at - start + count],
        start,
        start + len(data),
        FILE_BYTES,
        check_body=False,
    )
    return list(walk), walk


def entries_of_records(records: list[Record], end: int) -> Entries:
    found: Entries = {}
    for record in records:
        if record.physical_offset < end and has_queue_entry(record.sys_flag):
            entry = pack_entry(record.physical_offset, record.size, record.tags_code)
            found.setdefault((record.topic, record.queue_id), []).append(
                (record.queue_offset, entry)
            )
    return found


def entries_of_runs(made: EntryRuns) -> Entries:
    found: Entries = {}
    for topic, queue_id, first_slot, entries, last_physical in made.runs:
        pieces = [entries[at : at + 20] for at in range(0, len(entries), 20)]
        assert struct.unpack_from(">q", pieces[-1])[0] == last_physical
        found.setdefault((topic, queue_id), []).extend(
            (first_slot + number, piece) for number, piece in enumerate(pieces)
        )
    return found


def same_as_one_by_one(data: bytes, start: int) -> tuple[EntryRuns, LogWalk]:
    made = entry_runs(memoryview(bytearray(data)), start)
    assert made == entry_runs(data, start)
    records, walk = one_by_one(data, start)
    taken = [record for record in records if record.physical_offset < made.end]
    assert start <= made.end <= walk.end
    assert entries_of_runs(made) == entries_of_records(records, made.end)
    assert made.store_ms == (taken[-1].store_ms if taken else 0)
    assert (taken[-1].physical_offset + taken[-1].size if taken else start) == made.end
    return made, walk


def log_of(messages: list[MessageFields], start: int = 0, slot: int = 0) -> bytes:
    data = b""
    for number, one in enumerate(messages):
        data += encode_message(
            one, message_size(one), slot + number, start + len(data), NOW_MS + number
        )
    return data


V4, V6 = host_bytes("10.0.0.1", 1), host_bytes("2001:db8::7", 65535)
names = st.sampled_from(["TAGS", "TAG", "KEYS", "XTAGS", "TAGSX", "DELAY", "T"])
values = st.text("AGST\x01x5é", max_size=9)
properties = st.lists(st.tuples(names, values), max_size=5).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
) | st.binary(max_size=40)
topics = st.sampled_from(["T", "bench", "benchmark", "Tx", "SCHEDULE_TOPIC_XXXX", "t" * 127, "té"])
messages = st.builds(
    MessageFields,
    topic=topics,
    queue_id=st.sampled_from([0, 0, 0, 1, 7, 2**31 - 1, -3]),
    body=st.binary(max_size=60),
    properties=properties,
    born_ms=st.just(NOW_MS),
    born_host=st.sampled_from([V4, V4, V6]),
    store_host=st.sampled_from([V4, V4, V6]),
    flag=st.just(5),
    sys_flag=st.sampled_from([0, 0, 0, 1, 4, 8, 12, 0x40]),
)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(messages, max_size=30), st.sampled_from([0, 4096, 1 << 40]), st.integers(0, 50))
def test_random_messages(found: list[MessageFields], start: int, slot: int) -> None:
    data = log_of(found, start, slot)
    made, walk = same_as_one_by_one(data, start)
    assert made.end == walk.end == start + len(data)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(messages, min_size=1, max_size=12), st.data())
def test_bytes_changed_or_cut_off(found: list[MessageFields], draw: st.DataObject) -> None:
    data = bytearray(log_of(found, 4096))
    for _ in range(draw.draw(st.integers(0, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    same_as_one_by_one(bytes(data[: draw.draw(st.integers(0, len(data)))]), 4096)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    assert entry_runs(data, 0).end == 0 or one_by_one(data, 0)[0]


def test_runs_of_one_size_and_of_many() -> None:
    for sizes in (
        [5] * 3000,
        list(range(400)),
        [5] * 100 + [6] + [5] * 100,
        [5, 6] * 200,
        [5, 5, 6] * 100,
    ):
        data = log_of([message("T", number % 3, b"x" * size) for number, size in enumerate(sizes)])
        made, _ = same_as_one_by_one(data, 0)
        assert made.end == len(data)


def test_it_stops_in_front_of_what_is_no_plain_message() -> None:
    head = log_of([message(), message()])
    long_topic = encoded(message("t" * 128), 0, len(head))
    blank = struct.pack(">iI", 4096, MAGIC_BLANK) + bytes(4088)
    for other in (long_topic, blank, bytes(200), head):
        made, _ = same_as_one_by_one(head + other, 0)
        assert made.end == len(head)


def test_queue_offsets_that_jump_begin_another_run() -> None:
    data = b""
    for slot in (7, 8, 20, 21, 3):
        data += encoded(message(), slot, len(data))
    assert [(run.first_slot, len(run.entries) // 20) for run in entry_runs(data, 0).runs] == [
        (7, 2),
        (20, 2),
        (3, 1),
    ]


def test_many_topics() -> None:
    data = log_of(
        [
            message(f"T{number % (3 * runs_module.TOPICS_MAX)}")
            for number in range(5 * runs_module.TOPICS_MAX)
        ]
    )
    made, _ = same_as_one_by_one(data, 0)
    assert made.end == len(data)


def test_many_tags_and_long_properties() -> None:
    tags = [
        f"tag{number % (3 * runs_module.TAGS_MAX)}" for number in range(5 * runs_module.TAGS_MAX)
    ]
    found = [message(tag=tag) for tag in tags]
    wide = encode_properties({"K": "v" * 2000, "TAGS": "TagA"})
    found[3] = MessageFields("T", 0, b"", wide, NOW_MS, V4, V4)
    made, _ = same_as_one_by_one(log_of(found), 0)
    assert made.end == len(log_of(found))
