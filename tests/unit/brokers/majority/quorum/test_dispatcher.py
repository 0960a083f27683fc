"""A leader's way to one follower, row by row (PROTOCOL 10.6)."""

from __future__ import annotations

import pytest

from brokers.majority.entry import Place
from brokers.majority.quorum.dispatcher import Mode
from brokers.majority.quorum.effects import Send
from brokers.majority.quorum.leadership import Leadership
from brokers.majority.quorum.standing import Role
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import HeartBeatRequest, HeartBeatResponse, PushResponse
from tests.support.majority_member import GROUP, OneMember, leader

APPEND, COMPARE = PushType.APPEND, PushType.COMPARE
TRUNCATE, COMMIT = PushType.TRUNCATE, PushType.COMMIT


def leading(member: OneMember) -> Leadership:
    found = member.core._leadership
    assert found is not None
    return found


def mode(member: OneMember, peer: str = "m1") -> Mode:
    return leading(member).dispatchers[peer].mode


def said(sent: Send) -> tuple[PushType, int, int]:
    message = sent.message
    return message.type, message.first_index, message.last_index  # type: ignore[union-attr]


def answer(member: OneMember, sent: Send, code: int = Code.SUCCESS, **fields: object) -> None:
    """As a follower that ends where the push ends, unless it says otherwise."""
    message = sent.message
    last = message.last_index if message.entries else member.log.last.index  # type: ignore[union-attr]
    end = fields.pop("end_index", last)
    given = {
        "index": message.first_index,  # type: ignore[union-attr]
        "count": len(message.entries),  # type: ignore[union-attr]
        "end_index": end,
        **fields,
    }
    member.answer(sent, PushResponse(group=GROUP, code=code, term=1, **given))  # type: ignore[arg-type]


def appending(**settings: object) -> OneMember:
    """A leader whose follower `m1` has everything."""
    member = leader(0, **settings)
    (compare,) = member.pushes()
    answer(member, compare)
    (first,) = member.pushes()
    answer(member, first)
    assert mode(member) is Mode.APPEND and leading(member).held()[1] == 1
    return member


# -- compare and truncate --------------------------------------------------------------------------


def test_a_leader_begins_by_comparing_its_last_entry() -> None:
    member = leader(0, 0)
    (sent,) = member.pushes()
    assert said(sent) == (COMPARE, 1, 1)


def test_a_follower_that_ends_with_the_leaders_entry_is_sent_what_follows() -> None:
    member = leader(0, 0)
    (sent,) = member.pushes()
    answer(member, sent, Code.INCONSISTENT_STATE, end_index=0)
    (sent,) = member.pushes()
    assert said(sent) == (COMPARE, 0, 0)
    answer(member, sent)
    (sent,) = member.pushes()
    assert said(sent) == (APPEND, 1, 2)
    assert sent.message.previous == Place(0, 0)  # type: ignore[union-attr]


def test_a_follower_whose_log_goes_on_is_truncated_first() -> None:
    member = leader(0, 0)
    (sent,) = member.pushes()
    answer(member, sent, end_index=9)
    (sent,) = member.pushes()
    assert said(sent) == (TRUNCATE, 1, 1) and mode(member) is Mode.TRUNCATE
    answer(member, sent)
    assert mode(member) is Mode.APPEND and leading(member).held()[1] == 1


def test_an_empty_follower_is_sent_the_first_entry_by_a_truncation() -> None:
    member = leader(0, 0)
    (sent,) = member.pushes()
    answer(member, sent, Code.INCONSISTENT_STATE, begin_index=-1, end_index=-1)
    (sent,) = member.pushes()
    assert said(sent) == (TRUNCATE, 0, 0)


def test_a_followers_hint_saves_rounds() -> None:
    member = leader(*[0] * 50, *[1] * 50)
    (sent,) = member.pushes()
    answer(member, sent, Code.INCONSISTENT_STATE, end_index=90)
    (sent,) = member.pushes()
    answer(member, sent, Code.INCONSISTENT_STATE, end_index=90, conflict=Place(0, 0))
    (sent,) = member.pushes()
    assert said(sent) == (COMPARE, 49, 49)
    answer(member, sent, end_index=90)
    (sent,) = member.pushes()
    assert said(sent) == (TRUNCATE, 49, 49)


@pytest.mark.parametrize(
    "code", [Code.NOT_FOLLOWER, Code.PUSH_REQUEST_IS_FULL, Code.UNKNOWN, Code.INTERNAL_ERROR, None]
)
def test_another_answer_to_a_comparison_begins_it_anew_after_a_pause(code: Code | None) -> None:
    member = leader(0)
    (sent,) = member.pushes()
    if code is None:
        member.answer(sent, None)
    else:
        answer(member, sent, code)
    member.tick(490)
    assert not member.pushes()
    member.tick(10)
    assert [said(one)[0] for one in member.pushes()] == [COMPARE]


