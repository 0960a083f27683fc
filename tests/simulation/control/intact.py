"""Who holds what was acknowledged: how far each broker of a set has those bytes on a disk that no
accident touched.

Responsible for: what is owed (`acknowledged`), striking out what an accident took, and whether one
more disk or power may go (README, "What is promised"). Nothing but an accident, and an operator's
word, lowers what is owed: what the product cuts away itself stays owed. Refuses to know: members,
elections, which accident it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.simulation.control.history import History

if TYPE_CHECKING:
    from tests.simulation.control.brokers import BrokerNode
    from tests.simulation.world import World


class Intact:
    """Of one set. `acknowledged`: epoch -> end of what clients were told is safe, and somebody has
    on an intact disk.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged: dict[int, int] = {}
        self._held: dict[str, dict[int, int]] = {}

    def promised(
        self, history: History, epoch: int, confirmed: int, holders: Iterable[BrokerNode]
    ) -> None:
        """A master of `epoch` with this history tells clients that all below `confirmed` is safe,
        for `holders` have it.
        """
        begin = 0
        for one, end in history:
            if one == epoch and confirmed > begin:
                self.acknowledged[one] = confirmed
            elif one < epoch and confirmed >= end:
                self.acknowledged[one] = end
            begin = end
        self.copied(holders)

    def copied(self, holders: Iterable[BrokerNode]) -> None:
        """These vouch for what is on their disks; what they had lost, they have again."""
        for broker in holders:
            held = self._held.setdefault(broker.name, {})
            for epoch, end in broker.history:
                if epoch in self.acknowledged:
                    held[epoch] = max(held.get(epoch, 0), min(end, self.acknowledged[epoch]))

    def took(self, broker: BrokerNode) -> None:
        """An accident has just changed this disk."""
        left, has = self._held.get(broker.name, {}), dict(broker.history)
        self._held[broker.name] = {
            epoch: min(end, has[epoch]) for epoch, end in left.items() if epoch in has
        }
        if self._held[broker.name] != left:
            self.world.count("holder.struck")
        self._excuse("accident", {epoch: self._longest(epoch) for epoch in self.acknowledged})

    def chosen_by_an_operator(self, broker: BrokerNode | None, why: str = "operator") -> None:
        """What this replica has not got was given up by name; None: it has nothing any more."""
        self._excuse(why, dict(() if broker is None else broker.history))
        for held in self._held.values():
            for epoch in list(held):
                held[epoch] = min(held[epoch], self.acknowledged.get(epoch, 0))

    def given_up(self, broker: BrokerNode) -> None:
        """An operator has the log forget this replica: it must begin with an empty disk."""
        self._held.pop(broker.name, None)
        self._excuse("operator", {epoch: self._longest(epoch) for epoch in self.acknowledged})

    def holds_all(self, others_than: BrokerNode, among: Iterable[BrokerNode]) -> bool:
        """README's sentence: somebody else of these has everything on an intact disk."""
        held = [self._held.get(one.name, {}) for one in among if one is not others_than]
        return not self.acknowledged or any(
            all(rows.get(epoch, 0) >= end for epoch, end in self.acknowledged.items())
            for rows in held
        )

    def lacks(self, broker: BrokerNode) -> str | None:
        """What of the acknowledged bytes this replica does not have."""
        held = dict(broker.history)
        for epoch, end in self.acknowledged.items():
            if held.get(epoch, -1) < end:
                return f"epoch {epoch} up to {end}"
        return None

    def _longest(self, epoch: int) -> int:
        return max((held.get(epoch, 0) for held in self._held.values()), default=0)

    def _excuse(self, why: str, left: dict[int, int]) -> None:
        for epoch, end in list(self.acknowledged.items()):
            if left.get(epoch, 0) < end:
                self.world.count(f"loss.excused_by_{why}")
                self.acknowledged[epoch] = left.get(epoch, 0)
                if not self.acknowledged[epoch]:
                    del self.acknowledged[epoch]
