"""Heartbeats: what a member answers to one, and what a leader concludes from the answers.

Responsible for: both tables (PROTOCOL 10.8). Refuses to know: what a change of role does.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.majority.entry import Place
from brokers.majority.quorum.member import Member, Then
from brokers.majority.quorum.standing import Standing
from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import HeartBeatRequest, HeartBeatResponse, Message, Response

# A member that had to take over the term first is asked again so soon.
AGAIN_MS = 100


def judge(standing: Standing, members: tuple[str, ...], self_id: str, said: Message) -> Code:
    """Whether what came is a leader's word. SUCCESS: the caller follows it, in its term, which may
    be larger than the own: only who was elected says so.
    """
    if said.leader_id not in members:
        return Code.UNKNOWN_MEMBER
    if said.leader_id == self_id:
        return Code.UNEXPECTED_MEMBER
    if said.term < standing.term:
        return Code.EXPIRED_TERM
    if said.term == standing.term and standing.leader_id not in (None, said.leader_id):
        return Code.INCONSISTENT_LEADER
    return Code.SUCCESS


class Pulse:
    """A leader's heartbeats, each peer's apart from the others'. `seen_end(peer, end, held, now)`:
    where a follower's log ends, and what it had acknowledged (`match_of`) when it was asked.
    """

    def __init__(
        self,
        member: Member,
        now_ms: int,
        match_of: Callable[[str], int],
        seen_end: Callable[[str, Place, int, int], None],
    ) -> None:
        config = member.config
        self.larger_term = member.standing.term
        self.contradicted = False
        self._member = member
        self._match_of = match_of
        self._seen_end = seen_end
        self._next_ms = dict.fromkeys(config.peers, now_ms)
        self._heard_ms = dict.fromkeys(config.peers, now_ms)
        self.sent = 0
        """Heartbeats so far: the next one has a larger number."""
        self.confirmed = dict.fromkeys(config.peers, 0)
        """By peer, the latest heartbeat that it answered as a follower."""
        self._unanswered: set[str] = set()
        self._wait_ms = dict.fromkeys(config.peers, now_ms)

    def tick(self, now_ms: int) -> None:
        """Send what is due."""
        for peer, due_ms in self._next_ms.items():
            if now_ms >= due_ms:
                self._beat(peer, now_ms)

    def hurry(self, mark: int, now_ms: int) -> None:
        """Somebody waits for answers to heartbeats behind `mark`: one at a time to each peer that
        has not given it, and not at once to one that has just failed.
        """
        for peer, confirmed in self.confirmed.items():
            waits = peer in self._unanswered or now_ms < self._wait_ms[peer]
            if confirmed <= mark and not waits:
                self._beat(peer, now_ms)

    def _beat(self, peer: str, now_ms: int) -> None:
        config, standing = self._member.config, self._member.standing
        self.sent += 1
        self._unanswered.add(peer)
        self._next_ms[peer] = now_ms + config.heartbeat_ms
        beat = HeartBeatRequest(
            group=config.group, remote_id=peer, local_id=config.self_id,
            leader_id=config.self_id, term=standing.term,
        )  # fmt: skip
        hears = self._hears(peer, now_ms, self._match_of(peer), self.sent)
        self._member.ask(peer, beat, hears)

    def is_alive(self, peer: str, now_ms: int) -> bool:
        """Whether it answered one of the last heartbeats."""
        return now_ms - self._heard_ms[peer] <= 2 * self._member.config.heartbeat_ms

    def has_majority(self, now_ms: int) -> bool:
        """Whether a majority answered not too long ago, by when it was asked."""
        config = self._member.config
        heard = sum(now_ms - at_ms <= config.silence_ms for at_ms in self._heard_ms.values())
        return heard + 1 >= config.majority

    def _hears(self, peer: str, asked_ms: int, held: int, number: int) -> Then:
        def hear(answer: Response | None, now_ms: int) -> None:
            self._unanswered.discard(peer)
            code = answer.code if isinstance(answer, HeartBeatResponse) else None
            if code is not Code.SUCCESS:
                self._wait_ms[peer] = now_ms + AGAIN_MS
            if not isinstance(answer, HeartBeatResponse):
                return
            match answer.code:
                case Code.SUCCESS:
                    self.confirmed[peer] = max(self.confirmed[peer], number)
                    self._heard_ms[peer] = max(self._heard_ms[peer], asked_ms)
                    if answer.end is not None:
                        self._seen_end(peer, answer.end, held, now_ms)
                case Code.EXPIRED_TERM:
                    self.larger_term = max(self.larger_term, answer.term)
                case Code.TERM_NOT_READY:
                    self._next_ms[peer] = min(self._next_ms[peer], now_ms + AGAIN_MS)
                case Code.INCONSISTENT_LEADER:
                    self.contradicted = True

        return hear
