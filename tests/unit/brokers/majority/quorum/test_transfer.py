"""Handing over and taking over (`brokers.majority.quorum.handing_over`), and rounds of a candidate
(PROTOCOL 10.9).
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from brokers.majority.entry import Place
from brokers.majority.quorum.candidacy import Candidacy
from brokers.majority.quorum.config import QuorumConfig
from brokers.majority.quorum.handing_over import HandingOver
from brokers.majority.quorum.member import Member
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.quorum.transfer import Handover, Taking, best_preferred, refusal
from brokers.majority.wire.codes import Code, PushType, VoteResult
from brokers.majority.wire.messages import (
    HeartBeatRequest,
    HeartBeatResponse,
    PushRequest,
    PushResponse,
    TransferRequest,
    TransferResponse,
    VoteRequest,
    VoteResponse,
)
from tests.support.majority_member import GROUP, OneMember, entry, follower, log_of

CONFIG = QuorumConfig("g", "m0", ("m0", "m1", "m2"))
LEADS = Standing(Role.LEADER, 5, "m0", "m0")
UNDER_WAY = Handover(None, "m2", 5, 100)

REFUSALS = {
    "a stranger": (LEADS, 5, "m9", 0, None, Code.UNKNOWN_MEMBER),
    "oneself": (LEADS, 5, "m0", 0, None, Code.UNKNOWN_MEMBER),
    "it does not lead": (
        Standing(Role.FOLLOWER, 5, None, "m1"), 5, "m1", 0, None, Code.NOT_LEADER,
    ),
    "another term": (LEADS, 4, "m1", 0, None, Code.INCONSISTENT_TERM),
    "one is under way": (LEADS, 5, "m1", 0, UNDER_WAY, Code.LEADER_TRANSFERRING),
    "nothing is known of it": (LEADS, 5, "m1", None, None, Code.FALL_BEHIND_TOO_MUCH),
    "it lacks too much": (LEADS, 5, "m1", 1_000, None, Code.FALL_BEHIND_TOO_MUCH),
    "it lacks little": (LEADS, 5, "m1", 999, None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_a_row_of_who_is_handed_over_to(name: str) -> None:
    standing, term, to, lag, under_way, code = REFUSALS[name]
    assert refusal(CONFIG, standing, term, to, lag, under_way) is code


PREFERRED = {
    "nobody is": ((), {}, ("m1", "m2"), None),
    "it is itself": (("m0", "m1"), {}, ("m1", "m2"), None),
    "who lives": (("m1", "m2"), {}, ("m2",), "m2"),
    "who lacks least": (("m1", "m2"), {}, ("m1", "m2"), "m2"),
    "who goes first": (("m1", "m2"), {"m1": 1, "m2": 2}, ("m1", "m2"), "m1"),
    "not who lacks too much": (("m3",), {}, ("m3",), None),
}


@pytest.mark.parametrize("name", PREFERRED)
def test_a_row_of_who_should_lead(name: str) -> None:
    preferred, priorities, alive, expected = PREFERRED[name]
    config = QuorumConfig(
        "g", "m0", ("m0", "m1", "m2", "m3"), preferred=preferred, priorities=priorities
    )
    lags = {"m1": 5, "m2": 3, "m3": 1_000}
    assert best_preferred(config, alive, lags.get) == expected


TAKEN = {
    "it leads": (Standing(Role.LEADER, 6, "m0", "m0"), Code.SUCCESS),
    "it still stands": (Standing(Role.CANDIDATE, 6, "m0", None), None),
    "it follows": (Standing(Role.FOLLOWER, 6, "m0", "m2"), Code.TAKE_LEADERSHIP_FAILED),
    "it follows the old one": (
        Standing(Role.FOLLOWER, 5, "m1", "m1"), Code.TAKE_LEADERSHIP_FAILED,
    ),
    "the term went on": (Standing(Role.FOLLOWER, 7, "m0", "m2"), Code.EXPIRED_TERM),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_a_row_of_what_the_leader_hears(name: str) -> None:
    standing, code = TAKEN[name]
    assert Taking("t", 5, 9, 100).answer(standing) is code


def leader(**settings: object) -> OneMember:
    member = OneMember(log_of(0), **settings)
    member.lead()
    for peer in ("m1", "m1", "m2", "m2"):
        for sent in member.pushes(peer):
            push = sent.message
            assert isinstance(push, PushRequest)
            first = push.first_index
            answer = PushResponse(group=GROUP, index=first, count=1, end_index=first)
            member.answer(sent, answer)
    return member


def hand_over(member: OneMember, to: str = "m1") -> None:
    member.carry_out(member.core.transfer("operator", to, member.now_ms))


@pytest.mark.parametrize(
    ("heard", "code"),
    [
        (TransferResponse(code=Code.TAKE_LEADERSHIP_FAILED, term=1), Code.TAKE_LEADERSHIP_FAILED),
        (None, Code.NETWORK_ERROR),
        (TransferResponse(code=Code.SUCCESS, term=2), Code.SUCCESS),
        (TransferResponse(code=99_999, term=2), Code.UNKNOWN),
    ],
)
def test_a_handover_ends_with_its_answer_and_appends_go_on(
    heard: TransferResponse | None, code: Code
) -> None:
    member = leader()
    hand_over(member)
    (sent,) = member.said(TransferRequest)
    request = sent.message
    assert isinstance(request, TransferRequest)
    assert (request.transferee_id, request.ledger_index, request.term) == ("m1", 1, 1)
    assert member.core.append_refusal() is Code.LEADER_TRANSFERRING
    member.answer(sent, heard)
    assert member.answers["operator"].code == code and member.core.append_refusal() is None


def test_a_handover_without_an_answer_is_undone_after_its_time() -> None:
    member = leader()
    hand_over(member)
    member.tick(2_990)
    assert member.core.append_refusal() is Code.LEADER_TRANSFERRING
    member.tick(10)
    assert member.answers["operator"].code == Code.TIMEOUT
    assert member.core.append_refusal() is None


def test_a_preferred_member_is_handed_over_to_and_a_failure_makes_it_rarer() -> None:
    member = leader(preferred=("m2",))
    times = []
    for _ in range(120):
        member.tick(100)
        for beat in member.said(HeartBeatRequest):
            member.answer(beat, HeartBeatResponse(group=GROUP))
        for sent in member.said(TransferRequest):
            assert sent.peer == "m2"
            times.append(member.now_ms)
            member.answer(sent, TransferResponse(code=Code.TAKE_LEADERSHIP_FAILED, term=1))
    gaps = [later - before for before, later in pairwise(times)]
    assert gaps == sorted(gaps) and gaps[0] < gaps[-1]


def take_over(member: OneMember, index: int, leader: str = "m1", term: int = 5) -> object:
    return member.ask(
        TransferRequest(
            group=GROUP, remote_id="m0", local_id=leader, leader_id=leader, term=term,
            transfer_id=leader, transferee_id="m0", ledger_index=index,
        ),
        "leader",
    )  # fmt: skip


def test_who_is_to_take_over_raises_the_term_at_once_and_leads() -> None:
    member = follower(1, 5)
    assert take_over(member, 1) is None
    assert (member.core.standing.role, member.core.standing.term) == (Role.CANDIDATE, 6)
    late = member.heartbeat("m1", 5)
    assert late is not None and late.code == Code.EXPIRED_TERM
    member.lead()
    assert member.answers["leader"].code == Code.SUCCESS


def test_who_is_to_take_over_waits_for_the_rest_of_the_log() -> None:
    member = follower(1, 5)
    assert take_over(member, 2) is None
    assert member.core.standing.role is Role.FOLLOWER
    member.push(PushType.APPEND, entry(2, 5), previous=Place(5, 1))
    member.tick()
    assert member.core.standing.role is Role.CANDIDATE


def test_who_does_not_get_the_rest_in_time_says_so_and_follows_on() -> None:
    member = follower(1, 5)
    take_over(member, 2)
    member.pass_time(1_000)
    assert member.answers["leader"].code == Code.TAKE_LEADERSHIP_FAILED
    assert member.core.standing.role is Role.FOLLOWER


@pytest.mark.parametrize(
    ("leader_id", "term", "code"),
    [("m2", 5, Code.INCONSISTENT_LEADER), ("m1", 4, Code.INCONSISTENT_TERM)],
)
def test_only_the_leader_makes_one_take_over(leader_id: str, term: int, code: Code) -> None:
    answer = take_over(follower(1, 5), 1, leader_id, term)
    assert isinstance(answer, TransferResponse) and answer.code == code


def test_a_request_that_names_neither_side_is_refused() -> None:
    answer = follower(1, 5).ask(
        TransferRequest(group=GROUP, remote_id="m0", transfer_id="m1", transferee_id="m2", term=5)
    )
    assert answer is not None and answer.code == Code.UNEXPECTED_ARGUMENT


# -- a candidate's rounds --------------------------------------------------------------------------


def rounds(member: OneMember, result: VoteResult, count: int) -> list[int]:
    """The terms of rounds in which everybody says this."""
    terms: list[int] = []
    while len(terms) < count:
        member.tick(50)
        asked = member.said(VoteRequest)
        if asked:
            terms.append(asked[0].message.term)
        for sent in asked:
            member.answer(sent, VoteResponse(group=GROUP, term=1, result=result))
    return terms


@pytest.mark.parametrize(
    ("result", "terms"),
    [
        (VoteResult.REJECT_ALREADY_VOTED, [5, 6, 7]),
        (VoteResult.REJECT_ALREADY_HAS_LEADER, [5, 5, 5]),
        (VoteResult.UNKNOWN, [5, 5, 5]),
        (VoteResult.REJECT_SMALL_LEDGER_END_INDEX, [5, 5, 5]),
    ],
)
def test_the_term_is_raised_only_when_it_is_spent(result: VoteResult, terms: list[int]) -> None:
    """Who others do not hear, or whose leader others hear, disturbs nobody."""
    assert rounds(OneMember(log_of(1), term=5), result, 3) == terms


def test_a_larger_term_that_was_named_is_gone_beyond() -> None:
    member = OneMember(log_of(1), term=5)
    member.tick(300)
    sent, *_ = member.said(VoteRequest)
    expired = VoteResult.REJECT_EXPIRED_VOTE_TERM
    for one in (sent, sent):
        member.answer(one, VoteResponse(group=GROUP, term=9, result=expired))
    member.pass_time(4_000)
    assert member.core.standing.term >= 9


def test_a_member_that_lost_what_it_had_stands_for_nothing() -> None:
    log = log_of(1)
    log.owed = Place(1, 7)
    member = OneMember(log, term=5)
    member.pass_time(10_000)
    assert not member.said(VoteRequest)
    answer = member.vote("m1", 6, Place(9, 9))
    assert getattr(answer, "result", None) is VoteResult.UNKNOWN


def test_answers_to_an_earlier_round_count_no_more() -> None:
    member = OneMember(log_of(1), term=5)
    member.tick(300)
    first = member.said(VoteRequest)
    member.pass_time(4_000)
    for sent in first:
        member.answer(sent, VoteResponse(group=GROUP, term=5, result=VoteResult.ACCEPT))
    assert member.core.standing.role is Role.CANDIDATE
    assert Candidacy.__doc__ and Member.__doc__ and HandingOver.__doc__


def test_who_has_a_priority_pauses_by_its_rank() -> None:
    config = QuorumConfig("g", "m2", ("m0", "m1", "m2"), priorities={"m0": 1, "m1": 2, "m2": 3})
    assert config.rank == 2
    assert QuorumConfig("g", "m0", ("m0", "m1")).rank == 0
