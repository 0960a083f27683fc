"""What is committed: by a leader's counting, and by a leader's word.

Responsible for: the index that a majority holds, and both rules of PROTOCOL 10.7. Refuses to know:
how anybody came to hold it, and who waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokers.majority.entry import NONE
from brokers.majority.log_port import MajorityLog


def quorum_index(held: Sequence[int]) -> int:
    """The largest index that a majority holds; `held`: of every member, itself included."""
    return sorted(held, reverse=True)[len(held) // 2]


def leader_commits(log: MajorityLog, held: Sequence[int], term: int, committed: int) -> int:
    """The committed index of a leader of `term`. Only an entry of its own term commits by counting,
    and all before it with it: an older one that a majority holds may still be replaced.
    """
    index = min(quorum_index(held), log.last.index)
    if index <= committed or log.term_of(index) != term:
        return committed
    return index


def follower_commits(
    log: MajorityLog, told: int, same_to: int, term: int, committed: int, counts_current: bool
) -> int:
    """The committed index of a follower whose log is the leader's up to `same_to`. What stands
    behind may be of another leader, however many entries this one has committed.

    A leader of Java's counts entries of any term. Its word is taken where the entry is of its own.
    """
    index = min(told, same_to, log.last.index)
    if index <= committed or (not counts_current and log.term_of(index) != term):
        return committed
    return index


def droppable(log: MajorityLog, applied: int, held: Sequence[int]) -> int:
    """Entries below this index may be cleaned: applied here, and held by every member that a leader
    hears of (`held`; empty where this is no leader). -1: none.
    """
    return min([applied, *(index for index in held if index != NONE)], default=NONE)
