"""A follower's side of pushes (`brokers.majority.quorum.handler`), row by row (PROTOCOL 10.6,
10.7).
"""

from __future__ import annotations

import pytest

from brokers.majority.entry import Place
from brokers.majority.quorum.config import Durability
from brokers.majority.quorum.standing import Role
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import PushResponse
from tests.simulation.majority.sim_log import SimulatedLog
from tests.support.majority_member import OneMember, entry, follower, log_of

APPEND, COMPARE = PushType.APPEND, PushType.COMPARE
TRUNCATE, COMMIT = PushType.TRUNCATE, PushType.COMMIT


def terms_of(member: OneMember) -> list[int]:
    return [one.term for one in member.log.entries]


def seen(answer: PushResponse | None) -> tuple[int, int, int, int]:
    assert answer is not None
    return answer.code, answer.count, answer.begin_index, answer.end_index


# -- fences ----------------------------------------------------------------------------------------

FENCES = {
    "an old term": ("m1", 4, Code.EXPIRED_TERM),
    "a stranger": ("m9", 5, Code.UNKNOWN_MEMBER),
    "oneself": ("m0", 5, Code.UNEXPECTED_MEMBER),
    "another leader of this term": ("m2", 5, Code.INCONSISTENT_LEADER),
}


@pytest.mark.parametrize("kind", PushType)
@pytest.mark.parametrize("name", FENCES)
def test_every_kind_of_push_is_fenced(name: str, kind: PushType) -> None:
    leader, term, code = FENCES[name]
    member = follower(1, 1, 2)
    entries = () if kind is COMMIT else (entry(1, 1),)
    answer = member.push(kind, *entries, leader=leader, term=term, commit=2)
    assert answer is not None and answer.code == code
    assert terms_of(member) == [1, 1, 2] and member.core.committed == -1
    if code is Code.EXPIRED_TERM:
        assert answer.term == 5, "the larger term is told"


@pytest.mark.parametrize("kind", PushType)
def test_a_push_of_a_larger_term_is_followed(kind: PushType) -> None:
    """Only who was elected pushes; Java's would wait for a heartbeat."""
    member = follower(1)
    entries = () if kind is COMMIT else (entry(0, 1),)
    member.push(kind, *entries, leader="m2", term=6)
    standing = member.core.standing
    assert (standing.role, standing.term, standing.leader_id) == (Role.FOLLOWER, 6, "m2")
    assert member.terms.state.term == 6


# -- append ----------------------------------------------------------------------------------------


def test_an_entry_at_the_end_is_taken_and_the_committed_index_follows() -> None:
    member = follower(1, 5, 5)
    answer = member.push(APPEND, entry(3, 5), previous=Place(5, 2), commit=2)
    assert seen(answer) == (Code.SUCCESS, 1, 0, 3)
    assert terms_of(member) == [1, 5, 5, 5] and member.core.committed == 2


def test_an_answer_waits_for_the_disk() -> None:
    member = follower(1, 5)
    member.holds_flushes = True
    assert member.push(APPEND, entry(2, 5), previous=Place(5, 1)) is None
    member.flush()
    assert seen(member.answers["asked"]) == (Code.SUCCESS, 1, 0, 2)  # type: ignore[arg-type]


def test_the_weaker_level_does_not_wait() -> None:
    member = follower(1, 5, durability=Durability.WRITTEN)
    member.holds_flushes = True
    answer = member.push(APPEND, entry(2, 5), previous=Place(5, 1))
    assert seen(answer) == (Code.SUCCESS, 1, 0, 2)


@pytest.mark.parametrize("kind", [COMPARE, TRUNCATE, APPEND])
def test_what_is_only_written_is_not_acknowledged_in_another_way_either(kind: PushType) -> None:
    member = follower(1, 5)
    member.holds_flushes = True
    member.push(APPEND, entry(2, 5), previous=Place(5, 1))
    assert member.push(kind, entry(2, 5), previous=Place(5, 1), token="second") is None
    member.flush()
    assert member.answers["second"].code == Code.SUCCESS


BEFORE = {
    "the same": ((1, 2), Place(2, 1), False, Code.SUCCESS),
    "another": ((1, 2), Place(3, 1), False, Code.INCONSISTENT_STATE),
    "not told, of Java, after nothing": ((1, 2), None, True, Code.INCONSISTENT_STATE),
    "the begin": ((), Place(), False, Code.SUCCESS),
}


