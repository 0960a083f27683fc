"""Store results of the pull table, row by row; selection limits; search by time."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.store.log.commit_log import CommitLog
from brokers.store.log.integrity import QueueCheck
from brokers.store.log.properties import java_string_hash, property_value
from brokers.store.log.records import decode_messages
from brokers.store.queues import matching, query
from brokers.store.queues.consume_queue import ConsumeQueue
from brokers.store.queues.entries import FILLER, pack_entry
from brokers.store.queues.query import GetStatus
from brokers.store.store import MessageStore, StoreConfig
from tests.unit.brokers.store.log_samples import (
    NOW_MS,
    bodies,
    encoded,
    message,
    sized,
    small_store,
)

CHECK = QueueCheck("T", 0)


def roomy_store(root: Path) -> MessageStore:
    return MessageStore(root, StoreConfig(log_file_bytes=1 << 22, queue_file_bytes=2000))


def fill(store: MessageStore, count: int, tags: str = "a") -> None:
    for number in range(count):
        store.put(message(body=b"%d" % number, tag=tags[number % len(tags)]), NOW_MS + number * 10)
    store.dispatch_to(store.log_end)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (0, GetStatus.FOUND, 5),
        (3, GetStatus.FOUND, 5),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
    ],
)
def test_results_by_offset(
    tmp_path: Path, offset: int, status: GetStatus, next_offset: int
) -> None:
    store = small_store(tmp_path)
    fill(store, 5)
    answer = store.query("T", 0, offset, 32)
    assert (answer.status, answer.next_offset, answer.min_offset, answer.max_offset) == (
        status,
        next_offset,
        0,
        5,
    )
    assert answer.messages == (5 - offset if status is GetStatus.FOUND else 0)


def test_a_queue_nobody_wrote_to_cannot_be_found(tmp_path: Path) -> None:
    answer = small_store(tmp_path).query("T", 0, 3, 32)
    assert (answer.status, answer.next_offset, answer.max_offset) == (
        GetStatus.NO_MATCHED_LOGIC_QUEUE,
        0,
        0,
    )


def test_a_queue_cut_to_nothing_has_no_message(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    fill(store, 2)
    store.truncate(0)
    answer = store.query("T", 0, 0, 32)
    assert (answer.status, answer.next_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)


def test_unconfirmed_messages_are_not_seen(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    fill(store, 2)
    store.put(message(), NOW_MS)
    assert store.query("T", 0, 2, 32).status is GetStatus.OFFSET_OVERFLOW_ONE


def test_a_late_replica_answers_too_small_below_its_first_message(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.append_raw(8192, encoded(message(body=b"late"), 33, 8192))
    store.dispatch_to(store.log_end)
    answer = store.query("T", 0, 5, 32)
    assert (answer.status, answer.next_offset, answer.max_offset) == (
        GetStatus.OFFSET_TOO_SMALL,
        33,
        34,
    )
    assert bodies(store) == [b"late"]


def test_tags_are_filtered_by_their_hash(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    fill(store, 9, tags="abc")
    answer = store.query("T", 0, 0, 32, {java_string_hash("b")})
    assert [read.fields.body for read in decode_messages(answer.body)] == [b"1", b"4", b"7"]
    assert answer.next_offset == 9
    assert store.query("T", 0, 0, 32, set()).messages == 0
    nothing = store.query("T", 0, 0, 32, {java_string_hash("z")})
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 9)


def test_negative_hashes_match_too(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    tag = "polygenelubricants"
    store.put(message(tag=tag), NOW_MS)
    store.dispatch_to(store.log_end)
    assert store.query("T", 0, 0, 32, {java_string_hash(tag)}).messages == 1


@pytest.mark.parametrize(("asked", "got"), [(1, 1), (10, 10), (32, 32), (64, 32), (0, 1)])
def test_at_most_32_messages_and_at_least_one(tmp_path: Path, asked: int, got: int) -> None:
    store = roomy_store(tmp_path)
    fill(store, 40)
    answer = store.query("T", 0, 0, asked)
    assert (answer.messages, answer.next_offset) == (got, got)


def test_at_most_262144_bytes_but_always_the_first(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    for size in (100_000, 100_000, 62_144, 200, 300_000):
        store.put(sized(size), NOW_MS)
    store.dispatch_to(store.log_end)
    assert len(store.query("T", 0, 0, 32).body) == 262_144
    assert store.query("T", 0, 3, 32).messages == 1
    assert len(store.query("T", 0, 4, 32).body) == 300_000


def test_at_most_800_entries_are_examined(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 22, queue_file_bytes=20_000))
    fill(store, 900)
    answer = store.query("T", 0, 0, 32, {java_string_hash("z")})
    assert (answer.status, answer.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 800)


def test_cold_messages_come_in_smaller_portions(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    fill(store, 40)
    queue = store.queues.get("T", 0)
    assert query.get_messages(store.log, queue, 0, 32, None, 0, CHECK).messages == 8


def test_messages_far_apart_and_in_several_files_are_read(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 20, queue_file_bytes=2000))
    for number in range(12):
        store.put(message(body=b"%d" % number), NOW_MS)
        store.put(sized(150_000, queue_id=1), NOW_MS)
    store.dispatch_to(store.log_end)
    assert bodies(store) == [b"%d" % number for number in range(12)]


def test_reading_an_entry_whose_bytes_are_gone_is_said(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    fill(store, 3)
    store.log.truncate(0)  # behind the store's back
    assert store.query("T", 0, 0, 32).status is GetStatus.MESSAGE_WAS_REMOVING


@pytest.mark.parametrize(
    "entry", [(1 << 40, 100, 0), (-5, 100, 0), (0, 1 << 30, 0), (0, -3, 0), (0, 0, 0)]
)
def test_an_entry_that_leads_nowhere_is_refused_and_nothing_behind_it_passed_over(
    tmp_path: Path, entry: tuple[int, int, int]
) -> None:
    store = small_store(tmp_path)
    fill(store, 12)
    queue = store.queues.get("T", 0)
    assert queue is not None
    queue.overwrite(5, pack_entry(*entry))
    answer = store.query("T", 0, 0, 32)
    assert (answer.messages, answer.next_offset) == (5, 5)
    answer = store.query("T", 0, 5, 32)
    assert (answer.status, answer.next_offset) == (
        GetStatus.RECORD_REFUSED,
        5,
    ) and answer.refused is not None


@pytest.mark.parametrize(
    "entry", [(1 << 40, 100, 0), (-5, 100, 0), (0, 1 << 30, 0), (0, -3, 0), (0, 0, 0), (120, 0, 0)]
)
@pytest.mark.parametrize("wanted", [6, 7, 12])
def test_a_damaged_entry_holds_up_no_sound_one_beside_it(
    tmp_path: Path, entry: tuple[int, int, int], wanted: int
) -> None:
    """Also where it is the last one that is read at once."""
    store = small_store(tmp_path)
    fill(store, 12)
    queue = store.queues.get("T", 0)
    assert queue is not None
    queue.overwrite(5, pack_entry(*entry))
    answer = store.query("T", 0, 0, wanted)
    assert (answer.messages, answer.next_offset) == (5, 5)
    answer = store.query("T", 0, 5, wanted)
    assert answer.refused is not None and (answer.refused.place.slot, answer.messages) == (5, 0)


class TrimmedLog:
    """A log whose files below `min_offset` are deleted while somebody reads."""

    def __init__(self, log: CommitLog, gone_below: int) -> None:
        self._log, self._gone_below = log, gone_below
        self.file_bytes, self.min_offset, self.end_offset = (
            log.file_bytes,
            log.min_offset,
            log.end_offset,
        )

    def read(self, offset: int, count: int) -> bytes:
        self.min_offset = self._gone_below
        return b"" if offset < self._gone_below else self._log.read(offset, count)


def test_behind_deleted_messages_reading_goes_on_with_the_next_log_file_and_skips_nothing(
    tmp_path: Path,
) -> None:
    store = small_store(tmp_path)
    fill(store, 60)
    queue = store.queues.get("T", 0)
    assert queue is not None and len(store.log.file_starts) > 1
    answer = query.get_messages(TrimmedLog(store.log, 4096), queue, 2, 32, None, 0, CHECK)  # type: ignore[arg-type]
    assert answer.status is GetStatus.MESSAGE_WAS_REMOVING
    first = decode_messages(store.query("T", 0, answer.next_offset, 1).body)[0]
    last_gone = decode_messages(store.query("T", 0, answer.next_offset - 1, 1).body)[0]
    assert last_gone.physical_offset < 4096 == first.physical_offset


def test_messages_that_cannot_be_read_now_are_not_passed_over(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=4096, queue_file_bytes=2000))
    fill(store, 60)
    reads = []

    class Once:
        file_bytes, min_offset, end_offset = 4096, 0, store.log_end

        def read(self, offset: int, count: int) -> bytes:
            reads.append(offset)
            return store.read_log(offset, count) if len(reads) == 1 else b""

    answer = query.get_messages(Once(), store.queues.get("T", 0), 30, 32, None, 1 << 30, CHECK)  # type: ignore[arg-type]
    assert len(reads) == 2
    assert answer.status is GetStatus.FOUND
    assert answer.next_offset == 30 + answer.messages == 30 + len(decode_messages(answer.body))


def test_an_entry_that_cannot_be_read_leads_to_the_next_queue_file_and_never_beyond_the_end(
    tmp_path: Path,
) -> None:
    store = small_store(tmp_path)  # 10 entries a file
    fill(store, 25)
    assert store.queue_bounds("T", 0) == (0, 25)
    os.truncate(tmp_path / "consumequeue/T/0" / f"{0:020}", 60)
    answer = store.query("T", 0, 4, 32)
    assert (answer.status, answer.next_offset) == (GetStatus.OFFSET_FOUND_NULL, 10)
    os.truncate(tmp_path / "consumequeue/T/0" / f"{400:020}", 20)
    answer = store.query("T", 0, 22, 32)
    assert (answer.status, answer.next_offset) == (GetStatus.OFFSET_FOUND_NULL, 25)


@pytest.mark.parametrize(
    ("ms", "lower", "upper"),
    [(-5, 0, 0), (0, 0, 0), (1, 1, 0), (10, 1, 1), (15, 2, 1), (40, 4, 4), (41, 5, 4), (999, 5, 4)],
)
def test_search_by_time(tmp_path: Path, ms: int, lower: int, upper: int) -> None:
    store = small_store(tmp_path)
    fill(store, 5)  # at 0, 10, 20, 30, 40
    assert store.offset_by_time("T", 0, NOW_MS + ms) == lower
    assert store.offset_by_time("T", 0, NOW_MS + ms, upper=True) == upper


@pytest.mark.parametrize("gap", [range(2, 3), range(3), range(1, 39), range(5, 40)])
def test_a_search_by_time_steps_over_slots_without_a_message(tmp_path: Path, gap: range) -> None:
    store = small_store(tmp_path)
    fill(store, 40)  # at 0, 10, ... 390
    queue = store.queues.get("T", 0)
    assert queue is not None
    for slot in gap:
        queue.overwrite(slot, FILLER)
    for slot in range(40):
        found = store.offset_by_time("T", 0, NOW_MS + 10 * slot)
        first = min([one for one in range(slot, 40) if one not in gap], default=40)
        last = max([one for one in range(slot) if one not in gap], default=-1)
        assert last < found <= first, (slot, found)


def test_a_search_by_time_passes_over_nothing_that_was_stored_by_a_later_clock(
    tmp_path: Path,
) -> None:
    """The clock of the master that came next is an hour behind."""
    store = small_store(tmp_path)
    for start_ms, count in ((NOW_MS, 300), (NOW_MS - 3_600_000, 800)):
        for number in range(count):
            store.put(message(), start_ms + number)
    store.dispatch_to(store.log_end)
    for number in (0, 10, 150, 299):
        assert store.offset_by_time("T", 0, NOW_MS + number) == number


def test_times_of_messages_with_an_ipv6_host(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(replace(message(), born_host=bytes(20)), NOW_MS + 7)
    store.dispatch_to(store.log_end)
    assert store.earliest_store_ms("T", 0) == NOW_MS + 7


def test_times_of_queues_without_messages(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    assert (store.earliest_store_ms("T", 0), store.offset_by_time("T", 0, 5)) == (-1, 0)


def test_a_pull_without_filter_reads_no_more_entries_than_it_can_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 22, queue_file_bytes=20_000))
    fill(store, 900)
    read = []
    real = ConsumeQueue.read
    monkeypatch.setattr(
        ConsumeQueue,
        "read",
        lambda queue, slot, count: read.append(count) or real(queue, slot, count),
    )
    assert store.query("T", 0, 0, 32).messages == 32
    assert sum(count for count in read if count > 1) == query.ENTRIES_AT_FIRST
    assert store.query("T", 0, 0, 32, {java_string_hash("z")}).next_offset == 800


class Numbers:
    """Wants messages by a property; every text that it was shown is kept."""

    def __init__(self, wanted: set[bytes], cost: int = 1) -> None:
        self._wanted, self.cost = wanted, cost
        self.shown: list[bytes] = []

    def matches(self, properties: bytes) -> bool:
        self.shown.append(properties)
        return property_value(properties, b"N") in self._wanted


def numbered(store: MessageStore, count: int, body: bytes = b"x") -> None:
    for number in range(count):
        one = message(body=body)
        store.put(replace(one, properties=b"N\x01%d\x02" % number), NOW_MS)
    store.dispatch_to(store.log_end)


def test_messages_are_chosen_by_their_properties(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    numbered(store, 100)
    answer = store.query("T", 0, 0, 32, wants=Numbers({b"3", b"70", b"99"}))
    assert [one.queue_offset for one in decode_messages(answer.body)] == [3, 70, 99]
    assert (answer.status, answer.messages, answer.next_offset) == (GetStatus.FOUND, 3, 100)
    nothing = store.query("T", 0, 10, 32, wants=Numbers(set()))
    assert (nothing.status, nothing.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 100)
    assert nothing.body == b"" and nothing.max_offset == 100


def test_what_matches_stops_at_the_limits_of_a_pull(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    numbered(store, 100)
    every = Numbers({b"%d" % number for number in range(0, 100, 2)})
    answer = store.query("T", 0, 0, 5, wants=every)
    assert [one.queue_offset for one in decode_messages(answer.body)] == [0, 2, 4, 6, 8]
    assert store.query("T", 0, answer.next_offset, 1, wants=every).next_offset == 11
    assert store.query("T", 0, 0, 99, wants=every).messages == 32
    cold = query.get_messages(
        store.log, store.queues.get("T", 0), 0, 32, None, 0, CHECK, Numbers({b"1", b"5"})
    )
    assert cold.messages == 2
    cold = query.get_messages(store.log, store.queues.get("T", 0), 0, 32, None, 0, CHECK, every)
    assert cold.messages == query.COLD_MESSAGES_MAX


def test_large_messages_are_tested_up_to_a_number_of_bytes(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 25, queue_file_bytes=2000))
    numbered(store, 12, bytes(1 << 20))
    passed = store.query("T", 0, 0, 32, wants=Numbers(set()))
    assert (passed.status, passed.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3)
    found = store.query("T", 0, 0, 32, wants=Numbers({b"1", b"2"}))
    assert (found.messages, found.next_offset) == (1, 2)


def test_a_dear_test_is_made_of_fewer_messages(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 22, queue_file_bytes=20_000))
    numbered(store, 900)
    assert store.query("T", 0, 0, 32, wants=Numbers(set())).next_offset == 800
    dear = Numbers(set(), cost=matching.PARTS_ASKED_MAX // 7)
    assert store.query("T", 0, 0, 32, wants=dear).next_offset == 7 and len(dear.shown) == 7
    dearest = Numbers(set(), cost=matching.PARTS_ASKED_MAX * 2)
    assert store.query("T", 0, 0, 32, wants=dearest).next_offset == 1


def test_tags_and_properties_must_both_match(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    fill(store, 10, "ab")
    every = Numbers({None})  # type: ignore[arg-type]
    answer = store.query("T", 0, 0, 32, {java_string_hash("b")}, every)
    assert answer.messages == 5 and len(every.shown) == 5


def test_of_a_damaged_message_nobody_knows_whether_it_matches(tmp_path: Path) -> None:
    store = roomy_store(tmp_path)
    numbered(store, 6)
    place = store.queues.get("T", 0).read(3, 1)[0].physical_offset  # type: ignore[union-attr]
    log_file = next((tmp_path / "commitlog").iterdir())
    with log_file.open("r+b") as file:
        file.seek(place + 88)
        file.write(b"?")
    wants = Numbers({b"1", b"5"})
    first = store.query("T", 0, 0, 32, wants=wants)
    assert (first.messages, first.next_offset) == (1, 3) and first.refused is not None
    passed = store.query("T", 0, 2, 32, wants=wants)
    assert (passed.status, passed.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3)
    there = store.query("T", 0, 3, 32, wants=wants)
    assert there.status is GetStatus.RECORD_REFUSED and there.body == b""
    assert store.query("T", 0, 4, 32, wants=wants).messages == 1
