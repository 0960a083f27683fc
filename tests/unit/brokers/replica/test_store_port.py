"""Cutting the log of a real store on behalf of a replica."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.replica.effects import (
    CompareLog,
    CutDiverged,
    CutIncompleteTail,
    FindRecord,
    TruncateLog,
)
from brokers.replica.store_port import complete_end, cut, cut_diverged, equal_bytes, has_record
from brokers.store.files.errors import LogError
from brokers.store.store import MessageStore, StoreConfig
from tests.support.replica_process import message

FILE_BYTES = 1 << 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    opened = MessageStore(tmp_path, StoreConfig(log_file_bytes=FILE_BYTES))
    yield opened
    opened.close()


def ends(store: MessageStore, count: int, body: bytes = b"x" * 50) -> list[int]:
    return [store.put(message(body), 1).end_offset for _ in range(count)]


def test_a_log_is_cut_where_a_record_starts_and_nowhere_else(store: MessageStore) -> None:
    marks = ends(store, 3)
    assert cut(store, TruncateLog(marks[0] + 1, 1, "test"), FILE_BYTES) == (False, marks[2])
    assert cut(store, TruncateLog(marks[0], 1, "test"), FILE_BYTES) == (True, marks[0])
    assert cut(store, TruncateLog(marks[0], 1, "test"), FILE_BYTES) == (True, marks[0])
    assert cut(store, TruncateLog(0, 1, "test"), FILE_BYTES) == (True, 0)


def test_a_whole_log_stays_as_it_is(store: MessageStore) -> None:
    marks = ends(store, 3)
    assert cut(store, CutIncompleteTail(), FILE_BYTES) == (True, marks[2])
    assert store.log_end == marks[2]


@pytest.mark.parametrize("kept", [1, 7, 8, 60])
def test_an_incomplete_record_at_the_end_is_cut(
    store: MessageStore, tmp_path: Path, kept: int
) -> None:
    marks = ends(store, 3)
    data = store.read_log(0, marks[2])
    store.truncate(0)
    store.append_raw(0, data[: marks[1] + kept])
    assert cut(store, CutIncompleteTail(), FILE_BYTES) == (True, marks[1])


@pytest.mark.parametrize("kept", [1, 7, 8, 60])
def test_a_log_is_cut_where_a_record_starts_that_has_not_arrived_whole(
    store: MessageStore, kept: int
) -> None:
    """Else such a replica could never follow a master whose log ends right there."""
    marks = ends(store, 3)
    data = store.read_log(0, marks[2])
    store.truncate(0)
    store.append_raw(0, data[: marks[1] + kept])
    assert cut(store, TruncateLog(marks[1] - 1, 1, "test"), FILE_BYTES) == (False, marks[1] + kept)
    assert cut(store, TruncateLog(marks[1], 1, "test"), FILE_BYTES) == (True, marks[1])


def test_an_incomplete_end_of_file_is_cut(store: MessageStore) -> None:
    marks = ends(store, 3, b"x" * 30_000)  # the third begins a new file
    head = store.read_log(0, FILE_BYTES)
    store.truncate(0)
    store.append_raw(0, head[: marks[1] + 20])
    assert cut(store, CutIncompleteTail(), FILE_BYTES) == (True, marks[1])


def test_a_log_that_cannot_be_read_in_the_middle_is_not_cut_but_refused(
    store: MessageStore,
) -> None:
    marks = ends(store, 3)
    data = bytearray(store.read_log(0, marks[2]))
    store.truncate(0)
    data[marks[0] + 4] ^= 0xFF  # the magic of the second record
    store.append_raw(0, bytes(data))
    with pytest.raises(LogError, match="cannot be read at"):
        complete_end(store, FILE_BYTES)


def test_a_whole_record_that_a_slave_acknowledged_is_found_and_the_first_bytes_of_one_are_not(
    store: MessageStore,
) -> None:
    marks = ends(store, 3)
    asked = {
        (0, marks[0]): True,
        (0, marks[2]): True,
        (marks[1], marks[2]): True,
        (0, marks[0] - 1): False,
        (marks[1], marks[1] + 4): False,
        (marks[1], marks[2] - 1): False,
        (marks[1], marks[1]): False,
    }
    assert {one: has_record(store, FindRecord(2, *one), FILE_BYTES) for one in asked} == asked


def test_where_nothing_can_be_read_a_record_counts_as_gone(store: MessageStore) -> None:
    """No start of a record, deleted already, or beyond the end: nothing says that the slave has
    it.
    """
    marks = ends(store, 3)
    for offset, below in ((marks[0] + 1, marks[2]), (-1, marks[0]), (marks[2], marks[2] + 10)):
        assert has_record(store, FindRecord(2, offset, below), FILE_BYTES)


def test_the_blank_end_of_a_file_is_no_record(store: MessageStore) -> None:
    (end,) = ends(store, 1, b"x" * (FILE_BYTES - 500))
    ends(store, 1, b"x" * 1000)  # begins the next file
    assert not has_record(store, FindRecord(2, end, FILE_BYTES), FILE_BYTES)
    assert has_record(store, FindRecord(2, end, store.log_end), FILE_BYTES)


def test_bytes_are_compared_from_the_front(store: MessageStore) -> None:
    end = ends(store, 5)[-1]
    here = store.read_log(0, end)
    assert equal_bytes(store, CompareLog(0, here)) == end
    assert equal_bytes(store, CompareLog(7, here[7:40] + b"?")) == 33
    assert equal_bytes(store, CompareLog(0, here + b"beyond")) == end
    other = bytearray(here)
    other[50] ^= 1
    assert equal_bytes(store, CompareLog(0, bytes(other))) == 50


def test_a_log_that_went_its_own_way_is_cut_at_a_record_and_the_rest_is_kept(
    store: MessageStore, tmp_path: Path
) -> None:
    marks = ends(store, 6)
    here = store.read_log(0, marks[-1])
    above = marks[1] + 3  # within the third record
    assert cut_diverged(store, CutDiverged(marks[2] - 1, above, "t")) == (False, marks[-1])
    assert cut_diverged(store, CutDiverged(marks[4] - 1, above, "t")) == (True, marks[3])
    assert store.read_log(0, marks[-1]) == here[: marks[3]]
    (kept,) = (tmp_path / "cutAtStart").iterdir()
    assert kept.read_bytes() == here[marks[3] :]
    assert cut_diverged(store, CutDiverged(marks[2], above, "t")) == (True, marks[2])


def test_what_looks_like_a_record_in_a_body_is_no_place_to_cut(store: MessageStore) -> None:
    first = ends(store, 1)[0]
    second = ends(store, 1, store.read_log(0, first))[0]
    assert cut_diverged(store, CutDiverged(second - 1, first - 1, "t")) == (True, first)
