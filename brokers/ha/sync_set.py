"""The SyncStateSet as its master sees it, and what may be promised on its strength.

Responsible for: confirmed set, the one unresolved proposal, the confirm offset over both, who
should join and leave (design S1, S3, S4). Refuses to know: links, sockets, how the controller is
asked. The set itself changes by the controller's answers only, never by this master's wish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proposal:
    """A set sent to the controller whose fate is not known yet. A retry keeps the token."""

    token: int
    members: frozenset[int]
    base_set_epoch: int
    lost: frozenset[int] = frozenset()
    """Replicas proven to hold less than they acknowledged; none of them is a member."""


@dataclass(frozen=True, slots=True)
class SlaveFacts:
    """One linked slave: acknowledged offset (-1: none on this link), ms it left bytes waiting.
    `has_tables`: it holds a copy of the master's tables, with all that was answered as done (S19);
    members are not checked again.
    """

    acked: int
    waiting_ms: int
    learner: bool = False
    has_tables: bool = True


@dataclass(frozen=True, slots=True)
class SetTimers:
    """ms. `relink_grace`: how long members not yet linked in this mastership are waited for."""

    ack_wait_shrink_ms: int = 1000
    relink_grace_ms: int = 1000


@dataclass(slots=True)
class HeldBack:
    """A joiner the controller refused: not proposed again before `until_ms`, and then alone."""

    until_ms: int
    pause_ms: int


JOINER_PAUSE_MIN_MS, JOINER_PAUSE_MAX_MS = 500, 4_000
HELD_BACK_MAX = 64
"""Joiners are linked, and links are bounded: no more are ever held back at once than may be
linked.
"""


class SyncSet:
    """Confirmed set ∪ unresolved proposal, for one mastership.

    Invariants:
    - at most one proposal is unresolved; it stays in the union until a set epoch above its base is
      known, or the controller's definite answer to it; an equal or older read changes nothing;
    - the master itself is always a member;
    - `set_epoch` only grows.
    """

    def __init__(
        self,
        own_id: int,
        members: Iterable[int],
        set_epoch: int,
        *,
        min_in_sync: int,
        timers: SetTimers,
        now_ms: int,
    ) -> None:
        self.own_id = own_id
        self.confirmed = frozenset(members) | {own_id}
        self.set_epoch = set_epoch
        self.proposal: Proposal | None = None
        self.linked_once: set[int] = set()  # members seen on a link of this mastership
        # replicas that lost data (S15), until the controller knows
        self.went_back: set[int] = set()
        self._min_in_sync = min_in_sync
        self._timers = timers
        self._began_ms = now_ms
        self._held_back: dict[int, HeldBack] = {}

    @property
    def union(self) -> frozenset[int]:
        """Everyone whose acknowledgement a promise needs (S1)."""
        return self.confirmed | self.proposal.members if self.proposal else self.confirmed

    # -- promises ---------------------------------------------------------------------------------

    def confirm_candidate(self, log_end: int, acked: Mapping[int, int]) -> int | None:
        """Offset below which every member of the union has the bytes; None: nothing to promise.

        `acked`: broker id to offset, of links opened in this mastership only.
        """
        if len(self.confirmed) < self._min_in_sync:
            return None
        offsets = [acked.get(member, -1) for member in self.union if member != self.own_id]
        lowest = min(offsets, default=log_end)
        return min(lowest, log_end) if lowest >= 0 else None

    def reachable(self, slaves: Mapping[int, SlaveFacts], now_ms: int) -> int:
        """Members of the confirmed set that a write may hope for: itself, linked ones, and those
        whose grace to relink has not run out.
        """
        return sum(not self._lost(member, slaves, now_ms) for member in self.confirmed)

    def forgive(self, stalled_ms: int) -> None:
        """This process stood still: the grace to relink is longer by that time."""
        self._began_ms += stalled_ms

    # -- wishes -----------------------------------------------------------------------------------

    def wanted(
        self,
        slaves: Mapping[int, SlaveFacts],
        *,
        confirm_offset: int,
        epoch_start: int,
        now_ms: int,
    ) -> frozenset[int] | None:
        """The set worth proposing now, or None: it is as it should be, or a proposal is under way.

        Never wants fewer than `min_in_sync` members by leaving: below it nothing may be
        acknowledged anyway, and a member that keeps its place can still be elected. A joiner that
        was refused is proposed alone, so that nobody else's leaving or joining waits for it (S16).
        Who lost data must not be elected: it leaves before anything else, also below `min_in_sync`
        (S15).
        """
        if self.proposal is not None:
            return None
        if self.went_back:
            return self.confirmed - self.went_back
        joining = {
            broker_id
            for broker_id, slave in slaves.items()
            if broker_id not in self.confirmed
            and self._may_join(slave, confirm_offset, epoch_start)
        }
        fresh = joining - self._held_back.keys()
        wanted = self.confirmed | fresh
        for member in sorted(self.confirmed):
            # configured so since it joined
            is_learner = member in slaves and slaves[member].learner
            if len(wanted) > self._min_in_sync and (
                is_learner or self._lost(member, slaves, now_ms)
            ):
                wanted -= {member}
        if wanted != self.confirmed:
            return wanted
        again = [one for one in joining - fresh if now_ms >= self._held_back[one].until_ms]
        longest = min(again, key=lambda one: (self._held_back[one].until_ms, one), default=None)
        return None if longest is None else self.confirmed | {longest}

    def _may_join(self, slave: SlaveFacts, confirm_offset: int, epoch_start: int) -> bool:
        """S4: acknowledged up to the confirm offset, and into the present epoch; S19: with the
        tables.
        """
        if (
            slave.learner
            or not slave.has_tables
            or slave.waiting_ms > self._timers.ack_wait_shrink_ms
        ):
            return False
        return slave.acked >= max(confirm_offset, epoch_start, 0)

    def _lost(self, member: int, slaves: Mapping[int, SlaveFacts], now_ms: int) -> bool:
        """Link down, bytes left waiting for too long (S4), or data lost."""
        if member == self.own_id:
            return False
        if member in self.went_back:
            return True
        slave = slaves.get(member)
        if slave is not None:
            return slave.waiting_ms > self._timers.ack_wait_shrink_ms
        in_grace = now_ms - self._began_ms < self._timers.relink_grace_ms
        return member in self.linked_once or not in_grace

    # -- the controller's answers ------------------------------------------------------------------

    def propose(self, token: int, members: frozenset[int]) -> Proposal:
        assert self.proposal is None and self.own_id in members
        self.proposal = Proposal(token, members, self.set_epoch, frozenset(self.went_back))
        return self.proposal

    def lose(self, broker_id: int) -> None:
        """It holds less than it acknowledged: it counts for nothing until the controller took it
        out.
        """
        self.went_back.add(broker_id)

    def _told_of_losses(self, proposal: Proposal) -> None:
        """The controller decided this very proposal: only present members need naming again."""
        self.went_back -= proposal.lost - self.confirmed

    def is_as_proposed(self, members: Iterable[int], set_epoch: int) -> bool:
        """The set that accepting the open proposal yields, and nothing that came in between."""
        one = self.proposal
        if one is None or set_epoch != one.base_set_epoch + 1:
            return False
        return frozenset(members) | {self.own_id} == one.members

    def learn(self, members: Iterable[int], set_epoch: int) -> bool:
        """A set that the controller decided; True when it is news.

        A set epoch above the base of the proposal resolves it: with that base it can no longer be
        accepted, and if it was, this is it.
        """
        if set_epoch <= self.set_epoch:
            return False
        own = self.is_as_proposed(members, set_epoch)
        self.confirmed, self.set_epoch = frozenset(members) | {self.own_id}, set_epoch
        if self.proposal and set_epoch > self.proposal.base_set_epoch:
            if own:
                self._told_of_losses(self.proposal)
            self.proposal = None
        for member in self.confirmed:
            self._held_back.pop(member, None)
        return True

    def refused(
        self, token: int, unfit_at_ms: int | None = None, *, outdated: bool = False
    ) -> None:
        """A definite refusal of this very proposal: it will never be accepted. `unfit_at_ms`: the
        time now, when a joiner may be to blame (unknown to the controller, not alive for it); of
        several each is tried alone next. `outdated`: for its base alone, so nothing was said of
        what it names.
        """
        proposal = self.proposal
        if proposal is None or proposal.token != token:
            return
        if not outdated:
            self._told_of_losses(proposal)
        self.proposal = None
        if unfit_at_ms is not None:
            joiners = proposal.members - self.confirmed
            for joiner in joiners:
                self._hold_back(joiner, unfit_at_ms, is_alone=len(joiners) == 1)

    def _hold_back(self, joiner: int, now_ms: int, *, is_alone: bool) -> None:
        if joiner not in self._held_back and len(self._held_back) >= HELD_BACK_MAX:
            self._held_back.pop(min(self._held_back, key=lambda one: self._held_back[one].until_ms))
        held = self._held_back.setdefault(joiner, HeldBack(now_ms, JOINER_PAUSE_MIN_MS))
        if is_alone:
            held.until_ms, held.pause_ms = (
                now_ms + held.pause_ms,
                min(2 * held.pause_ms, JOINER_PAUSE_MAX_MS),
            )


def count_mode_candidate(log_end: int, acked: Iterable[int], in_sync_replicas: int) -> int | None:
    """RocketMQ's count mode (S2), MAY LOSE: below it are `in_sync_replicas` copies, whoever holds
    them.

    The next master is chosen from the set and need not be one of those; all-ack mode has no such
    hole.
    """
    offsets = sorted([log_end, *acked], reverse=True)
    return offsets[in_sync_replicas - 1] if len(offsets) >= in_sync_replicas else None
