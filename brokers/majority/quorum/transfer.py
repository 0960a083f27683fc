"""Handing over leadership: at the leader, and at the member that takes over (PROTOCOL 10.9).

Responsible for: who may be handed over to, until when, who is preferred, and the answers. Refuses
to know: how an election is won.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from brokers.majority.quorum.config import QuorumConfig
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.wire.codes import Code


@dataclass(frozen=True, slots=True)
class Handover:
    """Under way at a leader of `term`: it takes no appends until it is done, or undone."""

    token: object
    transferee: str
    term: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Taking:
    """Under way at a transferee, as the leader of `term` asks: until its log ends at `index`, then
    to lead the next term.
    """

    token: object
    term: int
    index: int
    until_ms: int
    stands: bool = False

    @property
    def target_term(self) -> int:
        return self.term + 1

    def answer(self, standing: Standing) -> Code | None:
        """What the leader hears of it now; None: nothing yet."""
        if standing.term > self.target_term:
            return Code.EXPIRED_TERM
        if standing.role is Role.CANDIDATE:
            return None
        if standing.term == self.target_term and standing.role is Role.LEADER:
            return Code.SUCCESS
        return Code.TAKE_LEADERSHIP_FAILED


def refusal(
    config: QuorumConfig,
    standing: Standing,
    term: int,
    transferee: str,
    lag: int | None,
    under_way: Handover | None,
) -> Code | None:
    """Why a leader does not hand over; `lag`: entries that the transferee lacks, None: unknown."""
    if transferee not in config.members or transferee == config.self_id:
        return Code.UNKNOWN_MEMBER
    if standing.role is not Role.LEADER:
        return Code.NOT_LEADER
    if term != standing.term:
        return Code.INCONSISTENT_TERM
    if under_way is not None:
        return Code.LEADER_TRANSFERRING
    if lag is None or lag >= config.transfer_lag_max:
        return Code.FALL_BEHIND_TOO_MUCH
    return None


def best_preferred(
    config: QuorumConfig, alive: Iterable[str], lag_of: Callable[[str], int | None]
) -> str | None:
    """Who should lead instead of this member: of the preferred that live and lack little, the one
    with the smallest priority, then with the smallest lag. None: nobody.
    """
    if config.self_id in config.preferred:
        return None
    able = [
        (config.priority(peer), lag, peer)
        for peer in alive
        if peer in config.preferred
        and (lag := lag_of(peer)) is not None
        and lag < config.transfer_lag_max
    ]
    return min(able)[2] if able else None
