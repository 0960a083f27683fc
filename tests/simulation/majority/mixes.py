"""What the worlds of groups are plagued with.

Responsible for: the weights of each kind of world. Refuses to know: how a fault is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.world import World

NETWORK = {
    "cut_pair": 3, "cut_one_way": 3, "isolate": 2, "isolate_leader": 3, "depose": 2, "mend": 6,
    "lossy": 2, "slow_net": 2, "doubles": 2,
}  # fmt: skip
LIVES = {
    "kill": 3, "kill_leader": 3, "kill_between": 3, "stop": 1, "start": 2, "all_lose_power": 1,
    "pause": 3,
}  # fmt: skip
DISKS = {"slow_disk": 3, "full_disk": 2, "unreadable": 1, "wipe": 1, "clean": 3}
OPERATORS = {"transfer": 2, "usurp": 1}
ALL = NETWORK | LIVES | DISKS | OPERATORS


@dataclass(frozen=True, slots=True)
class Mix:
    """`pause_ms`: the longest between two faults."""

    weights: dict[str, int]
    pause_ms: int = 1_500


MIXES = {
    "network": Mix(NETWORK | OPERATORS),
    "lives": Mix(LIVES | {"mend": 1, "isolate_leader": 1}),
    "disks": Mix(LIVES | DISKS),
    "all": Mix(ALL),
    "calm": Mix(ALL, 6_000),
}
"""By name."""


def mix_of(world: World) -> Mix:
    """By chance."""
    return world.chance.choice(list(MIXES.values()))
