"""Who gets a vote, and what a round of votes comes to (PROTOCOL 10.9).

Responsible for: both tables, row by row in DLedger's order, with ours where they differ. Refuses to
know: time, and how a round is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokers.majority.entry import Place
from brokers.majority.quorum.standing import Standing
from brokers.majority.wire.codes import VoteResult


@dataclass(frozen=True, slots=True)
class Voter:
    """What a member knows when it is asked. `end`: where its log ends. `spent_term`: up to this
    term its vote is gone, whoever had it. `able`: it has everything that it ever acknowledged.
    `taking`: it is about to take over itself.
    """

    members: tuple[str, ...]
    self_id: str
    standing: Standing
    end: Place
    spent_term: int
    able: bool = True
    taking: bool = False


def judge(voter: Voter, candidate: str | None, term: int, end: Place, own: bool) -> VoteResult:
    """The vote on a candidate whose log ends at `end`; `own`: it is this member's own round. After
    ACCEPT the caller takes over the term and the vote, durably, before it answers.
    """
    standing = voter.standing
    if candidate not in voter.members:
        return VoteResult.REJECT_UNKNOWN_LEADER
    if candidate == voter.self_id and not own:
        return VoteResult.REJECT_UNEXPECTED_LEADER
    if not voter.able:
        return VoteResult.UNKNOWN
    # The log before the term: who is behind neither deposes anybody nor raises a term.
    if end.term < voter.end.term:
        return VoteResult.REJECT_EXPIRED_LEDGER_TERM
    if end < voter.end:
        return VoteResult.REJECT_SMALL_LEDGER_END_INDEX
    if term < standing.term:
        return VoteResult.REJECT_EXPIRED_VOTE_TERM
    if term < voter.end.term:
        return VoteResult.REJECT_TERM_SMALL_THAN_LEDGER
    if term == standing.term and (refusal := _spent(voter, candidate, term)) is not None:
        return refusal
    if voter.taking and not own and end == voter.end:
        return VoteResult.REJECT_TAKING_LEADERSHIP
    return VoteResult.ACCEPT


def _spent(voter: Voter, candidate: str | None, term: int) -> VoteResult | None:
    """A vote is given once. In a term that has or had a leader it is given to nobody, not to that
    leader either: it would lead the term twice.
    """
    standing = voter.standing
    other = standing.voted_for not in (None, candidate)
    if not other and term > voter.spent_term and term > voter.end.term:
        return None
    if standing.leader_id is not None:
        return VoteResult.REJECT_ALREADY_HAS_LEADER
    return VoteResult.REJECT_ALREADY_VOTED


class Outcome(Enum):
    """What a candidate does after a round."""

    WAIT_TO_REVOTE = "again in the same term, after a pause"
    REVOTE_IMMEDIATELY = "again in the same term, at once"
    PASSED = "it leads"
    WAIT_TO_VOTE_NEXT = "again in the next term, after a pause"


class Pause(Enum):
    """How long until the next round: the pause by chance, and what is added to it."""

    NONE = "at once"
    SHORT = "nothing"
    LONGEST = "the longest pause once more"
    SILENCE = "the time after which a leader counts as gone"


@dataclass(frozen=True, slots=True)
class Round:
    """`results`: by member, the own one too. `known_term`: the largest term that anybody named."""

    term: int
    members: int
    majority: int
    results: dict[str, VoteResult]
    known_term: int
    self_id: str

    @property
    def decided(self) -> bool:
        """Whether more answers would change nothing."""
        return (
            VoteResult.REJECT_ALREADY_HAS_LEADER in self.results.values()
            or self._count(VoteResult.ACCEPT, NOT_READY) >= self.majority
            or len(self.results) == self.members
        )

    def outcome(self) -> tuple[Outcome, Pause]:
        """The rows in their order; the first that fits."""
        valid = len(self.results) - self._count(VoteResult.UNKNOWN)
        longer = self._count(
            VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        )
        own = self.results.get(self.self_id) is VoteResult.ACCEPT
        if self.known_term > self.term:
            return Outcome.WAIT_TO_VOTE_NEXT, Pause.SHORT
        if VoteResult.REJECT_ALREADY_HAS_LEADER in self.results.values():
            return Outcome.WAIT_TO_REVOTE, Pause.SILENCE
        if valid < self.majority:
            return Outcome.WAIT_TO_REVOTE, Pause.SHORT
        if valid - longer < self.majority:
            return Outcome.WAIT_TO_REVOTE, Pause.LONGEST
        if self._count(VoteResult.ACCEPT) >= self.majority and own:
            return Outcome.PASSED, Pause.NONE
        if self._count(VoteResult.ACCEPT, NOT_READY) >= self.majority and own:
            return Outcome.REVOTE_IMMEDIATELY, Pause.NONE
        return Outcome.WAIT_TO_VOTE_NEXT, Pause.SHORT

    def _count(self, *wanted: VoteResult) -> int:
        return sum(result in wanted for result in self.results.values())


NOT_READY = VoteResult.REJECT_TERM_NOT_READY
