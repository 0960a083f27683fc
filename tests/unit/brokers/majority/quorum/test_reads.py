"""How far the log is committed, by the word of a majority (PROTOCOL 10.8)."""

from __future__ import annotations

from brokers.majority.quorum.reads import Reading, Reads
from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import HeartBeatRequest, HeartBeatResponse
from tests.support.majority_member import GROUP, OneMember, log_of
from tests.unit.brokers.majority.quorum.test_leadership import acknowledge, leader


def beat(member: OneMember, peer: str, **fields: object) -> int:
    """Answers what `peer` was sent; how much that was."""
    sent = member.said(HeartBeatRequest, peer)
    for one in sent:
        member.answer(one, HeartBeatResponse(group=GROUP, **fields))  # type: ignore[arg-type]
    return len(sent)


def test_a_read_is_answered_when_a_majority_follows_still() -> None:
    member = leader()
    beat(member, "m1")
    assert member.read("r") is None
    assert beat(member, "m1") == 1, "asked at once"
    done = member.was_read["r"]
    assert (done.code, done.index, done.leader_id) == (Code.SUCCESS, member.core.committed, "m0")


def test_an_answer_to_a_heartbeat_of_before_the_read_says_nothing() -> None:
    member = leader()
    assert member.read("r") is None
    assert beat(member, "m1") == 1, "under way when the read came"
    assert "r" not in member.was_read
    assert beat(member, "m1") == 1, "the next one follows at once"
    assert member.was_read["r"].code is Code.SUCCESS


def test_reads_that_come_together_share_their_heartbeats() -> None:
    member = leader()
    beat(member, "m1")
    for token in range(5):
        member.read(token)
    assert beat(member, "m1") == 1
    assert 0 in member.was_read and 4 not in member.was_read
    assert beat(member, "m1") == 1
    assert len(member.was_read) == 5


def test_who_refuses_is_not_asked_at_once_again() -> None:
    member = leader()
    beat(member, "m1")
    member.read("r")
    assert beat(member, "m1", code=Code.TERM_NOT_READY) == 1
    assert beat(member, "m1") == 0
    member.tick(100)
    assert beat(member, "m1") == 1
    assert member.was_read["r"].code is Code.SUCCESS


def test_a_leader_that_is_replaced_answers_no_read() -> None:
    member = leader()
    beat(member, "m1")
    member.read("r")
    beat(member, "m1", code=Code.EXPIRED_TERM, term=9)
    assert member.was_read["r"].code is Code.TERM_CHANGED


def test_a_read_ends_after_its_time() -> None:
    member = leader()
    beat(member, "m1")
    member.read("r")
    member.pass_time(2_500)
    assert member.was_read["r"].code is Code.WAIT_QUORUM_ACK_TIMEOUT
    assert not member.core._leadership.reads  # type: ignore[union-attr]


def test_a_new_leader_reads_when_its_first_entry_is_committed() -> None:
    member = OneMember(log_of(0))
    done = member.read("early")
    assert done is not None and done.code is Code.NOT_LEADER
    member.lead()
    done = member.read("r")
    assert done is not None and done.code is Code.LEADER_NOT_READY
    acknowledge(member)
    beat(member, "m1")
    member.read("later")
    beat(member, "m1")
    assert member.was_read["later"].index == 1


def test_more_reads_than_may_wait_are_refused() -> None:
    member = leader(pending_max=2)
    refused = [member.read(token) for token in range(4)]
    assert [one is None for one in refused] == [True, True, True, False]
    assert member.was_read[3].code is Code.LEADER_PENDING_FULL


def test_one_alone_is_its_own_majority() -> None:
    member = OneMember(log_of(0), members=("m0",))
    member.lead()
    done = member.read("r")
    assert done is not None and (done.code, done.index) == (Code.SUCCESS, 1)


def test_each_read_waits_for_answers_of_its_own_time() -> None:
    reads = Reads(2)
    for number in range(3):
        reads.add(Reading(number, number, mark=number * 10, until_ms=100 + number))
    assert reads.answered([0, 0, 40]) == []
    assert [one.token for one in reads.answered([15, 0, 40, 11])] == [0, 1]
    assert [one.token for one in reads.too_late(101)] == []
    assert [one.token for one in reads.too_late(102)] == [2]
    assert not reads and reads.all() == []
