"""What the port promises beside the calls: which answers say that an entry is there."""

from __future__ import annotations

from brokers.majority.log_port import Taken, TermAndVote


def test_a_member_that_never_voted_is_in_term_zero() -> None:
    assert TermAndVote() == TermAndVote(0, None)


def test_each_answer_of_a_log_is_another_one() -> None:
    assert len({one.value for one in Taken}) == len(Taken) == 8
