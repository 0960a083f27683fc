"""Locks of a set whose member began anew, and may have forgotten to whom it gave its vote."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.lock_messages import LockRequest
from brokers.acting.lock_quorum import VOTE_WAIT_MS, LockQuorum
from brokers.service.clients.queue_locks import LOCK_EXPIRES_MS, Queue, QueueLocks
from tests.support.acting_rig import of

Q: Queue = ("broker-a", "T", 0)
R: Queue = ("broker-a", "T", 1)
M1, M2 = "m1:1", "m2:1"
BEGAN_MS = 1_000


class Restarted:
    """A member that began anew at BEGAN_MS."""

    def __init__(self, total: int = 3) -> None:
        self.locks = QueueLocks()
        self.quorum = LockQuorum(self.locks, "m0", total, strict=True, forgot_at_ms=BEGAN_MS)

    def ask(
        self,
        client: str,
        votes: dict[str, tuple[Queue, ...] | None],
        *queues: Queue,
        now_ms: int = BEGAN_MS,
        living: tuple[str, ...] = (M1, M2),
    ) -> tuple[tuple[Queue, ...], list[fx.SendLock]]:
        """(what the client is given, what members are sent), by these votes."""
        request = LockRequest("G", client, queues or (Q,))
        round_id, effects = self.quorum.lock(request, living, now_ms)
        for one, given in votes.items():
            effects += self.quorum.voted(round_id, one, given, round_id)
        effects += self.quorum.tick(now_ms + VOTE_WAIT_MS)
        (answer, *more) = (one for one in of(effects, fx.AnswerLock) if one.round_id == round_id)
        assert not more
        return answer.queues, of(effects, fx.SendLock)

    def holder(self, queue: Queue = Q) -> str | None:
        return self.locks.holder("G", queue, BEGAN_MS + VOTE_WAIT_MS)


def test_the_others_alone_give_a_lock_that_is_renewed_here_then() -> None:
    one = Restarted()
    assert one.ask("c1", {M1: (Q,), M2: (Q,)})[0] == (Q,)
    assert one.holder() == "c1"
    renewed, _ = one.ask("c1", {M1: (Q,), M2: None}, now_ms=BEGAN_MS + 20_000)
    assert renewed == (Q,), "its own vote counts from now on: it was given"


@pytest.mark.parametrize("votes", [{M1: (Q,), M2: ()}, {M1: (Q,), M2: None}, {M1: (Q,)}, {}])
def test_the_own_vote_does_not_count_where_it_may_have_been_another_ones(
    votes: dict[str, tuple[Queue, ...] | None],
) -> None:
    one = Restarted()
    given, sent = one.ask("c1", votes)
    assert given == () and one.holder() is None
    back = [(each.address, each.queues) for each in sent if not each.lock]
    assert ((M1, (Q,)) in back) == (M1 in votes), "what the round took is given back"


def test_what_another_client_holds_here_is_not_asked_for() -> None:
    one = Restarted()
    one.ask("c1", {M1: (Q,), M2: (Q,)})
    given, sent = one.ask("c2", {M1: (Q, R), M2: (Q, R)}, Q, R)
    assert given == (R,) and {each.queues for each in sent if each.lock} == {(R,)}
    assert (one.holder(Q), one.holder(R)) == ("c1", "c2")


def test_one_that_was_given_to_another_client_meanwhile_is_lost() -> None:
    one = Restarted()
    first, _ = one.quorum.lock(LockRequest("G", "c1", (Q,)), (M1, M2), BEGAN_MS)
    second, _ = one.quorum.lock(LockRequest("G", "c2", (Q,)), (M1, M2), BEGAN_MS)
    found: dict[str, tuple[Queue, ...]] = {}
    for name in (second, first):
        for member in (M1, M2):
            for answer in of(one.quorum.voted(name, member, (Q,), name), fx.AnswerLock):
                found[name] = answer.queues
    assert found == {second: (Q,), first: ()} and one.holder() == "c2"


def test_what_its_client_gave_up_meanwhile_is_not_taken() -> None:
    one = Restarted()
    request = LockRequest("G", "c1", (Q,))
    round_id, _ = one.quorum.lock(request, (M1, M2), BEGAN_MS)
    one.quorum.unlock(request, (M1, M2), BEGAN_MS)
    (answer,) = of(one.quorum.voted(round_id, M1, (Q,), round_id), fx.AnswerLock)
    assert not answer.queues and one.holder() is None


@pytest.mark.parametrize(("total", "living"), [(2, (M1,)), (3, (M1,)), (5, (M1, M2))])
def test_others_that_are_too_few_are_not_asked(total: int, living: tuple[str, ...]) -> None:
    given, sent = Restarted(total).ask("c1", {}, living=living)
    assert given == () and not sent


def test_it_gives_no_vote_in_rounds_of_others_until_an_old_lock_is_over() -> None:
    one = Restarted()
    request = LockRequest("G", "c1", (Q,), True, "m1-1")
    assert one.quorum.vote(request, BEGAN_MS + LOCK_EXPIRES_MS) == ()
    assert one.quorum.vote(request, BEGAN_MS + LOCK_EXPIRES_MS + 1) == (Q,)


class Members:
    """Members by address, each asked for its vote as over the network."""

    def __init__(self, new: tuple[str, ...], others: tuple[str, ...] = ()) -> None:
        self.quorums = {
            **{one: quorum(one, new=True) for one in new},
            **{one: quorum(one, new=False) for one in others},
        }

    def locks(
        self, client: str, asked: str, *, away: tuple[str, ...] = (), now_ms: int = BEGAN_MS
    ) -> bool:
        """Whether this client is given the queue by the member that it asks."""
        one = self.quorums[asked]
        others = [address for address in self.quorums if address != asked]
        round_id, effects = one.lock(LockRequest("G", client, (Q,)), others, now_ms)
        for sent in of(effects, fx.SendLock):
            if sent.address not in away:
                request = LockRequest("G", client, sent.queues, True, round_id)
                voter = self.quorums[sent.address]
                given = voter.vote_for(request, now_ms)
                is_new = voter.is_new(now_ms)
                effects += one.voted(round_id, sent.address, given, round_id, is_new=is_new)
        effects += one.tick(now_ms + VOTE_WAIT_MS)
        for back in of(effects, fx.SendLock):
            if not back.lock and back.address not in away:
                request = LockRequest("G", client, back.queues, True, round_id)
                self.quorums[back.address].unlock(request, (), now_ms)
        (answer,) = of(effects, fx.AnswerLock)
        return answer.queues == (Q,)


def quorum(name: str, *, new: bool) -> LockQuorum:
    began_ms = BEGAN_MS if new else None
    return LockQuorum(QueueLocks(), name, 3, strict=True, forgot_at_ms=began_ms, began_empty=new)


def test_a_member_that_lost_its_disk_makes_no_second_majority() -> None:
    """It gave its vote to c1 together with m1, and m2 gave it to nobody."""
    found = Members(("m0",), ("m1", "m2"))
    found.quorums["m1"].vote(LockRequest("G", "c1", (Q,), True, "m1-1"), BEGAN_MS)
    assert not found.locks("c2", "m2") and not found.locks("c2", "m0")
    assert not found.locks("c2", "m2", away=("m1",)), "its vote is none without the others'"
    assert found.locks("c1", "m1", away=("m0",)), "who had it keeps it"


def test_a_new_set_gives_locks_at_once_where_all_vote() -> None:
    found = Members(("m0", "m1", "m2"))
    assert found.locks("c1", "m0") and found.locks("c1", "m1")
    assert not found.locks("c2", "m2")
    assert not found.locks("c1", "m0", away=("m2",)), "one that is away may have given it"
    after_ms = BEGAN_MS + LOCK_EXPIRES_MS + 1
    assert found.locks("c1", "m0", away=("m2",), now_ms=after_ms)


def test_a_new_member_gives_no_vote_to_who_counts_it_as_any_other() -> None:
    request = LockRequest("G", "c1", (Q,), True)
    assert quorum("m0", new=True).vote(request, BEGAN_MS) == ()
