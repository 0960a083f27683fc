"""Messages in entries: offsets there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.majority.entry import Entry
from brokers.majority.positions import (
    dividing_offset,
    entry_end,
    entry_position,
    is_before_entries,
    messages,
    next_message,
    physical_offset,
)


@given(st.integers(0, 1 << 60))
def test_a_message_lies_a_head_behind_its_entry(position: int) -> None:
    assert physical_offset(position) == position + 48
    assert entry_position(physical_offset(position)) == position


@pytest.mark.parametrize("offset", [-1, 0, 47])
def test_no_message_begins_where_only_a_head_fits(offset: int) -> None:
    with pytest.raises(ValueError, match="no message"):
        entry_position(offset)


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 22))
def test_consumers_read_up_to_the_end_of_a_committed_entry(position: int, size: int) -> None:
    end = entry_end(position, size)
    assert end == physical_offset(position) + size
    assert next_message(physical_offset(position), size) == physical_offset(end)


@pytest.mark.parametrize(("starts", "dividing"), [((), 0), ((0,), 1024), ((2048, 3072), 4096)])
def test_entries_begin_behind_the_last_file_of_an_older_log(
    starts: tuple[int, ...], dividing: int
) -> None:
    assert dividing_offset(starts, 1024) == dividing
    assert not is_before_entries(dividing, dividing)
    assert is_before_entries(dividing - 1, dividing)


def test_what_has_no_body_holds_no_message() -> None:
    entries = [Entry(0, 1, 0, b"one"), Entry(1, 1, 51, b""), Entry(2, 1, 99, b"two")]
    assert messages(entries) == [(48, b"one"), (147, b"two")]