@pytest.mark.parametrize("name", BEFORE)
def test_the_entry_before_has_to_be_the_leaders(name: str) -> None:
    terms, previous, java, code = BEFORE[name]
    member = follower(*terms)
    answer = member.push(APPEND, entry(len(terms), 5), previous=previous, java=java)
    assert answer is not None and answer.code == code


def test_javas_push_is_taken_behind_what_was_compared() -> None:
    member = follower(1, 2)
    assert seen(member.push(COMPARE, entry(1, 2), java=True)) == (Code.SUCCESS, 1, 0, 1)
    assert seen(member.push(APPEND, entry(2, 5), java=True)) == (Code.SUCCESS, 1, 0, 2)


def test_a_duplicate_is_answered_from_the_log() -> None:
    member = follower(1, 5, 5)
    answer = member.push(APPEND, entry(1, 5), entry(2, 5), previous=Place(1, 0))
    assert seen(answer) == (Code.SUCCESS, 2, 0, 2)


def test_a_batch_that_overlaps_is_taken_from_where_it_is_new() -> None:
    member = follower(1, 5)
    answer = member.push(APPEND, entry(1, 5), entry(2, 5), entry(3, 5), previous=Place(1, 0))
    assert seen(answer) == (Code.SUCCESS, 3, 0, 3)


def test_it_is_cut_at_the_first_entry_that_differs() -> None:
    member = follower(1, 1, 2, 2)
    answer = member.push(APPEND, entry(1, 1), entry(2, 5), previous=Place(1, 0))
    assert seen(answer) == (Code.SUCCESS, 2, 0, 2)
    assert terms_of(member) == [1, 1, 5]


def test_a_shorter_message_cuts_nothing() -> None:
    member = follower(1, 5, 5, 5)
    member.push(APPEND, entry(1, 5), previous=Place(1, 0))
    assert terms_of(member) == [1, 5, 5, 5]


def test_a_committed_entry_is_never_cut() -> None:
    member = follower(1, 2, 2, committed=2)
    answer = member.push(APPEND, entry(1, 5), previous=Place(1, 0))
    assert answer is not None and answer.code == Code.INCONSISTENT_STATE
    assert terms_of(member) == [1, 2, 2] and member.left is not None
    assert member.core.standing.role is Role.CANDIDATE
    later = member.heartbeat("m1", 5)
    assert later is not None and later.code == Code.INTERNAL_ERROR


def test_an_entry_of_a_later_term_than_its_leader_is_refused() -> None:
    member = follower(1)
    answer = member.push(APPEND, entry(1, 6), previous=Place(1, 0))
    assert answer is not None and answer.code == Code.UNEXPECTED_ARGUMENT


def test_a_full_disk_says_so_and_takes_later_what_was_refused() -> None:
    member = follower(1)
    member.log.full = True
    answer = member.push(APPEND, entry(1, 5), previous=Place(1, 0))
    assert answer is not None and answer.code == Code.DISK_FULL
    member.log.full = False
    assert seen(member.push(APPEND, entry(1, 5), previous=Place(1, 0)))[0] == Code.SUCCESS


class HalfFull(SimulatedLog):
    """It has room for one more entry."""

    def append_as_follower(self, entry):  # type: ignore[no-untyped-def]
        taken = super().append_as_follower(entry)
        self.full = True
        return taken


def test_half_a_batch_is_answered_with_how_far_it_got() -> None:
    log = HalfFull(0, 0)
    log.begin_with(entry(0, 1))
    member = OneMember(log, term=5)
    answer = member.push(APPEND, entry(1, 5), entry(2, 5), previous=Place(1, 0))
    assert seen(answer) == (Code.SUCCESS, 1, 0, 1)


# -- parked ----------------------------------------------------------------------------------------


def test_a_push_behind_a_gap_waits_for_what_is_missing() -> None:
    member = follower(1)
    assert member.push(APPEND, entry(2, 5), previous=Place(5, 1), token="second") is None
    answer = member.push(APPEND, entry(1, 5), previous=Place(1, 0), token="first")
    assert seen(answer) == (Code.SUCCESS, 1, 0, 2)
    assert member.answers["second"].code == Code.SUCCESS and terms_of(member) == [1, 5, 5]


