"""Slave acting master, sections 5.1 to 5.4: locks of queues, and votes for them."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.lock_messages import LockRequest
from brokers.acting.lock_quorum import LockQuorum, quorum_of
from brokers.service.clients.queue_locks import Queue, QueueLocks
from tests.conformance.rows import Row, Shown, Table
from tests.support.acting_rig import of

Q: Queue = ("broker-a", "T", 0)
R: Queue = ("broker-a", "T", 1)
M1, M2 = "m1:1", "m2:1"


def request(
    client: str = "c1", *queues: Queue, only: bool = False, round_id: str = ""
) -> LockRequest:
    return LockRequest("G", client, queues or (Q,), only, round_id)


def member(total: int = 3, *, strict: bool = True, name: str = "m0") -> LockQuorum:
    return LockQuorum(QueueLocks(), name, total, strict=strict)


def held(effects: list[fx.Effect]) -> list[tuple[Queue, ...]]:
    return [one.queues for one in of(effects, fx.AnswerLock)]


LOCK = Table("5.2")


@LOCK.row("1-and-2-local-mode", shipped=[[(Q,)], []])
def _() -> list[object]:
    _, effects = member(strict=False).lock(request(), (M1, M2), 0)
    return [held(effects), of(effects, fx.SendLock)]


@LOCK.row("2-only-this-broker", shipped=[[(Q,)], []])
def _() -> list[object]:
    _, effects = member().lock(request(only=True), (M1, M2), 0)
    return [held(effects), of(effects, fx.SendLock)]


LOCK.row("3-quorum", shipped={1: 1, 2: 2, 3: 2, 5: 3})(
    lambda: {total: quorum_of(total) for total in (1, 2, 3, 5)}
)


@LOCK.row("4-asks-every-other-member-for-what-it-got-itself", shipped=[(M1, (Q,)), (M2, (Q,))])
def _() -> list[object]:
    one = member()
    one.vote(request("c2", R), 0)
    _, effects = one.lock(request("c1", Q, R), (M1, M2), 0)
    return [(sent.address, sent.queues) for sent in of(effects, fx.SendLock) if sent.lock]


@LOCK.row("5-errors-and-late-answers-count-nothing", shipped=[[], [()], []])
def _() -> list[object]:
    one = member()
    round_id, _ = one.lock(request(), (M1, M2), 0)
    error = held(one.voted(round_id, M1, None, ""))
    end = held(one.tick(2_000))
    return [error, end, held(one.voted(round_id, M2, (Q,), ""))]


@LOCK.row("6-votes-from-the-quorum-on", shipped=[[(Q,)]])
def _() -> list[object]:
    one = member()
    round_id, _ = one.lock(request(), (M1, M2), 0)
    return [held(one.voted(round_id, M2, (Q,), round_id))]


def alive(total: int, living: int) -> bool:
    """Whether a lock is given with so many members that live, this one among them."""
    one = member(total)
    others = tuple(f"m{n}:1" for n in range(1, living))
    round_id, effects = one.lock(request(), others, 0)
    for address in others:
        effects += one.voted(round_id, address, (Q,), round_id)
    effects += one.tick(2_000)
    return held(effects) == [(Q,)]


for _total, _two, _one in ((1, None, True), (2, True, False), (3, True, False), (5, False, False)):
    LOCK.row(f"replicas-{_total}", shipped=(_two, _one))(
        lambda total=_total: (None if total == 1 else alive(total, 2), alive(total, 1))
    )


@LOCK.row("no-members-were-ever-told", shipped=[()])
def _() -> list[object]:
    return list(held(member().lock(request(), (), 0)[1]))


@LOCK.row(
    "a-lost-round-is-given-back",
    shipped=["c1", []],
    ours=[None, [(M1, (Q,), "m0-1")]],
    because="11.3: else it blocks others for 60 s",
)
def _() -> list[object]:
    locks = QueueLocks()
    one = LockQuorum(locks, "m0", 5, strict=True)
    round_id, _ = one.lock(request(), (M1, M2), 0)
    one.voted(round_id, M1, (Q,), round_id)
    lost = one.tick(2_000)
    sent = [(each.address, each.queues, each.round_id) for each in of(lost, fx.SendLock)]
    return [locks.holder("G", Q, 2_000), sent]


@LOCK.row("what-was-renewed-in-vain-stays", shipped="c1")
def _() -> object:
    locks = QueueLocks()
    one = LockQuorum(locks, "m0", 3, strict=True)
    first, _ = one.lock(request(), (M1, M2), 0)
    one.voted(first, M1, (Q,), first)
    one.lock(request(), (M1, M2), 20_000)
    one.tick(22_000)
    return locks.holder("G", Q, 22_000)


@LOCK.row(
    "one-vote-of-each-member",
    shipped="counted twice",
    ours=[[], []],
    because="5.2: counting is not atomic in RocketMQ",
)
def _() -> object:
    one = member(5)
    round_id, _ = one.lock(request(), (M1, M2), 0)
    return [held(one.voted(round_id, M1, (Q,), round_id)) for _ in range(2)]


@LOCK.row(
    "a-late-vote-of-a-lost-round-is-given-back",
    shipped=[],
    ours=[(M2, False, (Q,))],
    because="11.3: roll-back",
)
def _() -> list[object]:
    one = member(5)
    round_id, _ = one.lock(request(), (M1, M2), 0)
    one.tick(2_000)
    late = one.voted(round_id, M2, (Q,), round_id)
    return [(each.address, each.lock, each.queues) for each in of(late, fx.SendLock)]


@LOCK.row("java-members-are-left-to-their-clock", shipped=[])
def _() -> list[object]:
    one = member(5)
    round_id, _ = one.lock(request(), (M1, M2), 0)
    one.voted(round_id, M1, (Q,), "")
    return list(of(one.tick(2_000), fx.SendLock))


@LOCK.row(
    "a-member-gives-back-only-what-that-round-took",
    shipped=None,
    ours=["c1", None],
    because="a round that is won meanwhile would lose its votes",
)
def _() -> list[object]:
    locks = QueueLocks()
    one = LockQuorum(locks, "m1", 3, strict=True)
    one.vote(request(only=True, round_id="a-1"), 0)
    one.vote(request(only=True, round_id="a-2"), 1)
    one.unlock(request(only=True, round_id="a-1"), (), 2)
    renewed = locks.holder("G", Q, 2)
    locks.unlock("G", "c1", (Q,))
    one.vote(request(only=True, round_id="a-3"), 3)
    one.unlock(request(only=True, round_id="a-3"), (), 4)
    return [renewed, locks.holder("G", Q, 4)]


@LOCK.row(
    "a-member-that-forgot-its-locks",
    shipped=[(Q,), (Q,)],
    ours=[(), (Q,)],
    because="a majority that remembers is what protects the order",
)
def _() -> list[object]:
    one = LockQuorum(QueueLocks(), "m1", 3, strict=True, forgot_at_ms=0)
    return [one.vote(request(only=True, round_id="a-1"), at) for at in (60_000, 60_001)]


@LOCK.row(
    "a-member-with-an-empty-folder",
    shipped=[(Q,), (Q,)],
    ours=[(), (Q,)],
    because="it may have lost a disk, and its vote with it; one that counts votes as ours do is "
    "told, and counts it where all members vote",
)
def _() -> list[object]:
    one = LockQuorum(QueueLocks(), "m1", 3, strict=True, forgot_at_ms=0, began_empty=True)
    return [one.vote(request(only=True, round_id=name), 1) for name in ("", "a-1")]


UNLOCK = Table("5.3")


@UNLOCK.row("local", shipped=[[], None])
def _() -> list[object]:
    locks = QueueLocks()
    one = LockQuorum(locks, "m0", 3, strict=False)
    one.vote(request(), 0)
    return [one.unlock(request(), (M1,), 0), locks.holder("G", Q, 0)]


@UNLOCK.row("strict-everywhere", shipped=[M1, M2])
def _() -> list[str]:
    return [one.address for one in of(member().unlock(request(), (M2, M1), 0), fx.SendLock)]


@UNLOCK.row(
    "the-own-lock-at-once",
    shipped="c1",
    ours=None,
    because="5.3: RocketMQ asks itself over the network, if it finds itself in the group",
)
def _() -> object:
    locks = QueueLocks()
    one = LockQuorum(locks, "m0", 3, strict=True)
    one.vote(request(), 0)
    one.unlock(request(), (), 0)
    return locks.holder("G", Q, 0)


@UNLOCK.row("while-its-round-is-under-way", shipped=[()])
def _() -> list[object]:
    one = member()
    round_id, _ = one.lock(request(), (M1, M2), 0)
    one.unlock(request(), (M1, M2), 1)
    return held(one.voted(round_id, M1, (Q,), round_id) + one.tick(2_000))


@pytest.mark.parametrize("row", LOCK.rows + UNLOCK.rows)
def test_row(row: Row | Shown) -> None:
    row.check()