def test_each_follower_has_its_own_way() -> None:
    member = leader(0)
    (sent,) = member.pushes("m1")
    answer(member, sent)
    assert (mode(member, "m1"), mode(member, "m2")) == (Mode.APPEND, Mode.COMPARE)


# -- append ----------------------------------------------------------------------------------------


def test_entries_go_out_in_batches_without_waiting() -> None:
    member = appending(batch_entries=2)
    member.append("t", b"a", b"b", b"c")
    assert [said(one) for one in member.pushes()] == [(APPEND, 2, 3), (APPEND, 4, 4)]


def test_without_batches_each_goes_alone() -> None:
    member = appending(batches=False)
    member.append("t", b"a", b"b")
    assert [said(one) for one in member.pushes()] == [(APPEND, 2, 2), (APPEND, 3, 3)]


@pytest.mark.parametrize(
    "limits", [{"window_entries": 2, "batch_entries": 1}, {"window_bytes": 98, "batch_entries": 1}]
)
def test_the_window_is_full_until_something_is_answered(limits: dict[str, int]) -> None:
    member = appending(**limits)
    member.append("t", *[b"x"] * 5)
    first, second = member.pushes()
    answer(member, first)
    assert len(member.pushes()) == 1
    assert said(second) == (APPEND, 3, 3)


def test_what_is_not_answered_goes_out_again_from_what_is_held() -> None:
    member = appending(batch_entries=1)
    member.append("t", b"a", b"b", b"c")
    first, *_ = member.pushes()
    answer(member, first)
    member.pass_time(1_050)
    assert [said(one) for one in member.pushes()] == [(APPEND, 3, 3), (APPEND, 4, 4)]


def test_also_the_first_push_of_a_term_goes_out_again() -> None:
    member = leader(0)
    (sent,) = member.pushes()
    answer(member, sent)
    assert [said(one) for one in member.pushes()] == [(APPEND, 1, 1)]
    member.pass_time(1_050)
    assert [said(one) for one in member.pushes()] == [(APPEND, 1, 1)]


def test_a_full_window_keeps_no_push_from_going_out_again() -> None:
    member = appending(window_entries=1)
    member.append("t", b"a", b"b")
    member.pushes()
    member.pass_time(1_050)
    assert [said(one) for one in member.pushes()] == [(APPEND, 2, 2)]


def test_a_call_that_fails_frees_its_place_and_is_tried_after_a_pause() -> None:
    member = appending()
    member.append("t", b"a")
    (sent,) = member.pushes()
    member.answer(sent, None)
    assert leading(member).dispatchers["m1"].unanswered_bytes == 0
    member.tick(490)
    assert not member.pushes()
    member.tick(20)
    assert [said(one) for one in member.pushes()] == [(APPEND, 2, 2)]


AFTER = {
    Code.INCONSISTENT_STATE: (Mode.COMPARE, 0),
    Code.INCONSISTENT_INDEX: (Mode.COMPARE, 0),
    Code.DISK_FULL: (Mode.APPEND, 1_000),
    Code.DISK_ERROR: (Mode.APPEND, 1_000),
    Code.REPEATED_PUSH: (Mode.APPEND, 500),
    Code.PUSH_REQUEST_IS_FULL: (Mode.APPEND, 500),
    Code.NOT_FOLLOWER: (Mode.APPEND, 500),
    Code.TERM_NOT_READY: (Mode.APPEND, 500),
    Code.UNEXPECTED_ARGUMENT: (Mode.APPEND, 500),
}


@pytest.mark.parametrize("code", AFTER)
def test_a_row_of_what_follows_from_a_refusal(code: Code) -> None:
    after, pause_ms = AFTER[code]
    member = appending()
    member.append("t", b"a")
    (sent,) = member.pushes()
    answer(member, sent, code)
    assert mode(member) is after
    if pause_ms:
        member.tick(pause_ms - 10)
        assert not member.pushes()
        member.tick(10)
    assert len(member.pushes()) == 1


def test_a_full_disk_of_a_follower_is_told_once() -> None:
    member = appending()
    member.append("t", b"a")
    for _ in range(3):
        (sent,) = member.pushes()
        answer(member, sent, Code.DISK_FULL)
        member.tick(1_000)
    assert [one.kind for one in member.reports].count("follower_disk") == 1


def test_a_refusal_by_a_larger_term_ends_the_leadership() -> None:
    member = appending()
    member.append("t", b"a")
    (sent,) = member.pushes()
    message = PushResponse(group=GROUP, code=Code.EXPIRED_TERM, term=9)
    member.answer(sent, message)
    assert member.core.standing.role is Role.CANDIDATE
    assert member.done["t"].code is Code.TERM_CHANGED


