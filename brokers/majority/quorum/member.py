"""What all parts of a member share: its standing, its log, calls under way, effects.

Responsible for: terms and votes that only grow, and are saved before anything follows from them;
who hears the answer to a call. Refuses to know: rules of a role.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from brokers.majority.entry import EMPTY, NONE, Place
from brokers.majority.log_port import MajorityLog, TermAndVote
from brokers.majority.quorum.config import Durability, QuorumConfig
from brokers.majority.quorum.effects import Commit, Effect, Report, SaveTerm, Send, TruncateFrom
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.quorum.votes import Voter
from brokers.majority.wire.messages import Request, Response

Then = Callable[[Response | None, int], None]
"""Hears an answer, None when there was none, and the time in ms."""


class Member:
    """`log` is read only; what changes it is an effect. `chance()`: evenly from 0 up to 1."""

    def __init__(
        self,
        config: QuorumConfig,
        log: MajorityLog,
        saved: TermAndVote,
        chance: Callable[[], float],
    ) -> None:
        self.config = config
        self.log = log
        self.standing = Standing(Role.CANDIDATE, saved.term, saved.voted_for, None)
        self.committed = log.committed_index
        # Who voted before a start does not vote again in that term, not even for itself: it may
        # have led it, and what it wrote then may be lost here and held elsewhere.
        self.spent_term = saved.term if saved.voted_for is not None else NONE
        self.effects: list[Effect] = []
        self._chance = chance
        self._calls: dict[int, Then] = {}
        self._tokens = 0
        self._cut: Place | None = None

    @property
    def last(self) -> Place:
        """Where the log ends once the effects so far are carried out."""
        return self.log.last if self._cut is None else self._cut

    def take_effects(self) -> list[Effect]:
        """All so far; they are carried out before anything else happens here."""
        effects, self.effects, self._cut = self.effects, [], None
        return effects

    @property
    def held_index(self) -> int:
        """Up to here this member's own log counts."""
        if self.config.durability is Durability.WRITTEN:
            return self.log.last.index
        return self.log.flushed_index

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def report(self, kind: str, **fields: object) -> None:
        self.emit(Report(kind, {"term": self.standing.term, **fields}))

    def pause(self, limits_ms: tuple[int, int]) -> int:
        """A time by chance, both limits included."""
        low, high = limits_ms
        return low + int(self._chance() * (high - low + 1))

    # -- calls ---------------------------------------------------------------------------------

    def ask(self, peer: str, message: Request, then: Then, binary: bool = False) -> None:
        """`then` hears what comes of it."""
        self._tokens += 1
        self._calls[self._tokens] = then
        self.emit(Send(self._tokens, peer, message, binary))

    def answered(self, token: int, answer: Response | None, now_ms: int) -> None:
        """An answer that nobody waits for is passed over."""
        then = self._calls.pop(token, None)
        if then is not None:
            then(answer, now_ms)

    # -- term and vote -------------------------------------------------------------------------

    def stand(self, role: Role, term: int, voted_for: str | None, leader_id: str | None) -> None:
        """The new standing; a term or vote that is new is saved first."""
        before = self.standing
        assert term >= before.term, "terms only grow"
        self.standing = Standing(role, term, voted_for, leader_id)
        if leader_id is not None:
            self.spent_term = max(self.spent_term, term)
        if (term, voted_for) != (before.term, before.voted_for):
            self.emit(SaveTerm(TermAndVote(term, voted_for)))

    def vote_of(self, term: int) -> str | None:
        """Who got this member's vote in that term."""
        return self.standing.voted_for if term == self.standing.term else None

    def voter(self, taking: bool) -> Voter:
        """What it votes by; `taking`: it is about to take over."""
        return Voter(
            self.config.members, self.config.self_id, self.standing, self.log.last,
            self.spent_term, self.log.owed is None, taking,
        )  # fmt: skip

    # -- log -------------------------------------------------------------------------------------

    def commit(self, index: int) -> bool:
        """Whether that is news. It only grows, and never beyond the log's end."""
        index = min(index, self.last.index)
        if index <= self.committed:
            return False
        self.committed = index
        self.emit(Commit(index))
        return True

    def cut(self, index: int) -> None:
        """This entry and all behind it go."""
        term = self.log.term_of(index - 1)
        self._cut = EMPTY if term is None else Place(term, index - 1)
        self.emit(TruncateFrom(index))

    def first_of_run(self, index: int) -> int:
        """The first index of the entries that have the term of this one, in this log."""
        first, term = self.log.first_index, self.log.term_of(index)
        assert term is not None
        span = range(first, index + 1)
        return first + bisect_left(span, term, key=self._term_of)

    def last_of_term(self, term: int, below: int) -> int | None:
        """The last index below `below` with an entry of this term."""
        first = self.log.first_index
        span = range(first, below)
        at = first + bisect_left(span, term + 1, key=self._term_of) - 1
        return at if at >= first and self.log.term_of(at) == term else None

    def _term_of(self, index: int) -> int:
        term = self.log.term_of(index)
        assert term is not None, "asked inside of the log"
        return term