@pytest.mark.parametrize(
    ("java", "code"), [(False, Code.INCONSISTENT_INDEX), (True, Code.INCONSISTENT_STATE)]
)
def test_one_that_waits_too_long_tells_of_the_gap_and_is_gone(java: bool, code: Code) -> None:
    member = follower(1, 5)
    assert member.push(APPEND, entry(3, 5), previous=Place(5, 2), java=java) is None
    member.pass_time(1_000)
    assert "asked" not in member.answers
    member.tick(50)
    answer = member.answers["asked"]
    assert (answer.code, getattr(answer, "end_index", None)) == (code, 1)
    assert member.push(APPEND, entry(3, 5), previous=Place(5, 2), java=java) is None, "parked anew"
    member.push(APPEND, entry(2, 5), previous=Place(5, 1), token="gap")
    assert member.answers["asked"].code == Code.SUCCESS


def test_the_same_begin_again_is_harmless() -> None:
    member = follower(1)
    member.push(APPEND, entry(2, 5), previous=Place(5, 1), token="first")
    member.push(APPEND, entry(2, 5), previous=Place(5, 1), token="again")
    assert member.answers["first"].code == Code.REPEATED_PUSH
    member.push(APPEND, entry(1, 5), previous=Place(1, 0))
    assert member.answers["again"].code == Code.SUCCESS


@pytest.mark.parametrize("kind", [COMPARE, TRUNCATE])
def test_a_comparison_sends_away_what_waits(kind: PushType) -> None:
    member = follower(1)
    member.push(APPEND, entry(5, 5), token="waits")
    member.push(kind, entry(0, 1))
    assert member.answers["waits"].code == Code.PUSH_REQUEST_IS_FULL


def test_more_than_may_wait_is_refused() -> None:
    member = follower(1, parked_entries_max=1)
    member.push(APPEND, entry(4, 5), token="first")
    answer = member.push(APPEND, entry(5, 5), token="second")
    assert answer is not None and answer.code == Code.PUSH_REQUEST_IS_FULL
    assert "first" not in member.answers


def test_what_waits_hears_when_the_leaders_time_is_over() -> None:
    member = follower(1)
    member.push(APPEND, entry(4, 5), token="waits")
    member.vote("m2", 6, Place(9, 9))
    answer = member.answers["waits"]
    assert (answer.code, answer.term) == (Code.EXPIRED_TERM, 6)


def test_an_acknowledgement_that_waits_for_the_disk_is_not_given_in_a_later_term() -> None:
    member = follower(1)
    member.holds_flushes = True
    member.push(APPEND, entry(1, 5), previous=Place(1, 0), token="waits")
    member.vote("m2", 6, Place(9, 9))
    assert member.answers["waits"].code == Code.EXPIRED_TERM
    member.answers.clear()
    member.flush()
    assert not member.answers


# -- compare ---------------------------------------------------------------------------------------