# How many were sent; what the answer says: count and end; up to where the follower is known.
COUNTS = {
    "all": (3, 3, 4, 4),
    "one of an old peer": (1, 0, 2, 2),
    "a batch of an old peer": (3, 0, 4, 4),
    "a batch that an old peer took in part": (3, 0, 3, 3),
    "half a batch": (3, 1, 2, 2),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_row_of_what_an_answer_acknowledges(name: str) -> None:
    sent_count, count, end, match = COUNTS[name]
    member = appending()
    member.append("t", *[b"x"] * sent_count)
    (sent,) = member.pushes()
    answer(member, sent, count=count, end_index=end)
    assert leading(member).held()[1] == match
    again = [said(one) for one in member.pushes()]
    last = 1 + sent_count
    assert again == ([] if match == last else [(APPEND, match + 1, last)])


def test_an_answer_of_an_earlier_session_says_nothing() -> None:
    member = appending(batch_entries=1)
    member.append("t", b"a", b"b")
    first, second = member.pushes()
    answer(member, first, Code.INCONSISTENT_STATE)
    answer(member, second)
    assert mode(member) is Mode.COMPARE and leading(member).held()[1] == -1


def test_a_late_answer_to_a_push_that_was_sent_again_counts() -> None:
    member = appending()
    member.append("t", b"a")
    (first,) = member.pushes()
    member.pass_time(1_050)
    answer(member, first)
    assert leading(member).held()[1] == 2


def test_an_entry_that_was_cleaned_meanwhile_is_compared_anew() -> None:
    member = leader(*[0] * 9)
    (sent,) = member.pushes()
    answer(member, sent, Code.INCONSISTENT_STATE, end_index=3)
    (sent,) = member.pushes()
    member.log.drop_below(7)
    answer(member, sent, end_index=3)
    member.tick()
    (sent,) = member.pushes()
    assert said(sent) == (COMPARE, 9, 9)


def test_an_entry_that_cannot_be_read_is_told_and_tried_again() -> None:
    member = leader(0)
    (sent,) = member.pushes()
    member.log.unreadable = 1
    answer(member, sent)
    assert [one.kind for one in member.reports][-1] == "push_unreadable"
    member.tick(500)
    assert [said(one)[0] for one in member.pushes()] == [COMPARE]


# -- commit ----------------------------------------------------------------------------------------


def test_a_silent_follower_is_told_what_is_committed() -> None:
    member = appending()
    member.tick(990)
    assert not member.pushes()
    member.tick(10)
    (sent,) = member.pushes()
    assert said(sent)[0] is COMMIT and sent.message.commit_index == 1  # type: ignore[union-attr]


SHRUNK = {
    "as it was": (2, 1, Mode.APPEND),
    "longer": (9, 1, Mode.APPEND),
    "shorter": (1, 0, Mode.COMPARE),
    "empty": (-1, -1, Mode.COMPARE),
}


@pytest.mark.parametrize("by", ["commit", "heartbeat"])
@pytest.mark.parametrize("name", SHRUNK)
def test_a_follower_that_shrank_is_compared_again_without_any_traffic(name: str, by: str) -> None:
    end, end_term, after = SHRUNK[name]
    member = leader(0, 0)
    (sent,) = member.pushes()
    answer(member, sent)
    (sent,) = member.pushes()
    answer(member, sent)
    member.said(HeartBeatRequest)
    member.pass_time(2_000)
    if by == "commit":
        sent = member.pushes("m1", COMMIT)[0]
        answer(member, sent, end_index=end)
    else:
        sent = member.said(HeartBeatRequest, "m1")[0]
        member.answer(sent, HeartBeatResponse(group=GROUP, end=Place(end_term, end)))
    assert mode(member) is after


def test_entries_go_in_binary_to_who_takes_them() -> None:
    member = leader(0)
    (sent,) = member.pushes()
    assert not sent.binary
    answer(member, sent, takes_binary=True)
    (sent,) = member.pushes()
    assert sent.binary


def test_a_follower_that_refuses_what_it_agreed_to_is_not_asked_without_a_pause() -> None:
    """Java's says conflict for a full disk too."""
    member = appending()
    member.append("t", b"a")
    (sent,) = member.pushes()
    answer(member, sent, Code.INCONSISTENT_STATE, end_index=1)
    (compare,) = member.pushes()
    answer(member, compare, Code.INCONSISTENT_STATE, end_index=1)
    (compare,) = member.pushes()
    answer(member, compare)
    (sent,) = member.pushes()
    answer(member, sent, Code.INCONSISTENT_STATE, end_index=1)
    assert not member.pushes()
    member.tick(500)
    assert [said(one)[0] for one in member.pushes()] == [COMPARE]


@pytest.mark.parametrize("how", ["vote", "heartbeat", "silence"])
def test_a_late_answer_makes_no_leader_of_one_that_leads_no_more(how: str) -> None:
    """Its pushes would have the new term, and name a leader that nobody elected."""
    member = leader(0)
    (compare,) = member.pushes("m1")
    if how == "vote":
        member.vote("m2", 9, Place(9, 9))
    elif how == "heartbeat":
        member.heartbeat("m2", 9)
    else:
        member.pass_time(6_050)
    member.sent.clear()
    answer(member, compare)
    assert not member.pushes("m1") and not member.pushes("m2")
