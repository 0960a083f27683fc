"""Locks of queues by the votes of a set (PROTOCOL 7.5).

Responsible for: local locks, votes for other members, rounds of votes, giving back what a lost
round took. Refuses to know: sockets, who the members are, clients.

Two clients never hold one queue by a majority of the configured replicas, for two majorities share
a member. What would undo that: a member that forgot its locks by a new start gives no votes while
an old lock may be believed in, and a round gives back only what that very round took: a lock that
was renewed in vain stays until it expires, for its client may not have heard yet. Who forgot asks
the others all the same, and does without its own vote: a majority of them shares a member that
remembers with every older one.

One that began with an empty folder has lost a disk, or the set is new, which nobody can tell from
it alone. So its votes of that time count where all configured replicas vote for the same client,
and none holds the queue for another one: of those that gave an older lock one remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from brokers.acting import effects as fx
from brokers.acting.counted import LockCounts
from brokers.acting.lock_messages import LockRequest
from brokers.service.clients.queue_locks import LOCK_EXPIRES_MS, Queue, QueueLocks

VOTE_WAIT_MS = 2_000
ROUNDS_MAX = 4_096
# Rounds that are over, for late votes.
OVER_MAX = 4_096
ROUND_MEMBERS_MAX = 1_000
_TAKEN_MAX = 400_000


def quorum_of(total_replicas: int) -> int:
    """A majority of the configured replicas, not of those that live."""
    return total_replicas // 2 + 1


@dataclass(slots=True)
class _Round:
    request: LockRequest
    begun_ms: int
    own: frozenset[Queue]
    own_is_new: bool
    # What members are asked about: the own ones, and where nobody knows whose they are here.
    sought: tuple[Queue, ...]
    asked: tuple[str, ...]
    connection_id: int
    # Members that voted for a queue; the own vote is counted by `own`.
    votes: dict[Queue, set[str]] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    # Members that began with an empty folder a short time ago.
    new: set[str] = field(default_factory=set)

    def count(self, queue: Queue) -> int:
        """Votes of those that remember."""
        own = queue in self.own and not self.own_is_new
        return len(self.votes[queue] - self.new) + own

    def count_all(self, queue: Queue) -> int:
        """Votes for it so far."""
        return len(self.votes[queue]) + (queue in self.own)


@dataclass(frozen=True, slots=True)
class _Over:
    request: LockRequest
    lost: tuple[Queue, ...]


class LockQuorum:
    """`name`: of this process, for its rounds. `forgot_at_ms`: when it started and may have
    forgotten locks of an earlier life; None: it had none. `began_empty`: nothing was in its folder
    then.
    """

    def __init__(
        self,
        locks: QueueLocks,
        name: str,
        total_replicas: int,
        *,
        strict: bool,
        forgot_at_ms: int | None = None,
        began_empty: bool = False,
    ) -> None:
        self._total, self._began_empty = total_replicas, began_empty
        self._locks = locks
        self._name = name
        self._quorum = quorum_of(total_replicas)
        self._strict = strict and self._quorum > 1
        self._forgot_at_ms = forgot_at_ms
        self._rounds: dict[str, _Round] = {}
        self._over: dict[str, _Over] = {}
        # Members that say rounds back: others give back whatever the client holds.
        self._knows_rounds: set[str] = set()
        # (group, queue) -> the round that took it, as long as nothing has renewed it since.
        self._taken: dict[tuple[str, Queue], str] = {}
        self._number = 0
        self._counts = LockCounts()

    # -- of clients --------------------------------------------------------------------------------

    def lock(
        self, request: LockRequest, others: Iterable[str], now_ms: int, connection_id: int = 0
    ) -> tuple[str, list[fx.Effect]]:
        """41 of a client. `others`: addresses of the other members as last told. (The round, what
        is to be done); `AnswerLock` is among it now or comes later from `voted` or `tick`.
        """
        self._number += 1
        round_id = f"{self._name}-{self._number}"
        if request.only_this_broker or not self._strict:
            held = self.vote(request, now_ms, connection_id)
            return round_id, [fx.AnswerLock(round_id, held)]
        if len(self._rounds) >= ROUNDS_MAX:
            return round_id, [fx.AnswerLock(round_id, ())]
        mine = LockRequest(request.group, request.client_id, request.queues, True, round_id)
        held = self.vote(mine, now_ms, connection_id)
        asked = tuple(sorted(set(others)))[:ROUND_MEMBERS_MAX]
        sought = (*held, *self._unknown(mine, held, asked, now_ms))
        votes: dict[Queue, set[str]] = {one: set() for one in sought}
        own, is_new = frozenset(held), self.is_new(now_ms)
        self._rounds[round_id] = _Round(
            mine, now_ms, own, is_new, sought, asked, connection_id, votes
        )
        if not sought or not asked:
            return round_id, self._decide(round_id)
        sent = [
            fx.SendLock(one, True, round_id, request.group, request.client_id, sought)
            for one in asked
        ]
        return round_id, [*sent, *self._decide_early(round_id)]

    def unlock(self, request: LockRequest, others: Iterable[str], now_ms: int) -> list[fx.Effect]:
        """42, of a client or of a member. Here at once; a client's in strict mode everywhere."""
        self.give_back(request, now_ms)
        if request.only_this_broker or not self._strict:
            return []
        for one in self._rounds.values():
            if (one.request.group, one.request.client_id) == (request.group, request.client_id):
                # A round that is under way must not give what its client no longer wants.
                for queue in request.queues:
                    one.votes.pop(queue, None)
        return [
            fx.SendLock(one, False, "", request.group, request.client_id, request.queues)
            for one in sorted(set(others))[:ROUND_MEMBERS_MAX]
        ]

    # -- of members --------------------------------------------------------------------------------

    def vote_for(
        self, request: LockRequest, now_ms: int, connection_id: int = 0
    ) -> tuple[Queue, ...]:
        """This broker's vote in a round of another member, which is counted."""
        given = self.vote(request, now_ms, connection_id)
        if self._strict:
            self._counts.voted(request.group, request.queues, given)
        return given

    def vote(self, request: LockRequest, now_ms: int, connection_id: int = 0) -> tuple[Queue, ...]:
        """Local locks: for a client in local mode, or as this broker's vote in a round of its own
        or of another member. The queues that are the client's now.
        """
        queues, counts_as_new = request.queues, self.is_new(now_ms) and request.round_id
        if self._strict and self._may_have_forgotten(now_ms) and not counts_as_new:
            # Who holds one here already is renewed; nobody new is let in.
            queues = tuple(
                one
                for one in queues
                if self._locks.holder(request.group, one, now_ms) == request.client_id
            )
        before = {one: self._locks.holder(request.group, one, now_ms) for one in queues}
        held = self._locks.lock(request.group, request.client_id, queues, now_ms, connection_id)
        for one in held:
            key = (request.group, one)
            self._taken.pop(key, None)
            if request.round_id and before[one] != request.client_id:
                if len(self._taken) >= _TAKEN_MAX:
                    del self._taken[next(iter(self._taken))]
                self._taken[key] = request.round_id
        return tuple(held)

    def give_back(self, request: LockRequest, now_ms: int) -> None:
        """Local unlocking. With a round, only what that round took and nothing has renewed."""
        queues = request.queues
        if request.round_id:
            queues = tuple(
                one for one in queues if self._taken.get((request.group, one)) == request.round_id
            )
        for one in queues:
            if self._locks.holder(request.group, one, now_ms) == request.client_id:
                self._taken.pop((request.group, one), None)
        self._locks.unlock(request.group, request.client_id, queues)

    def _unknown(
        self, request: LockRequest, held: tuple[Queue, ...], asked: tuple[str, ...], now_ms: int
    ) -> tuple[Queue, ...]:
        """What nobody holds here as far as this broker remembers, where the others can do without
        its vote.
        """
        may_lack = self._may_have_forgotten(now_ms) and not self.is_new(now_ms)
        if len(asked) < self._quorum or not may_lack:
            return ()
        return tuple(
            one
            for one in dict.fromkeys(request.queues)
            if one not in held and self._locks.holder(request.group, one, now_ms) is None
        )

    def _may_have_forgotten(self, now_ms: int) -> bool:
        return self._forgot_at_ms is not None and now_ms - self._forgot_at_ms <= LOCK_EXPIRES_MS

    def is_new(self, now_ms: int) -> bool:
        """Whether a vote in a round of ours is that of a member which knows nothing of before."""
        return self._began_empty and self._strict and self._may_have_forgotten(now_ms)

    # -- rounds ------------------------------------------------------------------------------------

    def voted(
        self,
        round_id: str,
        member: str,
        queues: Iterable[Queue] | None,
        said_back: str,
        *,
        is_new: bool = False,
    ) -> list[fx.Effect]:
        """A member's answer to a lock; None: an error, or none came. `said_back`: the round that it
        named; `is_new`: it began with an empty folder a short time ago. One answer of each member
        counts, of queues that it was asked about.
        """
        if said_back and said_back == round_id:
            if len(self._knows_rounds) < ROUND_MEMBERS_MAX:
                self._knows_rounds.add(member)
        under_way = self._rounds.get(round_id)
        if under_way is None:
            return self._too_late(round_id, member, queues)
        if member not in under_way.asked or member in under_way.answered:
            return []
        under_way.answered.add(member)
        if is_new:
            under_way.new.add(member)
        for queue in queues or ():
            if queue in under_way.votes:
                under_way.votes[queue].add(member)
        return self._decide_early(round_id)

    def tick(self, now_ms: int) -> list[fx.Effect]:
        """Rounds end after a while, whoever has not answered."""
        over = [name for name, one in self._rounds.items() if now_ms - one.begun_ms >= VOTE_WAIT_MS]
        decided = [effect for name in over for effect in self._decide(name)]
        return decided + self._counts.due(now_ms)

    def _decide_early(self, round_id: str) -> list[fx.Effect]:
        """When no answer that is still out could change anything."""
        one = self._rounds[round_id]
        out = len(one.asked) - len(one.answered)
        open_ones = [
            queue
            for queue in one.votes
            if not self._is_won(one, queue) and self._is_won(one, queue, out)
        ]
        return [] if open_ones else self._decide(round_id)

    def _is_won(self, one: _Round, queue: Queue, more: int = 0) -> bool:
        """With so many votes more."""
        remember, all_of_them = one.count(queue) + more, one.count_all(queue) + more
        return remember >= self._quorum or all_of_them >= self._total

    def _decide(self, round_id: str) -> list[fx.Effect]:
        one = self._rounds.pop(round_id)
        won = tuple(
            queue
            for queue in one.request.queues
            if queue in one.votes and self._is_won(one, queue) and self._has(one, queue)
        )
        lost = tuple(queue for queue in one.sought if queue not in won)
        self._counts.round_over(
            one.request.group,
            one.request.client_id,
            won=len(won),
            lost=len(one.request.queues) - len(won),
            asked=len(one.asked) if one.sought else 0,
            silent=len(one.asked) - len(one.answered) if one.sought else 0,
        )
        while len(self._over) >= OVER_MAX:
            del self._over[next(iter(self._over))]
        self._over[round_id] = _Over(one.request, lost)
        effects: list[fx.Effect] = [fx.AnswerLock(round_id, won)]
        if lost:
            self._roll_back(one.request, lost)
            effects += [
                self._unlock_at(member, one.request, lost)
                for member in one.asked
                if member in self._knows_rounds
            ]
        return effects

    def _has(self, one: _Round, queue: Queue) -> bool:
        """Whether the queue is the client's here. One that the others gave without this broker's
        vote is taken now, as of the round's begin: who renews it finds it here.
        """
        if queue in one.own:
            return True
        group, client_id = one.request.group, one.request.client_id
        taken = self._locks.lock(group, client_id, (queue,), one.begun_ms, one.connection_id)
        return bool(taken)

    def _too_late(
        self, round_id: str, member: str, queues: Iterable[Queue] | None
    ) -> list[fx.Effect]:
        """A vote for a round that is over: of a lost queue it is given back."""
        over = self._over.get(round_id)
        if over is None or member not in self._knows_rounds:
            return []
        lost = tuple(queue for queue in queues or () if queue in over.lost)
        return [self._unlock_at(member, over.request, lost)] if lost else []

    def _unlock_at(
        self, member: str, request: LockRequest, queues: tuple[Queue, ...]
    ) -> fx.SendLock:
        return fx.SendLock(
            member, False, request.round_id, request.group, request.client_id, queues
        )

    def _roll_back(self, request: LockRequest, lost: tuple[Queue, ...]) -> None:
        taken = tuple(
            one for one in lost if self._taken.get((request.group, one)) == request.round_id
        )
        for one in taken:
            del self._taken[request.group, one]
        self._locks.unlock(request.group, request.client_id, taken)


def others_of(members: Mapping[int, str], own_id: int) -> tuple[str, ...]:
    """Addresses of all members but one."""
    return tuple(address for broker_id, address in members.items() if broker_id != own_id)
