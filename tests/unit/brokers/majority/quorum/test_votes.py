"""Votes and rounds, row by row (PROTOCOL 10.9)."""

from __future__ import annotations

import pytest

from brokers.majority.entry import EMPTY, Place
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.quorum.votes import Outcome, Pause, Round, Voter, judge
from brokers.majority.wire.codes import VoteResult
from tests.support.majority_member import OneMember, log_of

MEMBERS = ("m0", "m1", "m2")
END = Place(4, 10)


def voter(
    term: int = 5,
    voted_for: str | None = None,
    leader: str | None = None,
    spent: int = -1,
    taking: bool = False,
    able: bool = True,
) -> Voter:
    standing = Standing(Role.FOLLOWER if leader else Role.CANDIDATE, term, voted_for, leader)
    return Voter(MEMBERS, "m0", standing, END, spent, able, taking)


ROWS = {
    "a stranger": (voter(), "m9", 6, END, False, VoteResult.REJECT_UNKNOWN_LEADER),
    "nobody": (voter(), None, 6, END, False, VoteResult.REJECT_UNKNOWN_LEADER),
    "oneself, from elsewhere": (
        voter(), "m0", 6, END, False, VoteResult.REJECT_UNEXPECTED_LEADER,
    ),
    "oneself": (voter(), "m0", 5, END, True, VoteResult.ACCEPT),
    "a voter that lost what it had": (
        voter(able=False), "m1", 6, END, False, VoteResult.UNKNOWN,
    ),
    "an older last term": (
        voter(), "m1", 6, Place(3, 99), False, VoteResult.REJECT_EXPIRED_LEDGER_TERM,
    ),
    "an empty log": (voter(), "m1", 6, EMPTY, False, VoteResult.REJECT_EXPIRED_LEDGER_TERM),
    "a shorter log": (
        voter(), "m1", 6, Place(4, 9), False, VoteResult.REJECT_SMALL_LEDGER_END_INDEX,
    ),
    "a shorter log in an old term": (
        voter(), "m1", 2, Place(4, 9), False, VoteResult.REJECT_SMALL_LEDGER_END_INDEX,
    ),
    "an old term": (voter(), "m1", 4, END, False, VoteResult.REJECT_EXPIRED_VOTE_TERM),
    "another had it, a leader is known": (
        voter(voted_for="m2", leader="m2", spent=5), "m1", 5, END, False,
        VoteResult.REJECT_ALREADY_HAS_LEADER,
    ),
    "another had it, no leader is known": (
        voter(voted_for="m2"), "m1", 5, END, False, VoteResult.REJECT_ALREADY_VOTED,
    ),
    "the same once more": (voter(voted_for="m1"), "m1", 5, END, False, VoteResult.ACCEPT),
    "the same, that led this term": (
        voter(voted_for="m1", spent=5), "m1", 5, END, False, VoteResult.REJECT_ALREADY_VOTED,
    ),
    "the same, whose entries of this term are here": (
        voter(term=4, voted_for="m1"), "m1", 4, END, False, VoteResult.REJECT_ALREADY_VOTED,
    ),
    "nobody had it, but a leader is known": (
        voter(leader="m2", spent=5), "m1", 5, END, False, VoteResult.REJECT_ALREADY_HAS_LEADER,
    ),
    "nobody had it": (voter(), "m1", 5, END, False, VoteResult.ACCEPT),
    # Java's voter answers TERM_NOT_READY and votes in the next round.
    "a larger term": (voter(), "m1", 6, END, False, VoteResult.ACCEPT),
    "a larger term beside a leader": (
        voter(voted_for="m2", leader="m2", spent=5), "m1", 6, END, False, VoteResult.ACCEPT,
    ),
    "it takes over itself, with as long a log": (
        voter(taking=True), "m1", 6, END, False, VoteResult.REJECT_TAKING_LEADERSHIP,
    ),
    "it takes over itself, with a shorter log": (
        voter(taking=True), "m1", 6, Place(4, 11), False, VoteResult.ACCEPT,
    ),
    "its own round while it takes over": (
        voter(taking=True), "m0", 5, END, True, VoteResult.ACCEPT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_voter(name: str) -> None:
    who, candidate, term, end, own, result = ROWS[name]
    assert judge(who, candidate, term, end, own) is result


def test_a_term_below_that_of_the_last_entry_gets_no_vote() -> None:
    """It cannot be, unless the file of the term was lost; then the entry says it."""
    behind = Voter(MEMBERS, "m0", Standing(Role.CANDIDATE, 2, None, None), END, -1)
    result = judge(behind, "m1", 3, END, False)
    assert result is VoteResult.REJECT_TERM_SMALL_THAN_LEDGER


Y, N, U = VoteResult.ACCEPT, VoteResult.REJECT_ALREADY_VOTED, VoteResult.UNKNOWN
LEADER, READY = VoteResult.REJECT_ALREADY_HAS_LEADER, VoteResult.REJECT_TERM_NOT_READY
LONGER, NEWER = VoteResult.REJECT_SMALL_LEDGER_END_INDEX, VoteResult.REJECT_EXPIRED_LEDGER_TERM

OUTCOMES = {
    "a larger term was named": ((Y, Y, Y), 6, Outcome.WAIT_TO_VOTE_NEXT, Pause.SHORT),
    "somebody has a leader": ((Y, Y, LEADER), 5, Outcome.WAIT_TO_REVOTE, Pause.SILENCE),
    "too few answers": ((Y, U, U), 5, Outcome.WAIT_TO_REVOTE, Pause.SHORT),
    "too few without the longer logs": (
        (Y, LONGER, NEWER), 5, Outcome.WAIT_TO_REVOTE, Pause.LONGEST,
    ),
    "a majority": ((Y, Y, N), 5, Outcome.PASSED, Pause.NONE),
    "a majority without its own vote": ((N, Y, Y), 5, Outcome.WAIT_TO_VOTE_NEXT, Pause.SHORT),
    "a majority that is not ready": ((Y, READY, U), 5, Outcome.REVOTE_IMMEDIATELY, Pause.NONE),
    "votes are split": ((Y, N, N), 5, Outcome.WAIT_TO_VOTE_NEXT, Pause.SHORT),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_row_of_a_rounds_outcome(name: str) -> None:
    results, known_term, outcome, pause = OUTCOMES[name]
    held = Round(5, 3, 2, dict(zip(MEMBERS, results, strict=True)), known_term, "m0")
    assert held.outcome() == (outcome, pause)


@pytest.mark.parametrize(
    ("results", "decided"),
    [((Y,), False), ((Y, Y), True), ((Y, READY), True), ((Y, N), False), ((Y, LEADER), True),
     ((Y, N, N), True), ((U, U), False)],
)  # fmt: skip
def test_a_round_is_over_when_more_answers_change_nothing(
    results: tuple[VoteResult, ...], decided: bool
) -> None:
    named = dict(zip(MEMBERS, results, strict=False))
    assert Round(5, 3, 2, named, 5, "m0").decided is decided


def test_term_and_vote_are_saved_before_the_answer_leaves() -> None:
    member = OneMember(log_of(1, 1), term=3)
    answer = member.vote("m1", 4, Place(1, 1))
    assert answer is not None and answer.term == 4
    assert (member.terms.state.term, member.terms.state.voted_for) == (4, "m1")
    assert member.order.index("SaveTerm") < member.order.index("Answer")


def test_a_vote_of_before_a_start_is_not_given_again() -> None:
    """Not to the same candidate either: it may have led, and lost what it wrote."""
    member = OneMember(log_of(1, 1), term=4, voted_for="m1")
    answer = member.vote("m1", 4, Place(1, 1))
    assert getattr(answer, "result", None) is VoteResult.REJECT_ALREADY_VOTED
