"""One mastership: appends, waiters, the first entry of a term, what is committed (PROTOCOL
10.7).
"""

from __future__ import annotations

import pytest

from brokers.majority.quorum.config import Durability, QuorumConfig
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import NewEntry
from brokers.majority.quorum.leadership import Leadership
from brokers.majority.quorum.standing import Role
from brokers.majority.wire.codes import NOT_APPENDED, Code
from brokers.majority.wire.messages import AppendRequest, PushRequest, PushResponse
from tests.support.majority_member import GROUP, OneMember, log_of


def leader(**settings: object) -> OneMember:
    """It leads, and `m1` has its first entry: it is ready."""
    member = OneMember(log_of(0), **settings)
    member.lead()
    acknowledge(member)
    return member


def acknowledge(member: OneMember, peer: str = "m1") -> None:
    """The follower takes all that it was sent."""
    while sent := member.pushes(peer):
        for one in sent:
            push = one.message
            assert isinstance(push, PushRequest)
            end = max(push.last_index, member.core._leadership.held()[1])  # type: ignore[union-attr]
            if not push.entries:
                return
            member.answer(
                one,
                PushResponse(
                    group=GROUP, index=push.first_index, count=len(push.entries), end_index=end
                ),
            )


def test_a_leader_writes_the_first_entry_of_its_term() -> None:
    begins = NewEntry(None, 7, lambda position: b"at %04d" % position)
    member = OneMember(log_of(0), first_entry=begins)
    member.lead()
    first, own = member.log.entries
    assert (first.term, first.body) == (0, b"x")
    assert (own.term, own.body) == (1, b"at %04d" % own.position)
    assert not member.core.ready
    acknowledge(member)
    assert member.core.ready and member.core.committed == 1
    assert member.order.count("LeaderReady") == 1


def test_an_append_is_answered_when_a_majority_has_it() -> None:
    member = leader()
    assert member.append("t", b"a") is None
    acknowledge(member)
    done = member.done["t"]
    assert (done.code, done.index, done.leader_id) == (Code.SUCCESS, 2, "m0")
    assert member.core.committed == 2 and member.core.pending == 0


def test_of_several_entries_the_last_one_is_waited_for() -> None:
    member = leader()
    member.append("t", b"a", b"b", b"c")
    acknowledge(member)
    assert member.done["t"].index == 4


def test_its_own_copy_counts_when_it_is_on_the_disk() -> None:
    member = leader()
    member.holds_flushes = True
    member.append("t", b"a")
    acknowledge(member)
    assert "t" not in member.done
    member.flush()
    assert member.done["t"].code is Code.SUCCESS


def test_the_weaker_level_counts_what_is_written() -> None:
    member = leader(durability=Durability.WRITTEN)
    member.holds_flushes = True
    member.append("t", b"a")
    acknowledge(member)
    assert member.done["t"].code is Code.SUCCESS
    member.tick(20)
    assert member.flushes > 0, "and flushes all the same"


def test_one_flush_is_under_way_at_a_time() -> None:
    member = leader()
    member.holds_flushes = True
    before = member.flushes
    for token in "abc":
        member.append(token, b"x")
    assert member.flushes == before + 1
    member.flush()
    assert member.flushes == before + 1, "the one flush took all of them"


def test_a_group_of_one_goes_the_same_way() -> None:
    member = OneMember(log_of(0), members=("m0",))
    member.holds_flushes = True
    while member.core.standing.role is not Role.LEADER:
        member.tick(100)
    assert not member.core.ready
    member.flush()
    assert member.core.ready
    member.append("t", b"a")
    assert "t" not in member.done
    member.flush()
    assert member.done["t"].code is Code.SUCCESS


REFUSED = {
    "it does not lead": Code.NOT_LEADER,
    "its first entry is not committed": Code.LEADER_NOT_READY,
    "too many wait": Code.LEADER_PENDING_FULL,
    "it hands over": Code.LEADER_TRANSFERRING,
    "no body": Code.REQUEST_WITH_EMPTY_BODYS,
    "its disk is full": Code.DISK_FULL,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_row_of_refused_appends(name: str) -> None:
    bodies: tuple[bytes, ...] = (b"a",)
    if name == "it does not lead":
        member = OneMember(log_of(0))
    elif name == "its first entry is not committed":
        member = OneMember(log_of(0))
        member.lead()
    else:
        member = leader(pending_max=2)
    if name == "too many wait":
        for token in "abc":
            assert member.append(token, b"x") is None, "more than the limit are refused"
    elif name == "it hands over":
        member.carry_out(member.core.transfer("handover", "m1", member.now_ms))
    elif name == "no body":
        bodies = ()
    elif name == "its disk is full":
        member.log.full = True
    done = member.append("t", *bodies)
    assert done is not None and done.code is REFUSED[name]
    assert done.code in NOT_APPENDED and done.index == -1


def test_what_is_not_answered_in_time_is_unknown_and_may_still_be_committed() -> None:
    member = leader()
    member.append("t", b"a")
    sent = member.pushes()
    member.tick(2_490)
    assert "t" not in member.done
    member.tick(10)
    assert member.done["t"].code is Code.WAIT_QUORUM_ACK_TIMEOUT
    assert member.log.last.index == 2, "the entry stays"
    member.sent += sent
    acknowledge(member)
    assert member.core.committed == 2


def test_who_waits_at_a_leader_that_leads_no_more_hears_at_once_that_it_is_unknown() -> None:
    member = leader()
    member.append("t", b"a")
    member.heartbeat("m1", 9)
    assert member.done["t"].code is Code.TERM_CHANGED
    assert member.done["t"].code not in NOT_APPENDED


def test_entries_of_an_older_term_are_committed_with_one_of_the_own() -> None:
    member = OneMember(log_of(0, 0, 0))
    member.lead()
    first = member.pushes()
    member.answer(first[0], PushResponse(group=GROUP, code=Code.INCONSISTENT_STATE, end_index=2))
    (sent,) = member.pushes()
    member.answer(sent, PushResponse(group=GROUP, index=2, count=1, end_index=2))
    assert member.core.committed == -1, "a majority has the older ones"
    acknowledge(member)
    assert member.core.committed == 3


def test_a_leader_that_cannot_write_its_first_entry_leads_no_more() -> None:
    log = log_of(0)
    log.full = True
    member = OneMember(log)
    member.lead()
    member.tick()
    assert member.core.standing.role is Role.CANDIDATE


def test_what_may_be_cleaned_is_bounded_by_followers_that_are_there() -> None:
    member = leader()
    member.append("t", b"a", b"b")
    assert member.core.droppable(applied=3) == 1
    acknowledge(member)
    assert member.core.droppable(applied=2) == 2
    assert isinstance(member.core, QuorumCore) and Leadership.__doc__


def test_clients_requests_are_not_for_the_core() -> None:
    member = leader()
    with pytest.raises(ValueError, match="AppendRequest"):
        member.ask(AppendRequest(group=GROUP, body=b"a"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"members": ("m1", "m2")},
        {"members": ("m0", "m0")},
        {"window_entries": 0},
        {"heartbeat_ms": 0},
        {"vote_pause_ms": (5, 4)},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    given = {"group": "g", "self_id": "m0", "members": ("m0", "m1"), **wrong}
    with pytest.raises(ValueError, match=r"\w"):
        QuorumConfig(**given)  # type: ignore[arg-type]
