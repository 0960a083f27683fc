"""The epoch history of a log and its legal changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.epochs import (
    OFFSET_MAX,
    EpochEntry,
    EpochError,
    EpochHistory,
    begins_later,
    consistent_offset,
)
from tests.support.examples import examples

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


H = EpochHistory.of


@pytest.mark.parametrize(
    ("local", "local_end", "master", "master_end", "expected"),
    [
        # worked examples of PROTOCOL 2.6
        (H((1, 0), (2, 100), (3, 150)), 250, H((1, 0), (2, 100), (3, 150)), 300, 250),
        (H((1, 0), (2, 100), (3, 200)), 300, H((1, 0), (2, 100), (4, 150)), 400, 150),
        (H((1, 100), (2, 300), (3, 500)), 700, H((1, 100), (2, 300), (3, 500)), 600, 600),
        (H((1, 100), (2, 300), (3, 500)), 700, H((1, 200), (2, 500)), 900, None),
        (H((1, 100), (2, 300), (3, 500), (4, 800)), 900, H((1, 100), (2, 300), (3, 500)), 700, 700),
        (H((1, 0), (3, 441)), 1470, H((1, 0), (3, 441), (4, 882)), 1029, 882),
        # the epoch collision of the golden file, with the second entry superseded (S13)
        (H((1, 0), (2, 220)), 448, H((1, 0), (3, 220)), 448, 220),
        (H((1, 0)), 50, H((2, 0)), 70, 0),  # a whole first epoch that nobody else had
        (H((2, 100)), 150, H((3, 100)), 120, 100),  # the same, where logs begin late
        (EpochHistory(), 500, H((1, 0)), 900, 0),  # bytes without a history
        (EpochHistory(), 0, H((1, 0)), 900, 0),
        (H((1, 0)), 10, EpochHistory(), 0, None),
        (H((1, 0), (2, 100)), 80, H((1, 0), (3, 100)), 150, 80),  # label durable, its bytes lost
        # a reply whose end lies below its newest entry
        (H((1, 0)), 100, H((1, 0), (2, 100)), 50, 100),
    ],
)
def test_worked_examples(
    local, local_end: int, master, master_end: int, expected: int | None
) -> None:
    assert consistent_offset(local, local_end, master, master_end) == expected


@pytest.mark.parametrize(
    ("local", "master", "expected"),
    [
        (H((1, 0), (2, 300)), H((4, 480)), True),
        (H((1, 0), (4, 300)), H((4, 480)), False),  # two masters of one epoch: an operator's case
        (H((5, 300)), H((4, 480)), False),
        (H(), H((4, 480)), False),  # an empty log has nothing to empty
        (H((1, 0)), H(), False),
    ],
)
def test_a_history_that_lost_its_beginning_says_so(
    local: EpochHistory, master: EpochHistory, expected: bool
) -> None:
    assert begins_later(local, master) is expected


class Replica:
    """A log as a list of (epoch, position) bytes: every byte names the master that wrote it."""

    def __init__(self) -> None:
        self.data: list[tuple[int, int]] = []
        self.epochs = EpochHistory()

    def lead(self, epoch: int) -> None:
        self.epochs = self.epochs.append(epoch, len(self.data))

    def write(self, count: int) -> None:
        epoch = self.epochs.newest_epoch
        self.data += [(epoch, len(self.data) + i) for i in range(count)]

    def follow(self, master: Replica, count: int) -> None:
        """Truncate as the protocol does, then copy up to `count` bytes and the labels reached."""
        agreed = consistent_offset(self.epochs, len(self.data), master.epochs, len(master.data))
        assert agreed == dumb_search(self, master)
        keep = min(agreed, len(self.data))
        del self.data[keep:]
        self.epochs = self.epochs.truncate_suffix(keep)
        self.data += master.data[len(self.data) : len(self.data) + count]
        if self.data or not master.data:
            self.epochs = EpochHistory(
                tuple(
                    entry for entry in master.epochs.entries if entry.start_offset <= len(self.data)
                )
            )


def dumb_search(left: Replica, right: Replica) -> int:
    """First place where the bytes differ; the shorter end when they do not."""
    for position, (mine, theirs) in enumerate(zip(left.data, right.data, strict=False)):
        if mine != theirs:
            return position
    return min(len(left.data), len(right.data))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("lead"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("write"), st.just(0), st.integers(0, 5)),
        st.tuples(st.just("follow"), st.integers(0, 2), st.integers(0, 8)),
    ),
    max_size=40,
)


@settings(max_examples=examples(400), deadline=None)
@given(steps)
def test_random_histories_agree_exactly_where_their_bytes_do(story: list) -> None:
    """Any replica may be elected at any time, so unacknowledged ends of all sorts arise."""
    replicas = [Replica(), Replica(), Replica()]
    master, epoch = replicas[0], 0
    master.lead(epoch := epoch + 1)
    for kind, who, count in story:
        if kind == "lead":
            master = replicas[who]
            master.lead(epoch := epoch + 1)
        elif kind == "write":
            master.write(count)
        elif replicas[who] is not master:
            replicas[who].follow(master, count)
    for one in replicas:
        if one is not master:
            one.follow(master, OFFSET_MAX)
            assert one.data == master.data


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_an_agreed_offset_never_lies_above_both_ends(left, right, more: int, others: int) -> None:
    def history(parts: list[tuple[int, int]]) -> EpochHistory:
        epoch = start = 0
        made = EpochHistory()
        for by, length in parts:
            epoch += by
            made = made.append(epoch, start)
            start += length
        return made

    local, master = history(left), history(right)
    local_end, master_end = local.newest_start + more, master.newest_start + others
    agreed = consistent_offset(local, local_end, master, master_end)
    assert agreed is not None
    assert 0 <= agreed <= min(local_end, master_end)
