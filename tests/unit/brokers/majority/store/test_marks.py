"""Checkpoint, term and vote, what is owed: there and back, and what is believed of torn ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.majority.entry import EMPTY, Place
from brokers.majority.log_port import TermAndVote
from brokers.majority.store.marks import (
    Marks,
    Unreadable,
    format_checkpoint,
    format_owed,
    format_term,
    is_member_id,
    parse_checkpoint,
    parse_owed,
    parse_term,
    properties,
)

MARKS = Marks(9, 7, Place(3, 8))


def test_java_reads_its_own_two_lines_of_our_checkpoint() -> None:
    assert format_checkpoint(MARKS).startswith("endIndex=9\ncommittedIndex=7\n")
    assert properties(format_checkpoint(MARKS))["durableIndex"] == "8"


@pytest.mark.parametrize("marks", [MARKS, Marks(), Marks(5, -1, EMPTY)])
def test_a_checkpoint_comes_back(marks: Marks) -> None:
    assert parse_checkpoint(format_checkpoint(marks)) == marks


def test_a_checkpoint_of_java_says_nothing_about_its_disk() -> None:
    text = "#Thu Nov 26 UTC 2026\ncommittedIndex=7\nendIndex=9\n"
    assert parse_checkpoint(text) == Marks(9, 7, None)
    assert format_checkpoint(Marks(9, 7, None)) == "endIndex=9\ncommittedIndex=7\n"


@pytest.mark.parametrize(
    ("torn", "committed"),
    [("", -1), ("\0" * 40, -1), ("endIndex=9\ncommitt", -1), ("committedIndex=x\n", -1)],
)
def test_what_cannot_be_read_of_a_checkpoint_is_not_known(torn: str, committed: int) -> None:
    assert parse_checkpoint(torn) == Marks(
        9 if torn.startswith("endIndex=9\n") else -1, committed, None
    )


@given(st.integers(0, 100))
def test_a_mark_counts_only_whole(length: int) -> None:
    text = format_checkpoint(MARKS)
    found = parse_checkpoint(text[: min(length, len(text) - 2)])
    assert found.durable is None


@pytest.mark.parametrize(
    ("old", "new"), [("durableIndex=8", "durableIndex=9"), ("committedIndex=7", "committedIndex=8")]
)
def test_a_mark_that_was_tampered_with_does_not_count(old: str, new: str) -> None:
    assert parse_checkpoint(format_checkpoint(MARKS).replace(old, new)).durable is None


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("currTerm=5\nvoteLeader=n1\n", TermAndVote(5, "n1")),
        ("voteLeader=n1\ncurrTerm=5\n", TermAndVote(5, "n1")),
        ("currTerm=5\nvoteLeader=\n", TermAndVote(5)),
        ("# a comment\n currTerm = 5 \nvoteLeader= n-1.x_2\n", TermAndVote(5, "n-1.x_2")),
    ],
)
def test_term_and_vote_as_java_writes_them(text: str, state: TermAndVote) -> None:
    assert parse_term(text) == state and parse_term(format_term(state)) == state


@pytest.mark.parametrize(
    "text",
    ["", "\0\0", "currTerm=5\n", "voteLeader=n1\n", "currTerm=-1\nvoteLeader=\n", "currTerm=x"],
)
def test_a_promise_that_cannot_be_read_is_none(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_term(text)


def test_a_debt_comes_back_whole_or_not_at_all() -> None:
    text = format_owed(Place(4, 17))
    assert parse_owed(text) == Place(4, 17)
    for length in range(len(text) - 1):
        with pytest.raises(Unreadable):
            parse_owed(text[:length])


@pytest.mark.parametrize("name", ["n0", "broker-a.1", "_"])
def test_member_ids_can_be_written_down(name: str) -> None:
    assert is_member_id(name) and parse_term(format_term(TermAndVote(1, name))).voted_for == name


@pytest.mark.parametrize("name", ["", "a\nb", "a=b", "a b", "ä", "x" * 256])
def test_what_would_not_come_back_is_no_member_id(name: str) -> None:
    assert not is_member_id(name)


@given(st.text(max_size=200))
def test_any_text_is_read_or_unreadable(text: str) -> None:
    parse_checkpoint(text)
    for parse in (parse_term, parse_owed):
        try:
            parse(text)
        except Unreadable:
            pass
