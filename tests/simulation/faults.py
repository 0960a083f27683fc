"""
What goes wrong, when, and how much of it at once.

Responsible for: the fault budget. Everything here is something the product promises to survive, so that each
failure is a bug: any number of kills, pauses, cuts and stalls, but only one destroyed disk at a time, and that
only while the set is whole.
Refuses to know: what the nodes do about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.operator import Operator

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster
    from tests.simulation.controller_node import ControllerNode

EVERY_MS = (150, 1_800)
DOWN_MS = (30, 3_000)
PAUSE_MS = (100, 7_000)
CUT_MS = (100, 6_000)
STALL_MS = (100, 5_000)
CLOCK_JUMP_MS = 3_600_000


class Faults:
    """Injects faults until `stop()`; then everything is put right."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.operator = Operator(cluster)
        self.active = True
        chance = self.world.chance
        # Each world has its own mix: rare combinations need their partners to be frequent.
        self._kinds: list[tuple[str, Callable[[], None]]] = [
            kind for kind in self._all() for _ in range(chance.randint(0, 3))
        ] or self._all()
        cluster.journal.stall_one_in = chance.choice([0, 0, 20, 60])
        self._next()

    def _all(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("kill_broker", self._kill_broker),
            ("kill_master", self._kill_master),
            ("lose_power", self._lose_power),
            ("wipe_disk", self._wipe_disk),
            ("kill_controller", self._kill_controller),
            ("kill_leader", self._kill_leader),
            ("kill_both", self._kill_both),
            ("pause_broker", lambda: self._pause(self._broker())),
            ("pause_controller", lambda: self._pause(self.world.chance.choice(self.cluster.controllers))),
            ("cut", self._cut),
            ("isolate", self._isolate),
            ("journal_stall", self._stall),
            ("clock_jump", self._clock_jump),
            ("designate", self._designate),
        ]

    def stop(self) -> None:
        """Heal: everything up, connected, unpaused; odd requests end."""
        self.active = False
        self.operator.stopped = True
        self.cluster.network.heal()
        self.cluster.journal.stalled = False
        self.cluster.journal.stall_one_in = 0
        for node in (*self.cluster.controllers, *self.cluster.brokers):
            node.paused = False
            if not node.up:
                node.start()

    def _next(self) -> None:
        if self.active:
            self.world.after(self.world.chance.randint(*EVERY_MS), self._strike)

    def _strike(self) -> None:
        if self.active:
            name, act = self.world.chance.choice(self._kinds)
            self.world.note(f"-- fault {name}")
            self.world.count(f"fault.{name}")
            act()
        self._next()

    # -- whom --------------------------------------------------------------------------------------

    def _broker(self) -> BrokerNode:
        return self.world.chance.choice(self.cluster.brokers)

    def _master(self) -> BrokerNode:
        for node in self.cluster.brokers:
            if node.core is not None and node.core.role.value == "MASTER":
                return node
        return self._broker()

    def _leader(self) -> ControllerNode:
        for node in self.cluster.controllers:
            if node.core is not None and node.core.is_active:
                return node
        return self.world.chance.choice(self.cluster.controllers)

    def _set_is_whole(self) -> bool:
        """Every replica up, trusted, and in the set as the log knows it: one disk may be lost."""
        newest = max(self.cluster.controllers, key=lambda node: node.folder.offset)
        known = newest.folder.state.sets.get(self.cluster.set_name)
        return known is not None and all(
            node.core is not None and node.core.clean and node.broker_id in known.sync_state_set
            and node.incarnation == getattr(known.replica(node.broker_id or 0), "incarnation", None)
            for node in self.cluster.brokers
        )  # fmt: skip

    # -- what --------------------------------------------------------------------------------------

    def _restart_later(self, node: BrokerNode | ControllerNode) -> None:
        def restart() -> None:
            if not node.up:
                node.start()

        self.world.after(self.world.chance.randint(*DOWN_MS), restart)

    def _kill(self, node: BrokerNode | ControllerNode) -> None:
        if node.up:
            self.world.note(f"   kill {node.name}")
            node.stop()
            self._restart_later(node)

    def _kill_broker(self) -> None:
        self._kill(self._broker())

    def _kill_master(self) -> None:
        self._kill(self._master())

    def _kill_controller(self) -> None:
        self._kill(self.world.chance.choice(self.cluster.controllers))

    def _kill_leader(self) -> None:
        self._kill(self._leader())

    def _kill_both(self) -> None:
        master, leader = self._master(), self._leader()
        self._kill(master)
        self._kill(leader)

    def _lose_power(self) -> None:
        node = self._broker()
        if node.up and self._set_is_whole():
            self.world.note(f"   power of {node.name}")
            self.world.count("disk.power_lost")
            node.lose_power()
            self._restart_later(node)

    def _wipe_disk(self) -> None:
        node = self._broker()
        if node.up and self._set_is_whole():
            self.world.note(f"   disk of {node.name}")
            self.world.count("disk.wiped")
            node.stop()
            node.disk.wipe()
            self.cluster.checkers.forget_epochs(node.name)
            self._restart_later(node)

    def _pause(self, node: BrokerNode | ControllerNode) -> None:
        if not node.up or node.paused:
            return
        self.world.note(f"   pause {node.name}")
        node.paused = True
        life = node.life

        def go_on() -> None:
            if node.life == life:
                node.paused = False

        self.world.after(self.world.chance.randint(*PAUSE_MS), go_on)

    def _cut(self) -> None:
        nodes = [*self.cluster.controllers, *self.cluster.brokers]
        one, other = self.world.chance.sample(nodes, 2)
        both = self.world.chance.randrange(2) == 0
        self.world.note(f"   cut {one.name} {'<->' if both else '->'} {other.name}")
        self.cluster.network.cut(one.name, other.name, both=both)
        self._heal_later()

    def _isolate(self) -> None:
        nodes = [*self.cluster.controllers, *self.cluster.brokers]
        lonely = self.world.chance.choice(nodes)
        self.world.note(f"   isolate {lonely.name}")
        for node in nodes:
            if node is not lonely:
                self.cluster.network.cut(lonely.name, node.name, both=True)
        self._heal_later()

    def _heal_later(self) -> None:
        self.world.after(self.world.chance.randint(*CUT_MS), self.cluster.network.heal)

    def _stall(self) -> None:
        self.cluster.journal.stalled = True

        def go_on() -> None:
            self.cluster.journal.stalled = False

        self.world.after(self.world.chance.randint(*STALL_MS), go_on)

    def _clock_jump(self) -> None:
        node = self.world.chance.choice(self.cluster.controllers)
        node.wall_shift_ms += self.world.chance.choice([-CLOCK_JUMP_MS, CLOCK_JUMP_MS])

    def _designate(self) -> None:
        node = self._broker()
        if node.broker_id is not None:
            self.operator.designate(node.broker_id)
