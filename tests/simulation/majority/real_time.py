"""Whether the log is one object for all clients: what somebody has heard, nobody is told less of
later.

Responsible for: the order in real time of appends and reads, across clients and leaders. Refuses to
know: members, terms, how anybody came to an answer.

An append that succeeded gives its index, a read gives an index up to which the log is committed.
Both have to lie behind everything that was heard, by anybody, before they were asked; together with
entries that never change (`promises.py`) that makes the log linearizable.
"""

from __future__ import annotations

from brokers.majority.entry import NONE
from tests.simulation.world import InvariantBroken


class RealTime:
    """`heard`: the largest index that any client knows to be committed."""

    def __init__(self) -> None:
        self.heard = NONE

    def appended(self, who: str, floor: int, first: int, last: int) -> None:
        """`floor`: `heard` when the append was sent; its entries are `first` to `last`."""
        if first <= floor:
            raise InvariantBroken(f"order in time: {who} got {first}, {floor} was heard before")
        self.heard = max(self.heard, last)

    def read(self, who: str, floor: int, index: int) -> None:
        """`floor`: as above, when the read was sent."""
        if index < floor:
            raise InvariantBroken(f"stale read: {who} read {index}, {floor} was heard before")
        self.heard = max(self.heard, index)
