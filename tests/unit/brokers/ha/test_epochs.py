"""The epoch history of a log and its legal changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.epochs import OFFSET_MAX, EpochEntry, EpochError, EpochHistory

HISTORY = EpochHistory.of((1, 0), (3, 100), (4, 250))


def test_the_covering_entry_begins_at_or_below_an_offset() -> None:
    assert HISTORY.find(0) == EpochEntry(1, 0)
    assert HISTORY.find(99) == EpochEntry(1, 0)
    assert HISTORY.find(100) == EpochEntry(3, 100)
    assert HISTORY.find(OFFSET_MAX) == EpochEntry(4, 250)
    assert EpochHistory.of((2, 50)).find(49) is None


def test_an_epoch_ends_where_the_next_one_begins_and_the_newest_with_the_log() -> None:
    assert HISTORY.end_of(1, 300) == 100
    assert HISTORY.end_of(4, 300) == 300
    with pytest.raises(KeyError):
        HISTORY.end_of(2, 300)


def test_the_next_border_lies_above_the_offset() -> None:
    assert [HISTORY.next_start(at) for at in (0, 99, 100, 249, 250)] == [100, 100, 250, 250, None]


def test_a_new_epoch_is_appended_behind() -> None:
    assert HISTORY.append(7, 400) == EpochHistory.of((1, 0), (3, 100), (4, 250), (7, 400))
    assert HISTORY.newest_epoch == 4
    assert HISTORY.newest_start == 250
    assert HISTORY.newest == EpochEntry(4, 250)


def test_an_epoch_that_begins_where_the_last_one_does_supersedes_it() -> None:
    assert HISTORY.append(5, 250) == EpochHistory.of((1, 0), (3, 100), (5, 250))
    assert EpochHistory.of((1, 0)).append(2, 0) == EpochHistory.of((2, 0))


@pytest.mark.parametrize(
    ("epoch", "start"), [(4, 300), (3, 300), (5, 249), (2**31, 300), (5, 2**63)]
)
def test_an_epoch_that_does_not_grow_is_refused(epoch: int, start: int) -> None:
    with pytest.raises(EpochError):
        HISTORY.append(epoch, start)


@pytest.mark.parametrize(
    "pairs", [[(2, 0), (1, 5)], [(1, 5), (2, 5)], [(1, 5), (2, 4)], [(-1, 0)], [(1, -1)]]
)
def test_entries_that_do_not_grow_are_no_history(pairs: list) -> None:
    with pytest.raises(EpochError):
        EpochHistory.from_pairs(pairs)


def test_a_cut_removes_entries_at_or_above_it_and_a_trim_those_that_end_below() -> None:
    assert HISTORY.truncate_suffix(250) == EpochHistory.of((1, 0), (3, 100))
    assert HISTORY.truncate_suffix(251) == HISTORY
    assert not HISTORY.truncate_suffix(0)
    assert HISTORY.truncate_prefix(99) == HISTORY
    assert HISTORY.truncate_prefix(100) == EpochHistory.of((3, 100), (4, 250))
    assert HISTORY.truncate_prefix(10**9) == EpochHistory.of((4, 250))


def test_an_empty_history_names_minus_one() -> None:
    empty = EpochHistory()
    assert (empty.newest_epoch, empty.newest_start, empty.newest, str(empty)) == (
        -1,
        -1,
        None,
        "empty",
    )
    assert empty.append(1, 0) == EpochHistory.of((1, 0))


def test_the_newest_part_keeps_order() -> None:
    assert HISTORY.newest_part(2) == EpochHistory.of((3, 100), (4, 250))
    assert HISTORY.newest_part(3) is HISTORY
    assert str(HISTORY) == "1:0,3:100,4:250"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=30))
def test_whatever_is_appended_the_history_only_grows(steps: list[tuple[int, int]]) -> None:
    history = EpochHistory()
    for epoch, start in steps:
        before = history
        try:
            history = history.append(epoch, start)
        except EpochError:
            assert epoch <= before.newest_epoch or start < before.newest_start
            continue
        assert history.newest == EpochEntry(epoch, start)
        assert history.find(start) == history.newest
        assert EpochHistory(history.entries) == history


def test_what_may_have_stood_where_a_history_begins() -> None:
    assert EpochHistory.of((4, 7), (5, 9)).before_first(10) == (
        EpochEntry(1, 7),
        EpochEntry(2, 7),
        EpochEntry(3, 7),
    )
    assert EpochHistory.of((4, 7)).before_first(2) == (EpochEntry(2, 7), EpochEntry(3, 7))
    assert EpochHistory.of((1, 0)).before_first(10) == EpochHistory().before_first(10) == ()
    assert EpochHistory.of((4, 7)).before_first(0) == ()
