"""A candidate's rounds of votes.

Responsible for: when a round begins, whether it raises the term, who is asked, when it is over
(PROTOCOL 10.9). Refuses to know: what a vote or an outcome depends on (votes.py), what a leader
does.

A round is held in the present term first. Who only lost its leader so asks before it raises the
term: while others hear that leader they say so, and nobody is disturbed.
"""

from __future__ import annotations

from dataclasses import replace

from brokers.majority.quorum import votes
from brokers.majority.quorum.member import Member, Then
from brokers.majority.quorum.standing import Role
from brokers.majority.quorum.votes import Outcome, Pause, Round
from brokers.majority.wire.codes import VoteResult
from brokers.majority.wire.messages import Response, VoteRequest, VoteResponse

# Rounds that follow each other at once would keep both sides busy.
AT_ONCE_MS = 10


class Candidacy:
    """From becoming a candidate until somebody leads. `known_term`: the next term is at least this.
    `raises`: the next term is wanted, whatever a round would say. `taking`: to take over, with
    short pauses.
    """

    def __init__(
        self,
        member: Member,
        now_ms: int,
        known_term: int,
        raises: bool = False,
        taking: bool = False,
    ) -> None:
        self.won = False
        self.taking = taking
        self._member = member
        self._known_term = known_term
        self._raises = raises or known_term > member.standing.term
        self._outcome = Outcome.WAIT_TO_REVOTE
        self._round: Round | None = None
        self._round_ends_ms = 0
        self._next_ms = now_ms + (0 if self._raises else self._pause())

    def tick(self, now_ms: int) -> None:
        if self._member.log.owed is not None:
            return
        if self._round is not None:
            if self._round.decided or now_ms >= self._round_ends_ms:
                self._end_round(now_ms)
        elif self._raises:
            self._raise_term()
            self._next_ms = now_ms + self._pause()
        elif now_ms >= self._next_ms:
            self._begin_round(now_ms)

    def _raise_term(self) -> None:
        member = self._member
        term = max(self._known_term, member.standing.term + 1)
        self._raises = False
        self._outcome = Outcome.WAIT_TO_REVOTE
        member.stand(Role.CANDIDATE, term, None, None)

    def _begin_round(self, now_ms: int) -> None:
        member, config = self._member, self._member.config
        if self._outcome is Outcome.WAIT_TO_VOTE_NEXT:
            self._raise_term()
        term, end = member.standing.term, member.log.last
        own = votes.judge(member.voter(self.taking), config.self_id, term, end, own=True)
        if own is VoteResult.ACCEPT:
            member.stand(Role.CANDIDATE, term, config.self_id, None)
        this = Round(
            term, len(config.members), config.majority, {config.self_id: own}, term, config.self_id
        )
        self._round = this
        self._round_ends_ms = (
            now_ms + config.vote_wait_ms + member.pause((0, config.vote_pause_ms[1]))
        )
        for peer in config.peers:
            request = VoteRequest(
                group=config.group, remote_id=peer, local_id=config.self_id,
                leader_id=config.self_id, term=term, end=end,
            )  # fmt: skip
            member.ask(peer, request, self._hears(this, peer))
        if this.decided:
            self._end_round(now_ms)

    def _hears(self, this: Round, peer: str) -> Then:
        def hear(answer: Response | None, now_ms: int) -> None:
            if self._round is not this:
                return
            known = answer if isinstance(answer, VoteResponse) else None
            this.results[peer] = VoteResult.UNKNOWN if known is None else known.result
            if known is not None and known.result in _NAMES_A_TERM:
                self._known_term = max(self._known_term, known.term)
            if this.decided:
                self._end_round(now_ms)

        return hear

    def _end_round(self, now_ms: int) -> None:
        this = self._round
        assert this is not None
        self._round = None
        self._outcome, pause = replace(this, known_term=self._known_term).outcome()
        self.won = self._outcome is Outcome.PASSED
        self._next_ms = now_ms + self._until_next(pause)

    def _until_next(self, pause: Pause) -> int:
        config = self._member.config
        if pause is Pause.NONE:
            return AT_ONCE_MS
        added = {Pause.LONGEST: config.vote_pause_ms[1], Pause.SILENCE: config.silence_ms}
        return self._pause() + added.get(pause, 0)

    def _pause(self) -> int:
        config = self._member.config
        limits = config.take_vote_pause_ms if self.taking else config.vote_pause_ms
        behind = 0 if self.taking else config.rank * config.priority_pause_ms
        return self._member.pause(limits) + behind


_NAMES_A_TERM = (
    VoteResult.REJECT_TERM_SMALL_THAN_LEDGER, VoteResult.REJECT_EXPIRED_VOTE_TERM,
)  # fmt: skip
