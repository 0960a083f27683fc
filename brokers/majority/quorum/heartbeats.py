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

    def tick(self, now_ms: int) -> None:
        """Send what is due."""
        config, standing = self._member.config, self._member.standing
        for peer, due_ms in self._next_ms.items():
            if now_ms < due_ms:
                continue
            self._next_ms[peer] = now_ms + config.heartbeat_ms
            beat = HeartBeatRequest(
                group=config.group, remote_id=peer, local_id=config.self_id,
                leader_id=config.self_id, term=standing.term,
            )  # fmt: skip
            self._member.ask(peer, beat, self._hears(peer, now_ms, self._match_of(peer)))

    def is_alive(self, peer: str, now_ms: int) -> bool:
        """Whether it answered one of the last heartbeats."""
        return now_ms - self._heard_ms[peer] <= 2 * self._member.config.heartbeat_ms

    def has_majority(self, now_ms: int) -> bool:
        """Whether a majority answered not too long ago, by when it was asked."""
        config = self._member.config
        heard = sum(now_ms - at_ms <= config.silence_ms for at_ms in self._heard_ms.values())
        return heard + 1 >= config.majority

    def _hears(self, peer: str, asked_ms: int, held: int) -> Then:
        def hear(answer: Response | None, now_ms: int) -> None:
            if not isinstance(answer, HeartBeatResponse):
                return
            match answer.code:
                case Code.SUCCESS:
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
