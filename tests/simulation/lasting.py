"""Deaths and cuts that last: one replica of three is gone, another one perhaps unheard by the
controllers, and all else is well.

A fourth replica, where there is one, is cleaned before that and lives on: it links to the master
and belongs to no set.
Responsible for what lasts and for how long. Sends must go on meanwhile: two linked replicas are
enough, wherever the third one is. Refuses to know who leads afterwards, and how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.faults import Faults

REPLICAS = 3
WITH_CLEANED = REPLICAS + 1
LASTS_MS, UNHEARD_MS = 20_000, 6_000  # the controllers' patience is over by then


class LastingCuts:
    """One at a time; meanwhile nothing else is injected."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.cluster, self.world = faults, faults.cluster, faults.world
        self._struck = False

    def strike(self) -> None:
        """Nothing happens unless the set is whole, everything is well, and there is time."""
        brokers = [node for node in self.cluster.brokers if not node.settings.is_learner]
        if (
            len(brokers) not in (REPLICAS, WITH_CLEANED)
            or not self._all_is_well()
            or self.world.now_ms + LASTS_MS > self.faults.ends_ms
        ):
            return
        if len(brokers) == WITH_CLEANED:
            self._one_is_cleaned(brokers)
            return
        slaves = [node for node in brokers if node.core is not None and not node.core.is_master]
        # of a world's first, one is unheard, too
        gone = self.world.chance.choice(brokers if self._struck or not slaves else slaves)
        self._struck = True
        others = [node for node in brokers if node is not gone]
        controllers = [node.name for node in self.cluster.controllers]
        quiet = next(
            (node for node in others if node.core is not None and not node.core.is_master), None
        )
        self.world.count("fault.lasting_cut")
        self.faults.is_calm = True
        begins_ms = 0
        # whom it follows is heard
        if quiet is not None and not (gone.core is not None and gone.core.is_master):
            self.world.note(f"   {quiet.name} is heard by no controller")
            self.world.count("fault.lasting_unheard")
            self.faults.cut_off(quiet.name, controllers, (LASTS_MS, LASTS_MS))
            begins_ms = UNHEARD_MS
        self.world.after(begins_ms, lambda: self._leave(gone, LASTS_MS - begins_ms))
        self.world.after(LASTS_MS, self._over)

    def _one_is_cleaned(self, brokers: list[BrokerNode]) -> None:
        """It holds up nobody's leaving (S16), whatever it has. Its disk counts as lost, as for each
        that is cleaned.
        """
        cleaned, gone = self.world.chance.sample(
            [one for one in brokers if one.core is not None and not one.core.is_master], 2
        )
        if cleaned.broker_id is None or not self.cluster.checkers.holders.may_go(cleaned):
            return
        self.world.note(f"   {cleaned.name} is cleaned though it lives, for long")
        self.world.count("fault.lasting_cleaned")
        self.faults.is_calm = True
        self.faults.operator.clean(cleaned.broker_id, living=True)
        self.world.after(UNHEARD_MS, lambda: self._leave(gone, LASTS_MS - UNHEARD_MS))
        self.world.after(LASTS_MS, self._over)

    def _leave(self, gone: BrokerNode, for_ms: int) -> None:
        """It dies, or nobody can reach it any more; after `for_ms` others must have gone on."""
        if not self.faults.active:
            return
        if self.world.one_in(2):
            self.world.note(f"   {gone.name} is dead for long")
            gone.stop(silent=self.world.one_in(2))
        else:
            self.world.note(f"   {gone.name} is cut off for long")
            others = [
                node.name
                for node in (*self.cluster.brokers, *self.cluster.controllers)
                if node is not gone
            ]
            self.faults.cut_off(gone.name, others, (for_ms, for_ms))
        acked = len(self.cluster.checkers.acked)

        def back() -> None:
            if self.faults.active:
                self.cluster.checkers.went_on(acked, for_ms)
            if not gone.up:
                gone.start()

        self.world.after(for_ms, back)

    def _over(self) -> None:
        self.faults.is_calm = False
        self.faults.accidents.empty_the_cleaned()

    def _all_is_well(self) -> bool:
        disks = [node.disk for node in self.cluster.brokers]
        return (
            self.faults.accidents.set_is_whole()
            and not self.cluster.network.has_cuts()
            and not self.cluster.journal.stalled
            and all(
                node.up and not node.paused
                for node in (*self.cluster.brokers, *self.cluster.controllers)
            )
            and not any(
                disk.errors_due
                or disk.slow_ms
                or disk.hang_ms
                or disk.used_percent
                or disk.room is not None
                for disk in disks
            )
        )
