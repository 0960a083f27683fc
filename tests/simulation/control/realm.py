"""The control plane in one thread: the log, three controllers, six broker sets, readers.

Responsible for: putting the processes together and finding them by address. Refuses to know which
faults happen when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from processors.fold.rules import SETTING_DEDUPE_WINDOW, SUPPORTED_RULES
from processors.fold.state import ControllerState
from tests.simulation.control.brokers import BrokerNode
from tests.simulation.control.controllers import ControllerNode
from tests.simulation.control.lines import Lines, Process
from tests.simulation.control.promises import Promises
from tests.simulation.control.readers import ReaderNode
from tests.simulation.control.replicas import ReplicaSet
from tests.simulation.control.topics import Topics
from tests.simulation.world import World

DEDUPE_WINDOW = 40
TIMEOUT_MS = (1_500, 4_000)
BEGIN_WITHIN_MS = (5, 200, 200)
"""Controllers that begin at once all want to form the cluster."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a world is, and what software it starts with. `java_sets`: how many of the sets are
    Java's.
    """

    controllers: int = 3
    sets: int = 6
    replicas: int = 3
    java_sets: int = 2
    readers: int = 2
    rules: tuple[int, ...] = SUPPORTED_RULES


class Realm:
    """All processes of one world."""

    cluster_id = "simulated"
    settings: Mapping[str, str] = {SETTING_DEDUPE_WINDOW: str(DEDUPE_WINDOW)}

    def __init__(self, world: World, shape: Shape) -> None:
        self.world = world
        self.lines = Lines(world)
        self.topics = Topics(world, self.lines)
        self.promises = Promises(self)
        self._places: dict[str, Process] = {}
        self.controllers = [
            ControllerNode(self, f"c{number + 1}", shape.rules)
            for number in range(shape.controllers)
        ]
        self.sets = [
            ReplicaSet(self, f"set-{number + 1}", number < shape.java_sets)
            for number in range(shape.sets)
        ]
        for one in self.sets:
            for number in range(shape.replicas):
                timeout_ms = world.between(*TIMEOUT_MS)
                one.brokers.append(BrokerNode(self, one, f"{one.name}-{number + 1}", timeout_ms))
        self.brokers = [broker for one in self.sets for broker in one.brokers]
        self.readers = [ReaderNode(self, f"r{number + 1}") for number in range(shape.readers)]
        within_ms = world.chance.choice(BEGIN_WITHIN_MS)
        for node in self.controllers:
            self._places[node.name] = node
            world.after(world.between(0, within_ms), node.start)
        for broker in self.brokers:
            world.after(world.between(0, 1_000), broker.start)

    def place(self, address: str) -> Process | None:
        """Who lives there now."""
        return self._places.get(address)

    def now_at(self, broker: BrokerNode) -> None:
        """A broker has started, maybe under another address than before."""
        self._places = {address: one for address, one in self._places.items() if one is not broker}
        self._places[broker.address] = broker

    def newest(self) -> ControllerNode:
        """Whoever has folded most."""
        return max(self.controllers, key=lambda node: node.folder.offset)

    def newest_state(self) -> ControllerState:
        return self.newest().folder.state
