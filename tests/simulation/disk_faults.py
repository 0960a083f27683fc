"""What goes wrong with one disk: no room, slowness, a power loss within a write, a bit that turns
over.

Responsible for: doing it to a node, and ending it. Refuses to know: when it happens, and to how
many disks at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.sim_log import FILE_BYTES

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.world import World

FULL_MS = (200, 5_000)
CROWDED_PERCENT = (80, 90, 97)
ROOM_BYTES_MAX = FILE_BYTES
SLOW_MS = (300, 4_000)
SYNC_MS = (50, 1_500)
HANG_MS = (900, 2_500)
ARMED_MS = 60
WRITES_MAX = 6
LENGTH_AT, BODY_AT = 84, 88


def fill(world: World, node: BrokerNode) -> None:
    """A little room is left, then none, until somebody makes some."""
    node.disk.room = world.between(0, ROOM_BYTES_MAX)

    def empty() -> None:
        node.disk.room = None

    world.after(world.between(*FULL_MS), empty)


def crowd(world: World, node: BrokerNode) -> None:
    """Somebody else fills the disk: old files go early, the oldest at any price, and then no
    message is taken.
    """
    node.disk.used_percent = float(world.chance.choice(CROWDED_PERCENT))

    def leave() -> None:
        node.disk.used_percent = 0.0

    world.after(world.between(*FULL_MS), leave)


def slow_down(world: World, node: BrokerNode) -> None:
    node.disk.slow_ms = world.between(*SYNC_MS)

    def recover() -> None:
        node.disk.slow_ms = 0

    world.after(world.between(*SLOW_MS), recover)


def hang(world: World, node: BrokerNode) -> None:
    """The next append of a client's message takes longer than clients should wait behind."""
    node.disk.hang_ms = world.between(*HANG_MS)


def arm(world: World, node: BrokerNode) -> None:
    """The power goes within one of the next few writes, if they come soon."""
    life = node.life
    node.disk.power_in = world.between(0, WRITES_MAX)

    def disarm() -> None:
        if node.life == life:
            node.disk.power_in = None

    world.after(ARMED_MS, disarm)


def flip(world: World, node: BrokerNode) -> bool:
    """One bit of a body that is known to be durable; False when there is none."""
    disk = node.disk
    known = [slot for slot in disk.slots() if disk.vouches_for(disk.place(slot))]
    if not known:
        return False
    slot = known[-1] if world.one_in(2) else world.chance.choice(known)
    start = disk.place(slot).offset
    length = int.from_bytes(disk.log[start + LENGTH_AT : start + BODY_AT], "big")
    disk.flip(start + BODY_AT + world.between(0, length - 1), world.between(0, 7))
    node.cluster.checkers.damaged(node, slot)
    return True
