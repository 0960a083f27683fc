"""Who is in a broker set, by all name servers together (PROTOCOL 7.2).

Responsible for: the last answer of each name server, what they say together, in which way each is
asked. Refuses to know: what follows, and sockets.

Name servers may disagree for a while. A member counts as long as one that answers names it: a
master that one of them lost lives, and acting beside it would deliver twice. What a name server
said before it stopped answering counts no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokers.acting.messages import CouldNotAnswer, MemberAnswer, Members

TOLD_AGAIN_MS = 5_000
"""By then each broker of ours has told a name server that has just begun: it asks each second."""


@dataclass(frozen=True, slots=True)
class _Told:
    members: Members
    asked_ms: int


class GroupView:
    """`compat`: whether a name server is asked by route (105) until it is seen to know better."""

    def __init__(self, name_servers: Iterable[str], *, compat: bool) -> None:
        self._compat = dict.fromkeys(name_servers, compat)
        self._told: dict[str, _Told] = {}

    def asks_by_route(self, name_server: str) -> bool:
        """The way in which this one is to be asked."""
        return self._compat[name_server]

    def answered(self, name_server: str, answer: MemberAnswer, asked_ms: int) -> None:
        """What came of asking at `asked_ms`. An answer to an earlier question than the one that was
        answered last says nothing new.
        """
        if name_server not in self._compat:
            return
        told = self._told.get(name_server)
        if told is not None and told.asked_ms > asked_ms:
            return
        if isinstance(answer, CouldNotAnswer):
            self._told.pop(name_server, None)
            if answer.old:
                self._compat[name_server] = True
        else:
            self._told[name_server] = _Told(answer, asked_ms)

    def members(self, since_ms: int | None = None) -> Mapping[int, str] | None:
        """id -> address of all that any name server names; of two addresses the one told last.
        None: nobody answers, which is not the same as nobody being there. `since_ms`: only by
        answers to what was asked from then on.
        """
        told = [one for one in self._told.values() if since_ms is None or one.asked_ms >= since_ms]
        if not told:
            return None
        found: dict[int, str] = {}
        for one in sorted(told, key=lambda one: one.asked_ms):
            found.update(one.members.addresses)
        return dict(sorted(found.items()))

    def names(self, broker_id: int, address: str) -> int | None:
        """When a name server was asked last that names this broker; None: none does."""
        asked = [
            one.asked_ms
            for one in self._told.values()
            if one.members.addresses.get(broker_id) == address
        ]
        return max(asked, default=None)

    def all_answer(self) -> bool:
        """Whether there is an answer of every name server."""
        return len(self._told) == len(self._compat)

    def all_up_for(self, up_ms: int) -> bool:
        """Whether every name server answers and says that it has listened for so long."""
        return self.all_answer() and all(
            one.members.up_ms is not None and one.members.up_ms >= up_ms
            for one in self._told.values()
        )

    def began_within(self, up_ms: int) -> bool:
        """Whether a name server that answers says that it has not listened for so long yet."""
        return any(
            one.members.up_ms is not None and one.members.up_ms < up_ms
            for one in self._told.values()
        )

    @property
    def last_asked_ms(self) -> int:
        """When the question was asked that was answered last; 0: none was."""
        return max((one.asked_ms for one in self._told.values()), default=0)

    def may_lack(self, smallest: int | None, known: Mapping[int, str]) -> bool:
        """Whether a name server has just begun, to which the smallest id of before may not have
        told of itself yet: it acts, most often, and goes on. `known`: members by now.
        """
        gone = smallest is not None and bool(known) and smallest < min(known)
        return gone and self.began_within(TOLD_AGAIN_MS)

    def forget(self) -> None:
        """What was told before says nothing any more."""
        self._told.clear()
