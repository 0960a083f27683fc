"""The command log loses decisions that were acknowledged, and is made anew from what is left:
every set is doubted (S11).

Responsible for how much goes, and for what an operator's rebuild does to a set. Ids that were given
out stay known, or their replicas could not be waited for. Refuses to know what comes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from events.codec import encode
from events.commands import DoubtBrokerSet
from processors.fold.decide_doubt import LIFTED_BY
from processors.fold.folder import Folder

if TYPE_CHECKING:
    from tests.simulation.faults import Faults


class LogLoss:
    """One kind of fault of one world."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.cluster, self.world = faults, faults.cluster, faults.world

    def strike(self) -> None:
        """All controllers are down meanwhile, and none has a snapshot of what is gone."""
        journal, checkers = self.cluster.journal, self.cluster.checkers
        if checkers.ids_end >= journal.end_offset():
            return
        keep = self.world.between(checkers.ids_end, journal.end_offset() - 1)
        kept = Folder()
        for offset, data in enumerate(journal.records[:keep]):
            kept.apply(offset, data)
        names = sorted(name for name, known in kept.state.sets.items() if not known.tombstone)
        if self.cluster.set_name not in names:
            return
        self.world.note(
            f"   the log loses {journal.end_offset() - keep} decisions, every set is doubted"
        )
        self.world.count("fault.log_tail_lost")
        for node in self.cluster.controllers:
            node.stop()
            node.forget_snapshots(keep)
            self.faults.restart_later(node)
        journal.lose_from(keep)
        checkers.log_was_cut(keep, kept.state)
        for name in names:
            journal.records.append(
                encode(DoubtBrokerSet(self.faults.operator.envelope(kept.state), name, LIFTED_BY))
            )
