"""Files of a consume queue: entries, late starts, cuts, gaps."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.files.errors import LogError
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.entries import ENTRY_BYTES, GAP_ENTRIES_MAX, Entry, pack_entry
from tests.unit.brokers.store.log_samples import GOLDEN, fill, open_queues
from tests.unit.brokers.store.log_samples import QUEUE_FILE as FILE


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
        queue.append(
            slot, b"".join(pack_entry((slot + k) * 7, 7, -k) for k in range(5)), (slot + 4) * 7
        )
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
    assert (
        len(queue.read(8, 10)),
        len(queue.read(10, 10)),
        queue.read(15, 1),
        queue.read(99, 1),
    ) == (2, 5, [], [])


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
    assert [0 < entry.size < 1000 for entry in queue.read(0, 6)] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]
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


@pytest.mark.parametrize(
    ("first", "cut", "end"), [(37, 3000, 37), (37, 0, 37), (10, 1000, 10), (12, 0, 12)]
)
def test_a_queue_cut_to_nothing_goes_on_where_it_began(
    tmp_path: Path, first: int, cut: int, end: int
) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(first, first + 14))
    queues.truncate(cut, anywhere)
    for opened in (queues, open_queues(tmp_path)):
        queue = opened.get("T", 0)
        assert queue is not None
        assert (queue.max_offset, queue.last_physical, queue.min_offset(0)) == (end, -1, end)
    fill(queues, range(end, end + 3))
    again = open_queues(tmp_path).get("T", 0)
    assert again is not None
    assert (again.min_offset(0), again.max_offset) == (end, end + 3)


def test_a_cut_that_takes_the_only_file_left_keeps_the_place_to_go_on(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(12))
    queues.trim(1000)
    queues.truncate(1000, anywhere)
    for opened in (queues, open_queues(tmp_path)):
        queue = opened.get("T", 0)
        assert queue is not None
        assert (queue.min_offset(1000), queue.max_offset) == (10, 10)


def test_a_queue_without_messages_begins_wherever_its_master_does(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(37, 39))
    queues.truncate(0, anywhere)
    fill(queues, range(14, 17))
    for opened in (queues, open_queues(tmp_path)):
        queue = opened.get("T", 0)
        assert queue is not None
        assert (queue.min_offset(0), queue.max_offset, len(queue.read(14, 9))) == (14, 17, 3)


@pytest.mark.parametrize(
    ("broken", "durable_below", "kept", "lacks_from"),
    [
        (24, 2400, 24, None),
        (12, 1500, 15, None),
        (12, 1000, 10, None),
        (3, 400, 3, 200),
        (3, 0, 0, None),
        (20, 2000, 20, 1900),
        (20, 2100, 20, 1900),
        (20, 1100, 11, None),
        (0, 100, 0, 0),
        (7, 10_000, 25, None),
    ],
)
def test_after_a_loss_of_power_entries_are_kept_up_to_the_last_durable_one(
    tmp_path: Path, broken: int, durable_below: int, kept: int, lacks_from: int | None
) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(25))
    queues.close()
    zeroed(tmp_path, broken)
    again = open_queues(tmp_path)
    again.keep_valid_below(durable_below)
    queue = again.get("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical) == (kept, kept * 100 - 100 if kept else -1)
    assert again.lacks_from() == lacks_from


def zeroed(root: Path, slot: int) -> None:
    """Nothing is where the entry of a slot was."""
    at = slot * ENTRY_BYTES
    with (root / "T" / "0" / f"{at // FILE * FILE:020d}").open("r+b") as file:
        os.pwrite(file.fileno(), bytes(ENTRY_BYTES), at % FILE)


def test_durable_entries_behind_a_gap_stay_after_a_loss_of_power(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(2))
    fill(queues, range(18, 29))
    queues.keep_valid_below(2500)
    queue = queues.get("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical, queues.lacks_from()) == (25, 2400, None)
    queues.keep_valid_below(500)
    assert (queue.max_offset, queue.last_physical, queues.lacks_from()) == (2, 100, None)


def test_an_entry_that_lost_its_first_bytes_is_not_taken_for_a_durable_one(tmp_path: Path) -> None:
    """The page in front of it was never written: zeros, and of this entry only size and tags code
    are there.
    """
    queues = open_queues(tmp_path)
    fill(queues, range(9))
    queues.close()
    for slot in (5, 6):
        zeroed(tmp_path, slot)
    with (tmp_path / "T" / "0" / f"{0:020d}").open("r+b") as file:
        os.pwrite(file.fileno(), bytes(8), 7 * ENTRY_BYTES)
    again = open_queues(tmp_path)
    again.keep_valid_below(500)
    queue = again.get("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical) == (5, 400)


def test_filler_that_says_where_to_go_on_outlives_a_loss_of_power(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(37, 39))
    queues.keep_valid_below(100)
    queue = queues.get("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.last_physical) == (37, -1)


def test_a_file_without_bytes_between_others_is_told_and_filled_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(35))
    queues.close()
    lost = tmp_path / "T" / "0" / f"{FILE:020d}"
    lost.write_bytes(b"")
    again = open_queues(tmp_path)
    queue = again.get("T", 0)
    assert queue is not None
    assert str(lost) in caplog.text
    assert (queue.max_offset, again.lacks_from()) == (35, 900)
    fill(again, range(9, 35))
    assert [entry.physical_offset for slot in range(35) for entry in queue.read(slot, 1)] == list(
        range(0, 3500, 100)
    )
    assert again.take_unsynced().files == [str(lost)]


@given(log_min=st.integers(0, 2600))
def test_the_minimum_is_the_first_entry_whose_message_is_kept(
    tmp_path_factory: pytest.TempPathFactory, log_min: int
) -> None:
    root = tmp_path_factory.getbasetemp() / "minimum"
    queues = open_queues(root)
    fill(queues, range(25))
    queue = queues.get("T", 0)
    assert queue is not None
    assert queue.min_offset(log_min) == min(-(-log_min // 100), 25)
    queues.close()


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
    """Files of ten entries; a message of the first one is still kept, and the second begins with
    filler.
    """
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


def test_a_newer_message_does_not_take_the_slot_of_another_one(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    fill(queues, range(5))
    fill(queues, range(5))
    queue = queues.get("T", 0)
    assert queue is not None and queue.taken is None
    assert queue.append(3, pack_entry(900, 50, 0), 900) == 0
    assert queue.taken == (3, 900, 50)
    assert [entry.physical_offset for entry in queue.read(0, 9)] == [0, 100, 200, 300, 400]


class BadPages:
    """Pages of files below a folder that can be neither read nor written in part, until they are
    written whole.
    """

    def __init__(self, patch: pytest.MonkeyPatch, bad: set[tuple[str, int]]) -> None:
        self.bad = bad
        read, write = os.pread, os.pwrite

        def pread(fd: int, count: int, position: int) -> bytes:
            self._touch(fd, position, position + count)
            return read(fd, count, position)

        def pwrite(fd: int, data: bytes, position: int) -> int:
            name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
            whole = range(-(-position // 4096), (position + len(data)) // 4096)
            self.bad -= {(name, page) for page in whole}
            self._touch(fd, position, position + len(data))
            return write(fd, data, position)

        patch.setattr(os, "pread", pread)
        patch.setattr(os, "pwrite", pwrite)

    def _touch(self, fd: int, first: int, last: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        if any((name, page) in self.bad for page in range(first // 4096, -(-last // 4096))):
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_entries_on_a_page_that_cannot_be_read_say_nothing_and_get_another_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = ConsumeQueues(tmp_path, 1000 * ENTRY_BYTES, 16)
    queue = queues.get_or_create("T", 0)
    assert queue is not None
    queue.append(0, b"".join(pack_entry(100 * slot, 100, 7) for slot in range(700)), 69_900)
    disk = BadPages(monkeypatch, {(f"{0:020d}", 1)})
    found = queue.read(0, 700)
    lost = [slot for slot, entry in enumerate(found) if entry != (100 * slot, 100, 7)]
    assert all(found[slot] == (0, 0, 0) for slot in lost)
    assert len(found) == 700 and lost == [*range(4096 // 20, 8192 // 20 + 1)]
    for slot in lost:
        queue.overwrite(slot, pack_entry(100 * slot, 100, 7))
    assert not disk.bad and [entry.physical_offset for entry in queue.read(0, 700)] == [
        *range(0, 70_000, 100)
    ]
