"""What the store's worlds are plagued with.

Responsible for: the weights of each kind of world. Refuses to know: how a fault is done.
"""

from __future__ import annotations

from tests.simulation.store.faults import Mix
from tests.simulation.world import World

ORDINARY = {"send": 60, "copy": 30, "checkpoint": 6, "flush": 4, "trim": 5, "look": 2}
LIVES = {"kill": 3, "stop": 2, "lose_power": 3, "all_lose_power": 1, "hand_over": 3, "wipe": 1}
BYTES = {
    "flip_record": 3,
    "flip_place": 2,
    "spoil_page": 2,
    "flip_entry": 2,
    "zero_entries": 3,
    "spoil_entries": 2,
}
FILES = {"remove_queues": 1, "empty_queue_file": 1, "damage_ends": 1, "java": 1}
ODDS = {"clock_jump": 2, "no_descriptors": 1, "gap": 1}

MIXES = {
    "lives": Mix(ORDINARY | LIVES),
    "bytes": Mix(ORDINARY | LIVES | BYTES),
    "files": Mix(ORDINARY | LIVES | FILES),
    "odds": Mix(ORDINARY | LIVES | ODDS),
    "all": Mix(ORDINARY | LIVES | BYTES | FILES | ODDS),
}
"""By name."""


def mix_of(world: World) -> Mix:
    """By chance."""
    return world.chance.choice(list(MIXES.values()))
