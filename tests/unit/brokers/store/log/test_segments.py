"""Numbers of logs kept in files of one size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.segments import (
    file_name,
    file_start,
    first_gap,
    needs_new_file,
    split_by_file,
    start_of_name,
)


@given(st.integers(0, 10**19))
def test_a_file_name_means_the_offset_it_was_made_of(start: int) -> None:
    assert len(file_name(start)) == 20
    assert start_of_name(file_name(start)) == start


@pytest.mark.parametrize(
    "name", ["", "0" * 19, "0" * 21, "0" * 19 + "x", "²" * 20, "00000000000000000000.tmp"]
)
def test_other_names_mean_nothing(name: str) -> None:
    assert start_of_name(name) is None


@pytest.mark.parametrize(
    ("starts", "gap"),
    [
        ([], None),
        ([0], None),
        ([200, 300], None),
        ([0, 200], 100),
        ([50], 50),
        ([0, 100, 150], 200),
    ],
)
def test_gaps_between_files_are_found(starts: list[int], gap: int | None) -> None:
    assert first_gap(starts, 100) == gap


@pytest.mark.parametrize(
    ("left", "size", "new"), [(108, 100, False), (107, 100, True), (8, 1, True)]
)
def test_a_blank_record_must_fit_behind_a_record(left: int, size: int, new: bool) -> None:
    assert needs_new_file(left, size) is new


@given(st.integers(0, 10_000), st.integers(0, 2_000), st.integers(1, 300))
def test_pieces_cover_the_range_and_cross_no_file(offset: int, count: int, file_bytes: int) -> None:
    pieces = split_by_file(offset, count, file_bytes)
    assert sum(size for _, size in pieces) == count
    at = offset
    for start, size in pieces:
        assert start == at
        assert file_start(start, file_bytes) == file_start(start + size - 1, file_bytes)
        at += size
