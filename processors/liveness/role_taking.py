"""What Java slaves are told of a new master, and when (RULES 9.1).

A Java slave forgets where HA links are taken when it is told of a new master, and learns it again
only from a name server's answer to its own registration, which it sends in the same moment. Told
before the new master has registered there, it hears of nobody and stands idle until its next
registration, 10 to 30 s later; or it hears of the old master, and, where that one stands still,
waits in a handshake with it for as long as it does. So the slaves are kept from the news until the
master has taken its role; and then they are told where it takes links, again and again until they
are members: a link that was closed (Java's master writes its handshake in two pieces, and a slave
that sees only the first asks twice, and closes at the second answer) is otherwise tried again only
after 5 s, and nothing but another address than the one it has ends that wait.

Responsible for: which question goes to whom now, for every set under way.
Refuses to know: how a question looks and travels, and what time it is (`now_ms` is an argument,
monotonic).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

ASK_EVERY_MS = 50
ASK_TIMEOUT_MS = 500
KEPT_MS = 1_500
"""A master that does not take its role keeps its slaves from the news no longer than this. Java's
may need a second: its HA thread ends only after a look at the old link.
"""
REGISTERS_MS = 300
"""How long a master that took its role may need until its name servers know it."""
TELL_TIMEOUT_MS = 3_000
TELL_AGAIN_MS = 1_000
TELLS_MAX = 3
"""A slave that is busy with its role takes up one of its threads for each notice."""
LINK_AGAIN_MS = 500
FOLLOWED_MS = 15_000
"""Afterwards a slave has registered anew, or polled."""
SETS_MAX = 1_000
"""Sets followed at once; the slaves of more are told together with their master."""


class Asked(Enum):
    """What a question is."""

    MASTER = "where the master takes HA links; it says so once it has its role"
    NOTICE = "take the role notice, and answer when that is done"
    LINK = "link there"
    UNLINK = "link nowhere; whoever has a link keeps it, and LINK is news afterwards"


@dataclass(frozen=True, slots=True)
class Question:
    """To one broker. `ha_address` is set for LINK only. What came of it within `timeout_ms` is
    handed in by `answered(token, …)`.
    """

    token: int
    asked: Asked
    broker_name: str
    broker_id: int
    timeout_ms: int
    ha_address: str = ""


Present: TypeAlias = Callable[[str], tuple[int | None, Collection[int]]]
"""Of a set by name: the epoch of its mastership, None without one, and its members."""


@dataclass(slots=True)
class _Asking:
    """One broker that is asked until it answers. `open`: the token under way."""

    next: Asked
    due_ms: int
    open: int | None = None
    tells: int = 0


@dataclass(slots=True)
class _Taking:
    """One set. `known_ms`: when the master said where it takes links."""

    epoch: int
    master_id: int
    began_ms: int
    registers_ms: int
    master: _Asking
    slaves: dict[int, _Asking]
    ha_address: str = ""
    known_ms: int = 0

    def may_tell(self, now_ms: int) -> bool:
        if now_ms - self.began_ms >= KEPT_MS:
            return True
        return bool(self.ha_address) and now_ms - self.known_ms >= self.registers_ms


@dataclass(slots=True)
class RoleTakings:
    """Of one leader. Whoever leads next begins anew."""

    _sets: dict[str, _Taking] = field(default_factory=dict)
    _asked: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Token -> the set and broker that was asked."""
    _token: int = 0

    def begin(
        self,
        name: str,
        epoch: int,
        master_id: int,
        slaves: Iterable[int],
        registers_ms: int,
        now_ms: int,
    ) -> bool:
        """Follow a new master of `name`; `slaves` are its Java slaves by id. `registers_ms`: how
        long they are kept from the news after it took its role. False: there is no room, or
        nobody to be told.
        """
        self.forget(name)
        waiting = {one: _Asking(Asked.NOTICE, now_ms) for one in sorted(slaves)}
        if not waiting or len(self._sets) >= SETS_MAX:
            return False
        self._sets[name] = _Taking(
            epoch, master_id, now_ms, registers_ms, _Asking(Asked.MASTER, now_ms), waiting
        )
        return True

    def forget(self, name: str) -> None:
        """It has another master, or none."""
        self._sets.pop(name, None)

    def clear(self) -> None:
        """Another controller leads."""
        self._sets.clear()
        self._asked.clear()

    def keeps(self, name: str, epoch: int | None, now_ms: int) -> bool:
        """True while the Java slaves of `name` are not to hear of its new master. `epoch` of its
        mastership, None without one.
        """
        taking = self._sets.get(name)
        return taking is not None and taking.epoch == epoch and not taking.may_tell(now_ms)

    def due(self, present: Present, now_ms: int) -> list[Question]:
        """What is to be asked now. A set that has another epoch than when it began is forgotten,
        and so is a slave that has become a member.
        """
        for name, taking in list(self._sets.items()):
            epoch, members = present(name)
            taking.slaves = {
                broker_id: slave
                for broker_id, slave in taking.slaves.items()
                if broker_id not in members
            }
            over = now_ms - taking.began_ms >= FOLLOWED_MS or not taking.slaves
            if over or epoch != taking.epoch:
                self.forget(name)
        return [
            question
            for name, taking in self._sets.items()
            for question in self._due_of(name, taking, now_ms)
        ]

    def _due_of(self, name: str, taking: _Taking, now_ms: int) -> list[Question]:
        found = []
        if not taking.ha_address and _is_due(taking.master, now_ms):
            found.append(self._question(name, taking, taking.master_id, taking.master))
        for broker_id, slave in taking.slaves.items() if taking.may_tell(now_ms) else ():
            can = slave.next is Asked.NOTICE or taking.ha_address
            if can and _is_due(slave, now_ms):
                found.append(self._question(name, taking, broker_id, slave))
        return found

    def _question(self, name: str, taking: _Taking, broker_id: int, asking: _Asking) -> Question:
        self._token += 1
        asking.open = self._token
        asking.tells += 1
        self._asked[self._token] = name, broker_id
        is_master = asking.next is Asked.MASTER
        return Question(
            self._token,
            asking.next,
            name,
            broker_id,
            ASK_TIMEOUT_MS if is_master else TELL_TIMEOUT_MS,
            taking.ha_address if asking.next is Asked.LINK else "",
        )

    def answered(self, token: int, ha_address: str | None, now_ms: int) -> None:
        """What came of a question. `ha_address`: of MASTER, empty while it has not taken its role;
        of the others, anything. None: there was no answer.
        """
        name, broker_id = self._asked.pop(token, ("", 0))
        taking = self._sets.get(name)
        if taking is None:
            return
        if taking.master.open == token:
            taking.master.open, taking.master.due_ms = None, now_ms + ASK_EVERY_MS
            if ha_address:
                taking.ha_address, taking.known_ms = ha_address, now_ms
            return
        slave = taking.slaves.get(broker_id)
        if slave is None or slave.open != token:
            return
        slave.open = None
        if ha_address is None:
            slave.due_ms = now_ms + TELL_AGAIN_MS
            if slave.next is Asked.NOTICE and slave.tells >= TELLS_MAX:
                del taking.slaves[broker_id]
        elif slave.next is Asked.LINK:
            slave.next, slave.due_ms = Asked.UNLINK, now_ms + LINK_AGAIN_MS
        else:
            slave.next, slave.due_ms = Asked.LINK, now_ms


def _is_due(asking: _Asking, now_ms: int) -> bool:
    return asking.open is None and now_ms >= asking.due_ms
