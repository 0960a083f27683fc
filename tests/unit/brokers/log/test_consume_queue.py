"""Consume queue files: entries, late starts, cuts, many queues."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.log.commit_log import LogError
from brokers.log.consume_queue import ENTRY_BYTES, GAP_ENTRIES_MAX, ConsumeQueues, Entry, pack_entry
from tests.unit.brokers.log.log_samples import GOLDEN

FILE = 10 * ENTRY_BYTES


def open_queues(root: Path, open_files_max: int = 16) -> ConsumeQueues:
    return ConsumeQueues(root, FILE, open_files_max)


def fill(queues: ConsumeQueues, slots: range, queue_id: int = 0, step: int = 100) -> None:
    queue = queues.get_or_create("T", queue_id)
    assert queue is not None
    for slot in slots:
        queue.append(slot, pack_entry(slot * step, step, 0), slot * step)


def anywhere(queue: object, key: tuple[str, int], slot: int) -> bool:
    """Every entry leads to its message."""
    return True


def test_entries_of_the_real_broker_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "Life" / "1"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes((GOLDEN / "consumequeue__Life__1").read_bytes())
    queue = ConsumeQueues(tmp_path, 400).get("Life", 1)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical) == (10, 6782)
    assert queue.read(3, 2) == [Entry(1300, 259, 2598920), Entry(1820, 336, 2598921)]


def test_entries_survive_reopening_over_file_borders(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queue = queues.get_or_create("T", 3)
    assert queue is not None
    for slot in range(0, 25, 5):
        queue.append(slot, b"".join(pack_entry((slot + k) * 7, 7, -k) for k in range(5)), (slot + 4) * 7)
    queues.close()
    again = open_queues(tmp_path).get("T", 3)
    assert again is not None
    assert (again.max_offset, again.last_physical) == (25, 168)
    assert [entry for at in range(0, 25, 10) for entry in again.read(at, 99)] == [
        Entry(slot * 7, 7, -(slot % 5)) for slot in range(25)
    ]


def test_reading_ends_at_a_file_end_and_outside_is_empty(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(15))
    queue = queues.get("T", 0)
    assert queue is not None
    assert (len(queue.read(8, 10)), len(queue.read(10, 10)), queue.read(15, 1), queue.read(99, 1)) == (2, 5, [], [])


def test_an_entry_given_twice_is_kept_once(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queue = queues.get_or_create("T", 0)
    assert queue is not None
    two = pack_entry(0, 10, 1) + pack_entry(10, 10, 2)
    assert queue.append(0, two, 10) == 2
    assert queue.append(0, two, 10) == 0
    assert queue.append(1, two[ENTRY_BYTES:] + pack_entry(20, 10, 3), 20) == 1
    assert [entry.tags_code for entry in queue.read(0, 9)] == [1, 2, 3]


def test_a_late_start_is_filled_up_in_its_own_file(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(37, 39))
    queue = queues.get("T", 0)
    assert queue is not None
    assert os.listdir(tmp_path / "T" / "0") == [f"{30 * ENTRY_BYTES:020d}"]
    assert queue.read(30, 7) == [Entry(0, 0x7FFFFFFF, 0)] * 7
    assert (queue.min_offset(3000), queue.max_offset) == (37, 39)
    queues.close()
    again = open_queues(tmp_path).get("T", 0)
    assert again is not None
    assert (again.min_offset(3000), again.max_offset) == (37, 39)


def test_a_jump_inside_a_queue_is_filled_but_not_without_bound(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(2))
    fill(queues, range(5, 6))
    queue = queues.get("T", 0)
    assert queue is not None
    assert [0 < entry.size < 1000 for entry in queue.read(0, 6)] == [True, True, False, False, False, True]
    with pytest.raises(LogError, match="jumps"):
        queue.append(GAP_ENTRIES_MAX + 7, pack_entry(1, 1, 1), 1)


@pytest.mark.parametrize("cut", range(26))
def test_a_cut_removes_exactly_the_entries_at_or_above_it(tmp_path: Path, cut: int) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(25))
    queues.truncate(cut * 100, anywhere)
    queue = queues.get("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical) == (cut, cut * 100 - 100 if cut else -1)
    queues.close()
    again = open_queues(tmp_path)
    reopened = again.get("T", 0)
    assert (reopened.max_offset if reopened else 0) == cut
    fill(again, range(cut, cut + 3))
    reopened = again.get("T", 0)
    assert reopened is not None
    assert reopened.max_offset == cut + 3


def test_a_cut_between_messages_keeps_what_lies_below(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(5))
    queues.truncate(250, anywhere)
    queue = queues.get("T", 0)
    assert queue is not None
    assert queue.max_offset == 3


def test_a_damaged_newest_entry_hides_none_that_has_to_go(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(24))
    queue = queues.get("T", 0)
    assert queue is not None
    queue.append(24, pack_entry(100, 100, 0), 100)
    queues.truncate(2000, lambda queue, key, slot: slot != 24)
    assert (queue.max_offset, queue.last_physical) == (20, 1900)


def test_a_late_queue_cut_to_nothing_is_empty(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(37, 39))
    queues.truncate(3000, anywhere)
    queue = queues.get("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical) == (0, -1)


@pytest.mark.parametrize(
    ("broken", "durable_below", "kept"),
    [(24, 2400, 24), (12, 1500, 12), (12, 1000, 10), (3, 400, 3), (3, 0, 0), (20, 2000, 20), (20, 1100, 11)],
)
def test_after_a_loss_of_power_entries_count_up_to_the_first_broken_one(
    tmp_path: Path, broken: int, durable_below: int, kept: int
) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(25))
    queues.close()
    path = tmp_path / "T" / "0" / f"{broken * ENTRY_BYTES // FILE * FILE:020d}"
    data = bytearray(path.read_bytes())
    at = broken * ENTRY_BYTES % FILE
    data[at : at + ENTRY_BYTES] = bytes(ENTRY_BYTES)
    path.write_bytes(data)
    again = open_queues(tmp_path)
    again.keep_valid_below(durable_below)
    queue = again.get("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical) == (kept, kept * 100 - 100 if kept else -1)


@given(log_min=st.integers(0, 2600))
def test_the_minimum_is_the_first_entry_whose_message_is_kept(tmp_path_factory: pytest.TempPathFactory, log_min: int) -> None:
    root = tmp_path_factory.getbasetemp() / "minimum"
    queues = open_queues(root)
    fill(queues, range(25))
    queue = queues.get("T", 0)
    assert queue is not None
    assert queue.min_offset(log_min) == min(-(-log_min // 100), 25)
    queues.close()


def test_many_queues_share_a_bounded_number_of_open_files(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    queues = open_queues(tmp_path, open_files_max=4)
    for round_number in range(3):
        for queue_id in range(40):
            fill(queues, range(round_number * 4, round_number * 4 + 4), queue_id)
    assert len(os.listdir("/proc/self/fd")) <= before + 4
    assert {queue.max_offset for _, queue in queues} == {12}
    files, folders = queues.take_unsynced()
    assert len(files) == 80
    assert len(folders) == 42
    queues.close()


@pytest.mark.parametrize(("topic", "queue_id"), [("../x", 0), ("", 0), ("a/b", 0), ("T", -1), ("t" * 256, 0)])
def test_names_that_cannot_be_folders_get_no_queue(tmp_path: Path, topic: str, queue_id: int) -> None:
    assert open_queues(tmp_path).get_or_create(topic, queue_id) is None


def test_files_of_another_size_are_refused(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(2))
    queues.close()
    with pytest.raises(LogError, match="remove the consumequeue folder"):
        ConsumeQueues(tmp_path, 2 * FILE)
    with pytest.raises(LogError, match="multiple of 20"):
        ConsumeQueues(tmp_path, 199)


def test_a_file_left_without_bytes_by_a_crash_is_dropped(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(10))
    queues.close()
    (tmp_path / "T" / "0" / f"{FILE:020d}").touch()
    queue = open_queues(tmp_path).get("T", 0)
    assert queue is not None
    assert queue.max_offset == 10


def test_the_file_behind_a_slot_begins_at_the_next_multiple(tmp_path: Path) -> None:
    queue = open_queues(tmp_path).get_or_create("T", 0)
    assert queue is not None
    assert [queue.next_file(slot) for slot in (0, 9, 10, 25)] == [10, 10, 20, 30]


def test_filler_at_a_files_border_does_not_take_messages_along(tmp_path: Path) -> None:
    """Files of ten entries; a message of the first one is still kept, and the second begins with filler."""
    queues = open_queues(tmp_path)
    fill(queues, range(9))
    fill(queues, range(12, 23))
    queue = queues.get("T", 0)
    assert queue is not None
    before = queue.read(8, 1)[0].physical_offset
    queue.trim(before)
    assert queue.read(8, 1)[0].physical_offset == before
    queue.trim(queue.read(20, 1)[0].physical_offset + 1)
    assert queue.read(8, 1) == [] and queue.read(22, 1)


def test_opening_many_queues_reads_only_where_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = ConsumeQueues(tmp_path, 300_000 * ENTRY_BYTES)
    for number in range(1000):
        count = 2000 if number % 10 == 0 else 1
        entries = b"".join(pack_entry(100 * slot, 100, 0) for slot in range(count))
        queue = queues.get_or_create(f"T{number % 20}", number // 20)
        assert queue is not None
        queue.append(0, entries, 100 * (count - 1))
    queues.close()
    read, real = [0], os.pread

    def counted(fd: int, count: int, position: int) -> bytes:
        data = real(fd, count, position)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    again = ConsumeQueues(tmp_path, 300_000 * ENTRY_BYTES)
    assert sum(queue.max_offset for _, queue in again) == 100 * 2000 + 900
    assert read[0] < 1000 * 10_000  # not the six megabytes of each
    again.close()
