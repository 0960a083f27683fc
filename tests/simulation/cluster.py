"""A whole cluster in one thread: log, controllers, replicas of one set, clients, and what may go
wrong with them.

Responsible for: putting the nodes together and finding them by address.
Refuses to know: which faults happen when (faults.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.broker_node import BrokerNode, Settings
from tests.simulation.checkers import Checkers
from tests.simulation.client_node import ClientNode
from tests.simulation.controller_node import ControllerNode
from tests.simulation.journal import Journal
from tests.simulation.network import End, Network
from tests.simulation.strays import Strays
from tests.simulation.world import World

NO_PRIORITY = 2_147_483_647


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a world is, and what its brokers promise. `count_mode`: two copies are enough,
    whoever holds them (S2). `min_in_sync`, `priorities`: what brokers are configured with, in turn;
    the last `learners` of them copy and are no members. `odd_sends`: clients send now and then what
    a broker does not store. `retains`: old files of the log are deleted.
    """

    controllers: int = 2
    brokers: int = 3
    clients: int = 2
    sync_flush: bool = False
    count_mode: bool = False
    odd_sends: bool = False
    retains: bool = False
    min_in_sync: tuple[int, ...] = (2,)
    priorities: tuple[int, ...] = (NO_PRIORITY,)
    learners: int = 0


class Place:
    """An address: a node, and which of its doors."""

    def __init__(self, node: ControllerNode | BrokerNode, accept: Callable[[End], bool]) -> None:
        self._node = node
        self.accept = self.accept_ha = accept

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def up(self) -> bool:
        return self._node.up

    @property
    def life(self) -> int:
        return self._node.life

    @property
    def paused(self) -> bool:
        return self._node.paused


class Nowhere:
    """An address where nobody ever lived: connections are refused."""

    name, up, life, paused = "nowhere", False, 0, False

    @staticmethod
    def accept(end: End) -> bool:
        return False

    accept_ha = accept


class Cluster:
    """All nodes of one world."""

    cluster_id = "simulated"
    cluster_name = "DefaultCluster"
    set_name = "broker-a"

    def __init__(self, world: World, shape: Shape) -> None:
        self.world, self.shape = world, shape
        self.retains = shape.retains
        self.network = Network(world)
        self.strays = Strays(world, self.network)
        self.journal = Journal(world)
        self.checkers = Checkers(self)
        self.controller_names = [f"c{number}" for number in range(1, shape.controllers + 1)]
        self.controllers = [ControllerNode(self, name) for name in self.controller_names]
        self.brokers = [
            BrokerNode(self, f"b{number}", self._settings(number))
            for number in range(1, shape.brokers + 1)
        ]
        self._places: dict[str, Place] = {}
        for controller in self.controllers:
            self._places[controller.name] = Place(controller, controller.accept)
        for broker in self.brokers:
            self._places[broker.address] = Place(broker, broker.accept)
            self._places[broker.ha_address] = Place(broker, broker.accept_ha)
        for node in (*self.controllers, *self.brokers):
            world.after(world.chance.randrange(200), node.start)
        self.clients = [ClientNode(self, f"p{number}") for number in range(1, shape.clients + 1)]

    def _settings(self, number: int) -> Settings:
        shape = self.shape
        return Settings(
            shape.min_in_sync[number % len(shape.min_in_sync)],
            shape.priorities[number % len(shape.priorities)],
            is_learner=number > shape.brokers - shape.learners,
        )

    def node_at(self, address: str) -> Place | Nowhere:
        return self._places.get(address, Nowhere())
