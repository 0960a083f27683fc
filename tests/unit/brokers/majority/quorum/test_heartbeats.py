"""Heartbeats, row by row (PROTOCOL 10.8)."""

from __future__ import annotations

import pytest

from brokers.majority.entry import Place
from brokers.majority.quorum.standing import Role
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import HeartBeatRequest, HeartBeatResponse, VoteRequest
from tests.support.majority_member import GROUP, OneMember, entry, leader, log_of

# Standing before: term and known leader; who says what; what it hears, and what comes of it.
RECEIVED = {
    "a stranger": (5, None, "m9", 5, Code.UNKNOWN_MEMBER, Role.CANDIDATE, 5),
    "oneself": (5, None, "m0", 5, Code.UNEXPECTED_MEMBER, Role.CANDIDATE, 5),
    "an old term": (5, "m1", "m2", 4, Code.EXPIRED_TERM, Role.FOLLOWER, 5),
    "its leader": (5, "m1", "m1", 5, Code.SUCCESS, Role.FOLLOWER, 5),
    "a leader where none was known": (5, None, "m1", 5, Code.SUCCESS, Role.FOLLOWER, 5),
    "another leader of its term": (
        5, "m1", "m2", 5, Code.INCONSISTENT_LEADER, Role.FOLLOWER, 5,
    ),
    # Java's becomes a candidate first, answers TERM_NOT_READY, and follows the next one.
    "a larger term": (5, "m1", "m2", 6, Code.SUCCESS, Role.FOLLOWER, 6),
}  # fmt: skip


@pytest.mark.parametrize("name", RECEIVED)
def test_a_row_of_the_receiver(name: str) -> None:
    term, leader, sender, said, code, role, now_in = RECEIVED[name]
    member = OneMember(term=term)
    if leader is not None:
        member.heartbeat(leader, term)
    answer = member.heartbeat(sender, said)
    assert answer is not None and answer.code == code
    assert (member.core.standing.role, member.core.standing.term) == (role, now_in)
    if code is Code.EXPIRED_TERM:
        assert answer.term == term


def test_a_member_of_another_group_hears_so() -> None:
    member = OneMember()
    wrong = HeartBeatRequest(group="other", remote_id="m0", leader_id="m1", term=1)
    astray = HeartBeatRequest(group=GROUP, remote_id="m2", leader_id="m1", term=1)
    answers = [member.ask(one) for one in (wrong, astray)]
    assert [one and one.code for one in answers] == [Code.UNKNOWN_GROUP, Code.UNKNOWN_MEMBER]


def test_a_heartbeat_is_answered_while_a_push_waits_for_the_disk() -> None:
    member = OneMember()
    member.holds_flushes = True
    assert member.push(PushType.TRUNCATE, entry(0, 5)) is None
    answer = member.heartbeat("m1", 5)
    assert answer is not None and answer.code == Code.SUCCESS


def test_a_follower_stands_when_its_leader_is_silent() -> None:
    member = OneMember(term=5)
    member.heartbeat("m1", 5)
    member.pass_time(6_000)
    assert member.core.standing.role is Role.FOLLOWER
    member.tick(50)
    assert member.core.standing.role is Role.CANDIDATE
    assert member.core.standing.term == 5, "the first round asks in the present term"


def beat(member: OneMember, peer: str, **fields: object) -> None:
    for sent in member.said(HeartBeatRequest, peer):
        member.answer(sent, HeartBeatResponse(group=GROUP, **fields))  # type: ignore[arg-type]


def test_a_majority_that_answers_keeps_a_leader() -> None:
    member = leader()
    for _ in range(10):
        beat(member, "m1")
        member.pass_time(2_000)
    assert member.core.standing.role is Role.LEADER


def test_without_a_majority_for_too_long_it_leads_no_more_and_keeps_its_term() -> None:
    member = leader()
    term = member.core.standing.term
    member.pass_time(6_050)
    assert member.core.standing.role is Role.CANDIDATE
    assert member.core.standing.term == term


def test_a_larger_term_ends_a_leadership_whatever_the_majority_says() -> None:
    member = leader()
    beat(member, "m1")
    beat(member, "m2", code=Code.EXPIRED_TERM, term=9)
    assert member.core.standing.role is Role.CANDIDATE
    member.tick()
    assert member.core.standing.term == 9, "the next round is held in that term"


def test_who_is_not_ready_is_asked_again_at_once() -> None:
    member = leader()
    beat(member, "m1", code=Code.TERM_NOT_READY)
    member.tick(100)
    assert len(member.said(HeartBeatRequest, "m1")) == 1


def test_somebody_who_sees_another_leader_ends_it() -> None:
    member = leader()
    term = member.core.standing.term
    beat(member, "m1", code=Code.INCONSISTENT_LEADER)
    member.tick()
    assert (member.core.standing.role, member.core.standing.term) == (Role.CANDIDATE, term)


def test_an_answer_counts_from_when_it_was_asked() -> None:
    member = leader()
    (first,) = member.said(HeartBeatRequest, "m1")
    member.pass_time(2_900)
    member.answer(first, HeartBeatResponse(group=GROUP))
    member.pass_time(3_200)
    assert member.core.standing.role is Role.CANDIDATE


def test_a_heartbeat_says_where_the_log_ends() -> None:
    member = OneMember(log_of(1, 2, 2), term=2)
    answer = member.heartbeat("m1", 2)
    assert isinstance(answer, HeartBeatResponse) and answer.end == Place(2, 2)


def test_one_that_leads_no_more_asks_for_votes() -> None:
    member = leader()
    member.pass_time(7_500)
    assert member.said(VoteRequest)
