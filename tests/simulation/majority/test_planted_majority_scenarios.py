"""Holes that several rules guard at once, so that worlds seldom show one alone: each dug again
under one member, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from brokers.majority.entry import Place
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.handler import Handler
from brokers.majority.quorum.parked import ParkedPushes
from brokers.majority.quorum.standing import Role
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import HeartBeatRequest, HeartBeatResponse, PushResponse
from tests.simulation.majority import test_planted_majority_bugs as bugs
from tests.support.majority_member import GROUP, OneMember, entry, follower, leader

Patch = pytest.MonkeyPatch


def answer(member: OneMember, sent: Any, code: Code = Code.SUCCESS, end: int = 0) -> None:
    push = sent.message
    response = PushResponse(
        group=GROUP, code=code, index=push.first_index, count=len(push.entries), end_index=end
    )
    member.answer(sent, response)


# -- holes -----------------------------------------------------------------------------------------


def the_term_comes_before_the_log(patch: Patch) -> None:
    vote = QuorumCore._vote

    def wrong(self: QuorumCore, token: object, request: Any, why: Any, now_ms: int) -> None:
        if request.term > self.standing.term:
            self._give_vote(None, request.term, now_ms)
        vote(self, token, request, why, now_ms)

    patch.setattr(QuorumCore, "_vote", wrong)


def what_waited_too_long_stays(patch: Patch) -> None:
    def older(self: ParkedPushes, since_ms: int) -> Any:
        told = self.__dict__.setdefault("told", set())
        for first, one in self._parked.items():
            if one.since_ms < since_ms and first not in told:
                told.add(first)
                return one
        return None

    def park(self: ParkedPushes, token: object, push: Any, now_ms: int) -> Any:
        if push.first_index in self._parked:
            return False, None
        return right(self, token, push, now_ms)

    right = ParkedPushes.park
    patch.setattr(ParkedPushes, "older_than", older)
    patch.setattr(ParkedPushes, "park", park)


def heartbeats_wait_behind_data(patch: Patch) -> None:
    beat = QuorumCore._heartbeat

    def wrong(self: QuorumCore, token: object, request: Any, why: Any, now_ms: int) -> None:
        if self._handler is None or not self._handler.waits_for_flush:
            beat(self, token, request, why, now_ms)

    patch.setattr(QuorumCore, "_heartbeat", wrong)


# -- what shows them -------------------------------------------------------------------------------


def a_short_log_disturbs_nobody() -> None:
    member = follower(1, 2)
    member.vote("m2", 9, Place(1, 0))
    assert (member.core.standing.term, member.core.standing.leader_id) == (5, "m1")


def what_waited_too_long_comes_again() -> None:
    member = follower(1)
    member.push(PushType.APPEND, entry(2, 5), previous=Place(5, 1), token="first")
    member.pass_time(1_100)
    assert member.answers["first"].code == Code.INCONSISTENT_INDEX
    member.push(PushType.APPEND, entry(2, 5), previous=Place(5, 1), token="again")
    member.push(PushType.APPEND, entry(1, 5), previous=Place(1, 0))
    assert member.answers["again"].code == Code.SUCCESS


def a_slow_disk_keeps_no_heartbeat() -> None:
    member = follower(1)
    member.holds_flushes = True
    member.push(PushType.APPEND, entry(1, 5), previous=Place(1, 0), token="data")
    answered = member.heartbeat("m1", 5)
    assert answered is not None and answered.code == Code.SUCCESS


def a_late_truncation_comes() -> None:
    member = follower(1)
    member.push(PushType.TRUNCATE, entry(0, 1))
    member.push(PushType.APPEND, entry(1, 5), entry(2, 5), previous=Place(1, 0))
    member.push(PushType.TRUNCATE, entry(0, 1))
    assert [one.term for one in member.log.entries] == [1, 5, 5]


def an_old_leaders_truncation_comes() -> None:
    member = follower(1, 2, 2)
    member.push(PushType.TRUNCATE, entry(0, 1), leader="m2", term=4)
    assert [one.term for one in member.log.entries] == [1, 2, 2]


def a_cut_log_votes_for_what_it_is() -> None:
    member = follower(1, 2, 2)
    member.tick()
    member.push(PushType.TRUNCATE, entry(0, 1))
    member.tick()
    given = member.vote("m2", 6, Place(1, 0))
    assert given is not None and getattr(given, "result", None).name == "ACCEPT"  # type: ignore[union-attr]


def another_log_stands_before() -> None:
    member = follower(1, 2)
    answered = member.push(PushType.APPEND, entry(2, 5), previous=Place(3, 1))
    assert answered is not None and answered.code == Code.INCONSISTENT_STATE


def the_first_push_of_a_term_is_lost() -> None:
    member = leader()
    (compare,) = member.pushes()
    answer(member, compare)
    assert len(member.pushes()) == 1
    member.pass_time(1_100)
    assert len(member.pushes()) == 1


def somebody_has_a_larger_term() -> None:
    member = leader()
    for sent in member.said(HeartBeatRequest):
        code = Code.SUCCESS if sent.peer == "m1" else Code.EXPIRED_TERM
        member.answer(sent, HeartBeatResponse(group=GROUP, code=code, term=9))
    assert member.core.standing.role is Role.CANDIDATE


def an_answer_comes_from_before_a_comparison() -> None:
    member = leader(batch_entries=1)
    (compare,) = member.pushes()
    answer(member, compare)
    (first,) = member.pushes()
    answer(member, first, end=1)
    member.append("t", b"a", b"b")
    one, other = member.pushes()
    answer(member, one, Code.INCONSISTENT_STATE, end=-1)
    answer(member, other, end=3)
    assert member.core.committed == 1


def a_late_answer_comes_to_a_deposed_leader() -> None:
    member = leader()
    (compare,) = member.pushes()
    member.vote("m2", 9, Place(9, 9))
    member.sent.clear()
    answer(member, compare)
    assert not member.pushes()


def older_entries_are_on_a_majority() -> None:
    member = leader()
    (compare,) = member.pushes()
    answer(member, compare)
    assert member.core.committed == -1


def a_commit_reaches_another_leaders_entries() -> None:
    member = follower(1, 2, 2)
    member.push(PushType.COMMIT, commit=2)
    assert member.core.committed == -1


def a_follower_commits_up_to_its_end(patch: Patch) -> None:
    right = bugs.handler.follower_commits
    patch.setattr(
        bugs.handler,
        "follower_commits",
        lambda log, told, same_to, *more: right(log, told, log.last.index, *more),
    )


def nothing_is_asked_of_what_stands_before(patch: Patch) -> None:
    patch.setattr(Handler, "_follows", lambda self, push: True)


SCENARIOS: Mapping[str, tuple[Callable[[Patch], None], Callable[[], None]]] = {
    "14.1-6 terms before logs": (the_term_comes_before_the_log, a_short_log_disturbs_nobody),
    "14.1-7 older entries": (bugs.any_term_commits_by_counting, older_entries_are_on_a_majority),
    "14.1-7 what stands before": (
        nothing_is_asked_of_what_stands_before, another_log_stands_before,
    ),
    "14.1-8 acknowledged entries are cut": (bugs.what_is_committed_is_cut, a_late_truncation_comes),
    "14.1-10 an old leader truncates": (
        bugs.an_old_leader_truncates, an_old_leaders_truncation_comes,
    ),
    "14.1-11 votes by the end before the cut": (
        bugs.votes_go_by_the_end_before_the_cut, a_cut_log_votes_for_what_it_is,
    ),
    "14.2-12 a parked push stays": (
        what_waited_too_long_stays, what_waited_too_long_comes_again,
    ),
    "14.2-13 heartbeats behind data": (
        heartbeats_wait_behind_data, a_slow_disk_keeps_no_heartbeat,
    ),
    "14.2-18 the first push of a term": (
        bugs.a_first_push_of_a_term_is_not_missed, the_first_push_of_a_term_is_lost,
    ),
    "14.3 a larger term": (bugs.a_larger_term_is_passed_over, somebody_has_a_larger_term),
    "S1 a deposed leader speaks": (
        bugs.a_deposed_leader_speaks_in_the_new_term, a_late_answer_comes_to_a_deposed_leader,
    ),
    "S12 an earlier session counts": (
        bugs.answers_of_an_earlier_session_count, an_answer_comes_from_before_a_comparison,
    ),
    "S4 committed without being the leader's": (
        a_follower_commits_up_to_its_end, a_commit_reaches_another_leaders_entries,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_rule_holds(name: str) -> None:
    SCENARIOS[name][1]()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_planted_bug_is_found_step_by_step(name: str, monkeypatch: Patch) -> None:
    plant, scenario = SCENARIOS[name]
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        scenario()
