"""The index: records at their places, cut, made again, trimmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.majority.entry import Entry
from brokers.majority.store.index import EntryIndex
from brokers.majority.store.layout import encode_index_record
from brokers.store.files.errors import LogError
from brokers.store.log.commit_log import CommitLog

FILE = 1_024  # 32 records


def made(root: Path, first: int, count: int) -> EntryIndex:
    index = EntryIndex(CommitLog(root, FILE))
    for number in range(first, first + count):
        append(index, Entry(number, 2, 100 * number, bytes(20)))
    return index


def append(index: EntryIndex, entry: Entry) -> None:
    index.append(entry.index, encode_index_record(entry))


@pytest.mark.parametrize("first", [0, 5, 31, 32, 1000])
def test_records_lie_at_32_bytes_times_their_index(tmp_path: Path, first: int) -> None:
    index = made(tmp_path, first, 40)
    assert index.log.end_offset == 32 * (first + 40)
    assert index.log.file_starts[0] == first * 32 // FILE * FILE
    for number in range(first, first + 40):
        assert index.record(number) == (1, 100 * number, 68, number, 2)
    assert index.find(first - 1) is index.find(first + 40) is None


def test_many_records_are_read_up_to_a_files_end(tmp_path: Path) -> None:
    index = made(tmp_path, 0, 40)
    assert [record.index for record in index.records(30, 10)] == [30, 31]
    assert [record.index for record in index.records(32, 3)] == [32, 33, 34]


def test_a_record_that_is_another_ones_is_refused(tmp_path: Path) -> None:
    index = made(tmp_path, 0, 3)
    path = tmp_path / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[32:64] = data[64:96]
    path.write_bytes(bytes(data))
    with pytest.raises(LogError, match="index record 1"):
        index.record(1)
    with pytest.raises(LogError, match="index records from 0"):
        index.records(0, 3)


@pytest.mark.parametrize("cut", [0, 5, 31, 32, 33, 39, 40])
def test_after_a_cut_it_goes_on_there(tmp_path: Path, cut: int) -> None:
    index = made(tmp_path, 0, 40)
    index.cut_from(cut)
    assert index.log.end_offset == 32 * cut
    append(index, Entry(cut, 3, 7, b""))
    assert index.record(cut).term == 3 and index.find(cut + 1) is None


@pytest.mark.parametrize("again", [0, 10, 60, 64, 90, 5_000])
def test_it_is_made_again_from_any_index(tmp_path: Path, again: int) -> None:
    index = made(tmp_path, 50, 20)
    index.restart_from(again)
    append(index, Entry(again, 3, 7, b""))
    assert index.record(again).term == 3 and index.log.end_offset == 32 * (again + 1)
    assert (index.find(50) is not None) is (50 < again <= 70)


@pytest.mark.parametrize(
    ("position", "index"), [(0, 50), (5_000, 50), (5_001, 51), (6_899, 69), (9_999, 69)]
)
def test_the_first_entry_at_a_position(tmp_path: Path, position: int, index: int) -> None:
    assert made(tmp_path, 50, 20).first_at(position, 69) == index


def test_files_that_hold_no_needed_record_go(tmp_path: Path) -> None:
    index = made(tmp_path, 0, 100)
    gone = index.trim(70)
    assert [path.name for path in gone] == [f"{0:020d}", f"{FILE:020d}"]
    assert index.find(63) is None and index.record(64).index == 64


def test_an_index_file_holds_whole_records(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="multiple of 32"):
        EntryIndex(CommitLog(tmp_path, FILE + 8))
