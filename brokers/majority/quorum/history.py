"""What of a member's work is told to history, as facts: votes, leaders, cuts, commits (PROTOCOL
10.14).

Responsible for: which effect gives which fact, and what stands in it. A fact is given once its
effect was carried out: what is told of a vote or a cut is durable. Refuses to know: who tells it,
how often, and any rule of the quorum: it only watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from brokers.majority.entry import NONE
from brokers.majority.log_port import MajorityLog
from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import (
    Commit,
    Effect,
    RestartAt,
    RoleChanged,
    SaveTerm,
    TruncateFrom,
)
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.quorum.turns import Step

VOTE_CAST = "MajorityVoteCast"
LEADER_ELECTED = "MajorityLeaderElected"
LEADER_OVER = "MajorityLeaderOver"
COMMIT_CROSSED_TERM = "MajorityCommitCrossedTerm"
LOG_CUT = "MajorityLogCut"

CUT_RUNS_MAX = 16
"""Terms of dropped entries that a cut names; a suffix of more terms names the first ones."""
STOPPED = "it was stopped"


class Fact(NamedTuple):
    """A broker event without its header: its kind, and its fields."""

    kind: str
    fields: dict[str, Any]


class History:
    """Watches one start of a member. `log` is only read; times are ms of the core's clock."""

    def __init__(self, core: QuorumCore, log: MajorityLog, now_ms: int) -> None:
        self._core, self._log = core, log
        self._standing = core.standing
        self._led_since_ms = self._crossed_ms = now_ms
        self._led_until_ms: int | None = None
        self._ready = False
        self._crossed = self._term_of(core.committed)
        self._dropped: list[tuple[int, int]] = []
        self._end, self._committed_before = NONE, (NONE, NONE)

    def begins(self, effect: Effect) -> None:
        """It is about to be carried out: what a cut drops can be read now only."""
        if isinstance(effect, (TruncateFrom, RestartAt)):
            self._end = self._log.last.index
            self._committed_before = self._known_committed()
            first = effect.index if isinstance(effect, TruncateFrom) else self._log.first_index
            self._dropped = list(self._runs(first))

    def done(self, effect: Effect, now_ms: int) -> Iterator[Fact]:
        """It was carried out; the facts that follow."""
        match effect:
            case SaveTerm(state=state) if state.voted_for is not None:
                yield self._fact(
                    VOTE_CAST, state.term, candidate_id=state.voted_for, **self._ends()
                )
            case RoleChanged():
                yield from self._role(effect.standing, effect.why, now_ms)
            case Commit():
                yield from self._committed(effect.index, now_ms)
            case TruncateFrom():
                yield self._cut(effect.index - 1, restarted=False)
            case RestartAt() if self._log.first_index == effect.entry.index:
                yield self._cut(effect.entry.index - 1, restarted=True)

    def over(self, why: str, now_ms: int) -> Iterator[Fact]:
        """This start ends; a leader leads no more."""
        if self._standing.role is Role.LEADER:
            yield self._leader_over(self._standing, why, now_ms)
            self._standing = Standing(Role.CANDIDATE, self._standing.term, None, None)

    # -- roles -------------------------------------------------------------------------------------

    def _role(self, standing: Standing, why: str, now_ms: int) -> Iterator[Fact]:
        before, self._standing = self._standing, standing
        led, leads = before.role is Role.LEADER, standing.role is Role.LEADER
        if led and (not leads or standing.term > before.term):
            yield self._leader_over(before, why, now_ms)
        if leads and (not led or standing.term > before.term):
            heard_ms = max(self._core.heard_ms, self._led_until_ms or 0)
            self._led_since_ms, self._ready = now_ms, False
            yield self._fact(
                LEADER_ELECTED, standing.term, members=tuple(self._core.config.members),
                silent_ms=max(0, now_ms - heard_ms), **self._ends(),
            )  # fmt: skip

    def _leader_over(self, led: Standing, why: str, now_ms: int) -> Fact:
        self._led_until_ms = now_ms
        return self._fact(
            LEADER_OVER, led.term, why=why, was_ready=self._ready,
            lasted_ms=now_ms - self._led_since_ms,
        )  # fmt: skip

    # -- log ---------------------------------------------------------------------------------------

    def _committed(self, index: int, now_ms: int) -> Iterator[Fact]:
        """Told when it is the first of its term, or the first of the own leadership."""
        leads = self._standing.role is Role.LEADER
        if self._crossed >= self._log.last.term:
            return
        term = self._term_of(index)
        if term <= self._crossed:
            return
        self._crossed = term
        self._ready = self._ready or leads
        yield self._fact(
            COMMIT_CROSSED_TERM, self._standing.term, leader_id=self._standing.leader_id or "",
            leads=leads, index=index, entry_term=term,
            took_ms=now_ms - self._led_since_ms if leads else NONE,
        )  # fmt: skip

    def _cut(self, to_index: int, restarted: bool) -> Fact:
        dropped, self._dropped = self._dropped, []
        fact = self._fact(
            LOG_CUT, self._standing.term, leader_id=self._standing.leader_id or "",
            from_index=self._end, to_index=to_index, restarted=restarted,
            why=_why_cut(self._standing.leader_id, restarted),
            dropped_terms=tuple(term for term, _ in dropped),
            dropped_from=tuple(first for _, first in dropped),
        )  # fmt: skip
        index, term = self._committed_before
        before = {"committed_index": index, "committed_term": term}
        return fact._replace(fields={**fact.fields, **before})

    def _runs(self, index: int) -> Iterator[tuple[int, int]]:
        """(term, first index) of the runs from this entry to the log's end."""
        end = self._log.last.index
        for _ in range(CUT_RUNS_MAX):
            term = self._log.term_of(index) if 0 <= index <= end else None
            if term is None:
                return
            yield term, index
            low, high = index, end + 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._term_of(middle) == term else (low, middle)
            index = high

    def _term_of(self, index: int) -> int:
        term = self._log.term_of(index)
        return NONE if term is None else term

    # -- what all facts have ----------------------------------------------------------------------

    def _ends(self) -> dict[str, int]:
        last = self._log.last
        return {"end_index": last.index, "end_term": last.term}

    def _fact(self, kind: str, term: int, **fields: Any) -> Fact:
        index, of_term = self._known_committed()
        known = {
            "member_id": self._core.config.self_id,
            "term": term,
            "committed_index": index,
            "committed_term": of_term,
        }
        return Fact(kind, {**known, **fields})

    def _known_committed(self) -> tuple[int, int]:
        index = self._log.committed_index
        return index, self._term_of(index)


def _why_cut(leader_id: str | None, restarted: bool) -> str:
    leader = leader_id or "the leader"
    if restarted:
        return f"it lacks entries that {leader} has no more: its log begins anew"
    return f"these entries are not those of {leader}"


_WATCHED = (SaveTerm, RoleChanged, Commit, TruncateFrom, RestartAt)


def watched(
    do: Callable[[Effect], Step | None],
    history: History,
    now_ms: Callable[[], int],
    tell: Callable[[str, dict[str, Any]], None],
) -> Callable[[Effect], Step | None]:
    """`do`, with what is to be told of each effect told behind it. One that fails is told by
    nobody.
    """

    def carry_out(effect: Effect) -> Step | None:
        if not isinstance(effect, _WATCHED):
            return do(effect)
        history.begins(effect)
        heard = do(effect)
        for fact in history.done(effect, now_ms()):
            tell(*fact)
        return heard

    return carry_out
