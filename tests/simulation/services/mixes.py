"""What the worlds of services are plagued with.

Responsible for: the weights of each kind of world. Refuses to know: how an accident is done.
"""

from __future__ import annotations

from tests.simulation.services.faults import Mix
from tests.simulation.world import World

MIXES = {
    "lives": Mix({"kill": 3, "lose_tail": 3, "hand_over": 3, "pause": 1}),
    "power": Mix({"lose_power": 4, "kill": 1, "hand_over": 2}),
    "network": Mix({"cut_off": 4, "cut_from_control": 2, "pause": 3}),
    "clocks": Mix({"clock_jump": 4, "hand_over": 1, "kill": 1}),
    "all": Mix(
        {
            "kill": 2,
            "lose_tail": 2,
            "lose_power": 2,
            "pause": 2,
            "cut_off": 2,
            "cut_from_control": 1,
            "hand_over": 2,
            "clock_jump": 1,
        }
    ),
}
"""By name."""


def mix_of(world: World) -> Mix:
    """By chance."""
    return world.chance.choice(list(MIXES.values()))
