"""How worlds are plagued and how large they are: drawn by the seed, and directed ones that bring
together what seldom meets.

Refuses to know: what a fault does.
"""

from __future__ import annotations

from dataclasses import replace

from processors.fold.rules import SUPPORTED_RULES
from tests.simulation.control.faults import Mix
from tests.simulation.control.realm import Shape
from tests.simulation.world import World

MIXES: tuple[Mix, ...] = (
    Mix(
        {
            "kill_leader": 3,
            "pause_leader": 3,
            "kill_both": 2,
            "log_leader": 1,
            "outcome_leader": 2,
            "bad_snapshot": 2,
        },
        every_ms=(80, 700),
    ),
    Mix(
        {
            "cut_leader_from_log": 3,
            "cut_from_log": 2,
            "cut_leader_from_peers": 2,
            "cut_controllers": 2,
        },
        trouble_one_in=15,
    ),
    Mix(
        {"cut_leader_from_brokers": 3, "clock_jump": 2, "deaf_controller": 1},
        every_ms=(1_500, 4_000),
        trouble_one_in=0,
    ),
    Mix(
        {
            "lose_power": 4,
            "wipe_disk": 2,
            "clean": 2,
            "restart_master": 2,
            "move_broker": 2,
            "kill_master": 1,
            "retire": 1,
        }
    ),
    Mix(
        {
            "upgrade": 4,
            "old_release": 3,
            "settings": 2,
            "transfer": 3,
            "kill_controller": 1,
            "pause_leader": 1,
            "bad_snapshot": 2,
        }
    ),
    Mix(
        {
            "transfer": 3,
            "stuck_reader": 2,
            "pause_controller": 2,
            "designate": 2,
            "settings": 1,
            "kill_master": 1,
        }
    ),
    Mix(
        {
            "bad_snapshot": 4,
            "kill_all_controllers": 1,
            "kill_controller": 2,
            "log_leader": 2,
            "outcome_leader": 2,
        },
        every_ms=(300, 1_500),
    ),
    Mix(
        {"kill_master": 3, "kill_broker": 2, "designate": 2, "pause_leader": 1},
        every_ms=(60, 500),
        trouble_one_in=4,
    ),
)
"""Directed worlds: what meets too seldom when everything is mixed."""
DIRECTED_ONE_IN = 2
ODD_EVERY_MS = (150, 900)


def mix_of(seed: int) -> Mix:
    """Every second world is a directed one, each kind in its turn; all have an operator with odd
    wishes.
    """
    mix = Mix() if seed % DIRECTED_ONE_IN else MIXES[seed // DIRECTED_ONE_IN % len(MIXES)]
    return replace(mix, odd_every_ms=ODD_EVERY_MS)


def shape_of(world: World) -> Shape:
    """Three controllers and six sets, always; how many of the sets are Java's, and how old the
    software is, is chance. Where upgrades are much of what happens there is something to upgrade.
    """
    old = world.one_in(2) or "upgrade" in mix_of(world.seed).weights
    rules = SUPPORTED_RULES[:1] if old else SUPPORTED_RULES
    return Shape(java_sets=world.between(0, 4), rules=rules)
