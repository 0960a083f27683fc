"""Decisions of opening a store, on numbers alone; on files in test_recovery.py."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.records import Record
from brokers.store.recovery.plan import (
    Confirmed,
    FileFacts,
    Known,
    Plan,
    plan,
    scan_from,
    settle,
    settle_empty,
)

FILE = 1000
# three files and one that was only made
FILES = [FileFacts(0, 10), FileFacts(1000, 20), FileFacts(2000, 30), FileFacts(3000, None)]


def known(**changes: object) -> Known:
    fields: dict[str, object] = {
        "recovery_ms": 0,
        "flushed_offset": 0,
        "confirm_offset": 0,
        "abnormal": True,
        "same_boot": False,
    }
    return Known(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", [{"abnormal": False}, {"same_boot": True}])
def test_what_was_written_is_there_unless_power_was_lost(how: dict[str, bool]) -> None:
    made = plan(FILES, FILE, known(confirm_offset=2500, flushed_offset=1500, **how))
    assert made == Plan(3000, None, 1500, 2500)
    assert scan_from(made, FILES, last_dispatched=2400) == 2000
    assert scan_from(made, FILES, last_dispatched=-1) == 0


@pytest.mark.parametrize(
    ("recovery_ms", "flushed", "believed"),
    [(99, 2700, 2000), (99, 999, 0), (20, 2700, 1000), (19, 2700, 0), (0, 0, 0), (99, 9999, 2000)],
)
def test_after_a_loss_of_power_the_log_is_read_from_where_time_and_offset_both_call_it_durable(
    recovery_ms: int, flushed: int, believed: int
) -> None:
    made = plan(FILES, FILE, known(recovery_ms=recovery_ms, flushed_offset=flushed))
    assert (made.read_below, made.queues_valid_below, made.flushed_offset) == (
        believed,
        flushed,
        flushed,
    )


@pytest.mark.parametrize(
    ("recovery_ms", "believed"), [(0, 0), (10, 0), (20, 1000), (29, 1000), (30, 2000)]
)
def test_where_only_times_are_told_everything_before_the_file_they_name_is_durable(
    recovery_ms: int, believed: int
) -> None:
    made = plan(FILES, FILE, known(recovery_ms=recovery_ms, flushed_offset=None))
    assert made == Plan(believed, believed, believed, 0)


def test_reading_begins_no_later_than_the_newest_entry() -> None:
    made = Plan(2000, 2000, 0, 0)
    assert [scan_from(made, FILES, last) for last in (-1, 0, 999, 1000, 2500, 3500)] == [
        0,
        0,
        0,
        1000,
        2000,
        2000,
    ]


def test_reading_begins_where_messages_may_have_lost_their_entries() -> None:
    made = Plan(3000, None, 0, 0)
    assert [scan_from(made, FILES, 2500, lacks) for lacks in (None, 2900, 1999, 0)] == [
        2000,
        2000,
        1000,
        0,
    ]


def test_only_what_was_flushed_is_known_to_be_written_after_a_loss_of_power() -> None:
    told = known(flushed_offset=1500, confirm_offset=2500, recovery_ms=99)
    assert [
        plan(FILES, FILE, one).written_end for one in (told, replace(told, same_boot=True))
    ] == [1500, 2500]


def test_a_confirm_offset_beyond_the_files_is_not_believed_but_remembered_as_missing() -> None:
    made = plan(FILES, FILE, known(confirm_offset=10**12))
    assert made.confirm_offset == 4000
    assert settle_empty(known(confirm_offset=300, flushed_offset=None)).missing_bytes == 300


class Records:
    """A walk over records of one size that fill files; the last byte read well is at `end`."""

    def __init__(self, start: int, until: int, size: int = 100) -> None:
        self.end, self._until, self._size, self.reason = start, until, size, "magic"

    def __iter__(self) -> Iterator[Record]:
        while self.end + self._size <= self._until:
            at, self.end = self.end, self.end + self._size
            yield Record(at, self._size, "T", 0, at // self._size, 0, 1, 0)


@given(
    end=st.integers(0, 40),
    flushed=st.integers(0, 4000),
    confirm=st.integers(0, 4000),
    dispatched=st.integers(0, 40),
    recovery_ms=st.integers(0, 40),
    power_lost=st.booleans(),
)
def test_nothing_durable_and_confirmed_is_forgotten_and_nothing_unconfirmed_is_readable(
    end: int, flushed: int, confirm: int, dispatched: int, recovery_ms: int, power_lost: bool
) -> None:
    """A log of 100-byte records that really ends at `end`: flushed and confirmed lie within what
    was written.
    """
    end, flushed, confirm = end * 100, min(flushed, end * 100), min(confirm, end * 100)
    files = [
        FileFacts(start, 10 + start // 100 if start < end else None)
        for start in range(0, 4000, FILE)
    ]
    told = known(
        recovery_ms=recovery_ms,
        flushed_offset=flushed,
        confirm_offset=confirm,
        same_boot=not power_lost,
    )
    made = plan(files, FILE, told)
    # only what was confirmed has its entry
    entries_below = min(dispatched * 100, confirm // 100 * 100)
    if made.queues_valid_below is not None:
        entries_below = min(entries_below, made.queues_valid_below)
    last = entries_below - 100 if entries_below else -1
    start = scan_from(made, files, last)
    assert start % FILE == 0 and start <= max(last, 0)
    read = Confirmed(Records(start, end), made, last)
    handed = list(read)
    report = settle(told, made, read, start=start, log_min=0, file_bytes=FILE, cut_bytes=0)
    assert report.end_offset == max(end, start) and report.missing_bytes == 0
    assert report.confirm_offset == confirm // 100 * 100 or report.confirm_offset == start > confirm
    assert all(record.physical_offset + 100 <= max(confirm, entries_below) for record in handed)
    assert [record.physical_offset for record in handed] == list(
        range(start, max(confirm // 100 * 100, start), 100)
    )
    assert report.durable_end <= flushed and report.durable_end % 100 == 0
