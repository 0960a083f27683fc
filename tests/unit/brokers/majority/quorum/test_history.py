"""What is told of a member to history (`brokers.majority.quorum.history`): which effect gives which
fact, and that nothing is told before it is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokers.majority.entry import Place
from brokers.majority.log_port import TermAndVote
from brokers.majority.quorum.effects import RestartAt, SaveTerm
from brokers.majority.quorum.history import (
    COMMIT_CROSSED_TERM,
    CUT_RUNS_MAX,
    LEADER_ELECTED,
    LEADER_OVER,
    LOG_CUT,
    VOTE_CAST,
)
from brokers.majority.quorum.log_effects import do
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import (
    HeartBeatRequest,
    HeartBeatResponse,
    PushRequest,
    PushResponse,
)
from events import broker_events, majority_events
from tests.support.majority_member import GROUP, OneMember, entry, follower, leader, log_of

APPEND, TRUNCATE = PushType.APPEND, PushType.TRUNCATE


def holds(member: OneMember) -> None:
    """Both others hold all that it has pushed so far."""
    for sent in [*member.pushes("m1"), *member.pushes("m2")]:
        push = sent.message
        assert isinstance(push, PushRequest)
        last = push.last_index if push.entries else push.commit_index
        answer = PushResponse(
            group=GROUP, term=push.term, index=push.first_index, count=len(push.entries),
            end_index=last,
        )  # fmt: skip
        member.answer(sent, answer)


def ready(member: OneMember) -> OneMember:
    """Its first entry is committed."""
    while not member.core.ready:
        holds(member)
        member.tick()
    return member


# -- votes -----------------------------------------------------------------------------------------


def test_a_vote_is_told_once_with_the_log_it_was_given_for() -> None:
    member = OneMember(log_of(1, 1, 2, committed=1))
    member.vote("m2", 3, Place(2, 5))
    member.vote("m2", 3, Place(2, 5))
    assert member.told(VOTE_CAST) == [
        {
            "member_id": "m0", "term": 3, "candidate_id": "m2", "end_index": 2, "end_term": 2,
            "committed_index": 1, "committed_term": 1,
        }
    ]  # fmt: skip


def test_a_term_without_a_vote_and_a_refused_vote_are_nothing_to_tell() -> None:
    member = follower(1, 1)
    member.vote("m2", 6, Place(0, 5))
    assert member.told() == []


def test_a_vote_that_could_not_be_saved_is_told_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    member = OneMember(log_of(1))
    monkeypatch.setattr(member.terms, "save", _refuses)
    with pytest.raises(OSError):
        member.vote("m1", 3, Place(2, 5))
    assert member.told() == []


def _refuses(state: TermAndVote) -> None:
    raise OSError(5, "Input/output error")


def test_what_is_told_of_a_vote_stands_on_the_disk_by_then() -> None:
    member = OneMember(log_of(1))
    seen: list[TermAndVote] = []
    told = member.history.done

    def looked(effect: Any, now_ms: int) -> Any:
        for fact in told(effect, now_ms):
            seen.append(member.terms.state)
            yield fact

    member.history.done = looked  # type: ignore[method-assign]
    member.vote("m1", 3, Place(2, 5))
    assert seen == [TermAndVote(3, "m1")] == [member.terms.state]


# -- leaders ---------------------------------------------------------------------------------------


def test_a_leader_is_told_when_it_is_elected_and_when_it_takes_appends() -> None:
    member = leader(1, 1)
    term = member.core.standing.term
    (elected,) = member.told(LEADER_ELECTED)
    assert (elected["term"], elected["members"]) == (term, ("m0", "m1", "m2"))
    assert (elected["end_index"], elected["end_term"]) == (1, 1), "without its own first entry"
    assert elected["silent_ms"] == member.now_ms, "it never heard a leader since its start"
    assert member.told(COMMIT_CROSSED_TERM) == []
    ready(member)
    (crossed,) = member.told(COMMIT_CROSSED_TERM)
    assert crossed["leads"] and crossed["leader_id"] == "m0"
    assert (crossed["index"], crossed["entry_term"], crossed["term"]) == (2, term, term)
    assert crossed["took_ms"] >= 0
    ready(member).append("a", b"x")
    holds(member)
    assert member.told(COMMIT_CROSSED_TERM) == [], "the next commits cross nothing"


def loses_its_majority(member: OneMember) -> str:
    member.pass_time(member.config.silence_ms + 100)
    return "no majority answered it"


def hears_another_leader(member: OneMember) -> str:
    member.heartbeat("m2", member.core.standing.term + 1)
    return f"m2 leads term {member.core.standing.term}"


def votes_for_another(member: OneMember) -> str:
    member.vote("m2", member.core.standing.term + 1, Place(9, 9))
    return f"it voted in term {member.core.standing.term} for m2"


def hears_of_a_larger_term(member: OneMember) -> str:
    sent, *_ = member.pushes("m1")
    term = member.core.standing.term + 3
    member.answer(sent, PushResponse(group=GROUP, code=Code.EXPIRED_TERM, term=term))
    return f"a member named term {term}"


def is_contradicted(member: OneMember) -> str:
    sent, *_ = member.said(HeartBeatRequest)
    answer = HeartBeatResponse(group=GROUP, code=Code.INCONSISTENT_LEADER)
    member.answer(sent, answer)
    member.tick()
    return "a member follows another leader of this term"


def leaves(member: OneMember) -> str:
    member.carry_out(member.core.storage_failed("the disk refused", member.now_ms))
    return "the disk refused"


def is_stopped(member: OneMember) -> str:
    member.facts += member.history.over("it was stopped", member.now_ms)
    member.facts += member.history.over("it was stopped", member.now_ms)
    return "it was stopped"


ENDS: list[Callable[[OneMember], str]] = [
    loses_its_majority, hears_another_leader, votes_for_another, hears_of_a_larger_term,
    is_contradicted, leaves, is_stopped,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_leadership_is_told_once_and_why(end: Callable[[OneMember], str]) -> None:
    member = leader(1)
    term, since_ms = member.core.standing.term, member.now_ms
    member.now_ms += 30
    why = end(member)
    (over,) = member.told(LEADER_OVER)
    assert (over["term"], over["why"], over["was_ready"]) == (term, why, False)
    assert over["lasted_ms"] == member.now_ms - since_ms or end is loses_its_majority


def test_a_hand_over_is_told_as_one() -> None:
    member = ready(leader(1))
    member.carry_out(member.core.transfer("asked", "m2", member.now_ms))
    member.vote("m2", member.core.standing.term + 1, Place(9, 9))
    (over,) = member.told(LEADER_OVER)
    assert over["why"] == "it handed over to m2" and over["was_ready"]


def test_who_leads_again_was_without_a_leader_since_its_own_time_was_over() -> None:
    member = ready(leader(1))
    loses_its_majority(member)
    over_ms = member.now_ms
    member.told()
    member.lead()
    (elected,) = member.told(LEADER_ELECTED)
    assert elected["silent_ms"] <= member.now_ms - over_ms + member.config.silence_ms
    assert elected["silent_ms"] < member.now_ms, "its own time counts as a leader's"


def test_a_follower_that_stands_tells_how_long_its_leader_was_silent() -> None:
    member = follower(1)
    member.pass_time(400)
    member.heartbeat("m1", 5)
    heard_ms = member.now_ms
    member.pass_time(member.config.silence_ms + 100)
    member.lead()
    (elected,) = member.told(LEADER_ELECTED)
    assert elected["silent_ms"] == member.now_ms - heard_ms


# -- commits ---------------------------------------------------------------------------------------


def test_a_follower_tells_the_first_commit_of_each_term() -> None:
    member = follower(1, 1, committed=0)
    entries = [entry(2, 1), entry(3, 4), entry(4, 5), entry(5, 5)]
    member.push(APPEND, *entries, previous=Place(1, 1), commit=2)
    assert member.told(COMMIT_CROSSED_TERM) == [], "of a term that was committed before"
    for commit in (3, 5, 5):
        member.push(APPEND, *entries, previous=Place(1, 1), commit=commit)
    told = member.told(COMMIT_CROSSED_TERM)
    assert [(one["index"], one["entry_term"]) for one in told] == [(3, 4), (5, 5)]
    assert {(one["leads"], one["leader_id"], one["took_ms"]) for one in told} == {(False, "m1", -1)}


# -- cuts ------------------------------------------------------------------------------------------


def test_a_cut_tells_which_entries_of_which_terms_were_dropped() -> None:
    member = follower(1, 1, 2, 2, 4, committed=1)
    member.push(APPEND, entry(2, 5), previous=Place(1, 1))
    (cut,) = member.told(LOG_CUT)
    assert (cut["from_index"], cut["to_index"], cut["restarted"]) == (4, 1, False)
    assert (cut["dropped_terms"], cut["dropped_from"]) == ((2, 4), (2, 4))
    assert (cut["committed_index"], cut["committed_term"]) == (1, 1)
    assert (cut["leader_id"], cut["why"]) == ("m1", "these entries are not those of m1")


def test_a_cut_that_could_not_be_made_is_told_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    member = follower(1, 2)

    def refuses(index: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(member.log, "truncate_from", refuses)
    with pytest.raises(OSError):
        member.push(APPEND, entry(1, 5), previous=Place(1, 0))
    assert member.told(LOG_CUT) == []


def test_the_terms_that_a_cut_names_are_bounded() -> None:
    member = OneMember(log_of(*range(40)), term=50)
    member.heartbeat("m1", 50)
    member.push(APPEND, entry(0, 49), term=50)
    (cut,) = member.told(LOG_CUT)
    assert cut["dropped_terms"] == tuple(range(CUT_RUNS_MAX)) and cut["from_index"] == 39


def test_a_log_that_begins_anew_says_so_and_only_when_it_does() -> None:
    member = follower(1, 1, committed=0)
    member.push(TRUNCATE, entry(9, 5), commit=8)
    (cut,) = member.told(LOG_CUT)
    assert (cut["from_index"], cut["to_index"], cut["restarted"]) == (1, 8, True)
    assert "begins anew" in cut["why"] and cut["committed_index"] == 0
    effect = RestartAt(entry(30, 5))
    assert list(member.history.done(effect, 0)) == [], "its log did not take it"


# -- the shape -------------------------------------------------------------------------------------


def test_every_fact_is_a_broker_event_with_exactly_these_fields() -> None:
    """What is told fits the schema: a fact that does not would be dropped."""
    records = {record.__name__: record for record in broker_events.BROKER_EVENTS}
    told = ready(leader(1)).facts
    member = follower(1, 2)
    member.push(APPEND, entry(1, 5), previous=Place(1, 0))
    ending = ready(leader(1))
    leaves(ending)
    facts = [*told, *member.facts, *ending.facts]
    assert {one.kind for one in facts} == {
        record.__name__ for record in majority_events.AboutMajority.__args__
    }
    for one in facts:
        assert set(records[one.kind].__struct_fields__) == {"header", *one.fields}


def test_one_that_only_watches_changes_nothing_of_what_is_done() -> None:
    member = OneMember(log_of(1))
    effect = SaveTerm(TermAndVote(7, "m1"))
    assert do(member.log, member.terms, effect, 0) is None
    assert list(member.history.done(effect, 0))[0].fields["term"] == 7
    assert member.core.standing.term == 0
