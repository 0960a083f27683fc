"""A set of brokers with all their services, clients that use them, and what connects them.

Responsible for: putting these parts together and finding them by address. Refuses to know: what
goes wrong when, what is promised.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.network import Network, Node
from tests.simulation.services.clients import Client
from tests.simulation.services.consumers import clients_of
from tests.simulation.services.control import Control
from tests.simulation.services.member import Member
from tests.simulation.services.promises import Promises
from tests.simulation.store.medium import Medium
from tests.simulation.world import World

HOSTS = {"b": "10.0.0", "c": "10.0.2"}
LOG_FILE_BYTES = 1 << 17
QUEUE_FILE_ENTRIES = 100
# The product's wheel has 1,209,600 slots, and is looked through at each change of role. Half of one
# holds the hour by which a clock is set back, or messages of two turns would meet in one slot; what
# lies further off than a seventh goes round, there and here.
WHEEL_SLOTS = 7 * 12_096
ROLL_WINDOW_SLOTS = WHEEL_SLOTS // 7
USES = ("delays", "timers", "transactions", "pops", "offsets", "locks", "returns", "ordered")
USED = (2, 3, 3, 8)
"""How many of them a world uses."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a set is configured. Times in ms. `uses`: which clients there are."""

    members: int = 3
    min_in_sync: int = 1
    flush_ms: int = 200
    persist_ms: int = 1_000
    sync_ms: int = 1_000
    precision_ms: int = 500
    retry_v2: bool = False
    uses: tuple[str, ...] = USES


def shape_of(world: World) -> Shape:
    """By chance."""
    pick = world.chance.choice
    return Shape(
        3 if world.one_in(3) else 2,
        pick((1, 1, 2)),
        pick((100, 300, 500)),
        pick((500, 2_000)),
        pick((500, 1_500)),
        pick((100, 500, 1_000)),
        world.one_in(3),
        tuple(world.chance.sample(USES, pick(USED))),
    )


class Realm:
    """One world."""

    def __init__(self, world: World, shape: Shape, medium: Medium) -> None:
        self.world, self.shape, self.medium = world, shape, medium
        self.network = Network(world)
        self.promises = Promises(self)
        settings: dict[str, object] = {
            "cluster_name": "c",
            "broker_name": "b",
            "controllers": ["10.0.9.1:9876"],
            "commit_log_file_bytes": LOG_FILE_BYTES,
            "consume_queue_file_entries": QUEUE_FILE_ENTRIES,
            "message_index": False,
            "min_in_sync_replicas": shape.min_in_sync,
            "flush_interval_ms": shape.flush_ms,
            "offsets_persist_ms": shape.persist_ms,
            "metadata_sync_ms": shape.sync_ms,
            "timer_precision_ms": shape.precision_ms,
            "timer_flush_interval_ms": shape.flush_ms,
            "timer_log_file_bytes": 8_192,
            "timer_roll_window_slots": ROLL_WINDOW_SLOTS,
            "recall_message_enable": True,
            "transaction_timeout_ms": 700,
            "transaction_check_interval_ms": 800,
            "retry_topic_v2": shape.retry_v2,
            # whatever else lies on the disk of this machine
            "disk_clean_forcibly_percent": 100,
            "disk_full_percent": 100,
            "disk_max_used_percent": 100,
        }
        self.members = [Member(self, number + 1, settings) for number in range(shape.members)]
        self.control = Control(self)
        for member in self.members:
            world.after(10 * member.number, member.start)
        self.clients: list[Client] = clients_of(self)

    def node_at(self, address: str) -> Member:
        """Whose address it is, of clients or of HA links."""
        return next(one for one in self.members if address in (one.address, one.ha_address))

    def peer_of(self, node: Node) -> str:
        """From where a node connects."""
        return f"{HOSTS[node.name[0]]}.{node.name[1:]}:40000"

    @property
    def leader(self) -> Member | None:
        """Who leads by the control, if it knows so itself."""
        number = self.control.master
        member = None if number is None else self.members[number - 1]
        if member is None or not member.leads or member.epoch != self.control.epoch:
            return None
        return member

    def close(self) -> None:
        """Ends the world."""
        for member in self.members:
            member.end()