COMPARED = {
    "the same": (entry(2, 2), Code.SUCCESS, None),
    "another term": (entry(2, 3), Code.INCONSISTENT_STATE, Place(2, 1)),
    "another body": (entry(2, 2, b"y"), Code.INCONSISTENT_STATE, Place(2, 1)),
    "beyond the end": (entry(7, 3), Code.INCONSISTENT_STATE, None),
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_row_of_comparing(name: str) -> None:
    offered, code, conflict = COMPARED[name]
    member = follower(1, 2, 2, 2)
    answer = member.push(COMPARE, offered)
    assert answer is not None and (answer.code, answer.conflict) == (code, conflict)
    assert (answer.begin_index, answer.end_index, answer.end_term) == (0, 3, 2)


def test_what_was_cleaned_cannot_be_compared() -> None:
    member = OneMember(log_of(2, 2, first=10, committed=10), term=5)
    answer = member.push(COMPARE, entry(4, 1))
    assert answer is not None and answer.code == Code.INCONSISTENT_STATE
    assert answer.begin_index == 10


def test_an_empty_log_says_so() -> None:
    member = follower()
    assert seen(member.push(COMPARE, entry(4, 1))) == (Code.INCONSISTENT_STATE, 0, -1, -1)


# -- truncate --------------------------------------------------------------------------------------

# Terms here, committed; the entry, the leader's committed index; what it hears, terms after it.
TRUNCATED = {
    "held: what stands behind goes": ((1, 2, 2), -1, entry(0, 1), 0, Code.SUCCESS, [1]),
    "held, at the end": ((1, 2, 2), -1, entry(2, 2), 0, Code.SUCCESS, [1, 2, 2]),
    "held, committed behind": ((1, 2, 2), 1, entry(0, 1), 0, Code.SUCCESS, [1, 2]),
    "behind the last": ((1, 2), 1, entry(2, 4), 1, Code.SUCCESS, [1, 2, 4]),
    "another, all before it committed": ((1, 2, 2), 1, entry(2, 4), 1, Code.SUCCESS, [1, 2, 4]),
    "the first of an empty log": ((), -1, entry(0, 4), -1, Code.SUCCESS, [4]),
    "far away, all before it committed": ((1, 2), 1, entry(9, 4), 8, Code.SUCCESS, [4]),
    "far away, before it not committed": (
        (1, 2), 1, entry(9, 4), 7, Code.INCONSISTENT_STATE, [1, 2],
    ),
    "another behind what is not known to agree": (
        (1, 2, 2), 0, entry(2, 4), 0, Code.INCONSISTENT_STATE, [1, 2, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUNCATED)
def test_a_row_of_truncating(name: str) -> None:
    terms, committed, offered, told, code, after = TRUNCATED[name]
    member = follower(*terms, committed=committed)
    answer = member.push(TRUNCATE, offered, commit=told)
    assert answer is not None and answer.code == code
    assert terms_of(member) == after
    assert answer.end_index == member.log.last.index and member.left is None


def test_a_truncation_below_what_is_committed_is_refused_and_told() -> None:
    member = follower(1, 2, 2, committed=2)
    answer = member.push(TRUNCATE, entry(1, 4), commit=1)
    assert answer is not None and answer.code == Code.INCONSISTENT_STATE
    assert terms_of(member) == [1, 2, 2] and member.left is not None


def test_a_late_truncation_of_the_same_leader_cuts_nothing_that_was_acknowledged() -> None:
    member = follower(1)
    member.push(TRUNCATE, entry(0, 1))
    member.push(APPEND, entry(1, 5), entry(2, 5), previous=Place(1, 0))
    assert seen(member.push(TRUNCATE, entry(0, 1))) == (Code.SUCCESS, 1, 0, 2)
    assert terms_of(member) == [1, 5, 5]


def test_a_log_begun_anew_knows_that_all_before_it_is_committed() -> None:
    member = follower(1, 2, committed=1)
    member.push(TRUNCATE, entry(9, 4), commit=8)
    assert member.core.committed == 8 and member.log.first_index == 9
    assert seen(member.push(APPEND, entry(10, 5), java=True)) == (Code.SUCCESS, 1, 9, 10)


# -- commit ----------------------------------------------------------------------------------------


def test_a_commit_is_answered_with_where_the_log_ends() -> None:
    member = follower(1, 5, 5)
    answer = member.push(COMMIT, commit=1)
    assert answer is not None and answer.index is None
    assert (answer.end_index, answer.end_term) == (2, 5) and member.core.committed == 1


def test_a_commit_reaches_no_entry_that_may_be_another_leaders() -> None:
    member = follower(1, 2, 2)
    member.push(COMMIT, commit=2)
    assert member.core.committed == -1
    member.push(APPEND, entry(1, 2), previous=Place(1, 0), commit=2)
    assert member.core.committed == 1


def test_entries_of_the_leaders_own_term_are_known_to_be_its_log() -> None:
    """A follower that started anew; nobody compares it again, for it lost nothing."""
    member = follower(1, 5, 5)
    member.push(COMMIT, commit=2)
    assert member.core.committed == 2


def test_javas_word_commits_entries_of_its_own_term_only() -> None:
    member = follower(1, 2)
    member.push(COMPARE, entry(1, 2), java=True)
    member.push(COMMIT, commit=1, java=True)
    assert member.core.committed == -1
    member.push(APPEND, entry(2, 5), java=True, commit=2)
    assert member.core.committed == 2


def test_each_leader_is_compared_anew() -> None:
    member = follower(1, 2)
    member.push(COMPARE, entry(1, 2), java=True)
    answer = member.push(APPEND, entry(2, 6), leader="m2", term=6, java=True)
    assert answer is not None and answer.code == Code.INCONSISTENT_STATE
