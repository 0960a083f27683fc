"""
Worlds under README's own sentence: any disk or power at any time, as long as each acknowledged message keeps another
intact holder; disks that come back with less than they had; and now and then the power of all.

    make simulate WORLDS=trust SEEDS=100 FROM=1

Exit codes as with `tests.simulation.run`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.simulation import run
from tests.simulation.cluster import Shape
from tests.simulation.mixes import Mix
from tests.simulation.seeds import Series
from tests.simulation.world import World

DEATHS = {"kill_master": 4, "kill_broker": 3, "isolate": 2, "pause_broker": 2, "restart_master": 1}
MIXES: Mapping[str, Mix] = {
    "power": Mix(DEATHS | {"lose_power": 5}, every_ms=(80, 900), odd=False, literal=True),
    "disks": Mix(DEATHS | {"wipe_disk": 4}, every_ms=(80, 900), odd=False, literal=True),
    "identity": Mix(DEATHS | {"identity_alone": 3, "lose_file": 2}, every_ms=(80, 900), odd=False, literal=True),
    "copies": Mix(DEATHS | {"keep_a_copy": 4, "older_copy": 4}, every_ms=(80, 900), odd=False, literal=True),
    "blackout": Mix({"blackout": 2, "kill_master": 2, "kill_broker": 2, "lose_power": 1}, every_ms=(300, 1_500), odd=False, literal=True),
    "unheard": Mix({"unheard": 3, "kill_broker": 3, "lose_power": 2, "isolate": 1}, every_ms=(200, 1_500), odd=False, literal=True),
}
"""One kind after the other, by the seed."""
SYNC_ONE_IN = 4
SEEN = ("fault.lose_power", "fault.wipe_disk", "fault.identity_alone", "fault.older_copy", "fault.lose_file", "fault.blackout",
        "fault.unheard", "set.elected_at_risk", "holder.struck")  # fmt: skip


def mix_of(seed: int) -> str:
    """The name of the mix in which this seed's world is plagued."""
    return list(MIXES)[seed % len(MIXES)]


def run_world(world: World) -> World:
    """One world; raises InvariantBroken."""
    shape = Shape(
        world.between(1, 3), world.chance.choice([3, 3, 3, 2, 4, 5]), world.between(2, 8), world.one_in(SYNC_ONE_IN),
        min_in_sync=world.chance.choice([1, 2]), strict=True,
    )  # fmt: skip
    world.count(f"flush.{'sync' if shape.sync_flush else 'async'}")
    return run.run_world(world, MIXES[mix_of(world.seed)], shape)


def missing(counts: Mapping[str, int]) -> list[str]:
    """What a series should have seen and has not."""
    return [name for name in SEEN if not counts.get(name)]


def summary(first: int, counts: Counter[str]) -> str:
    """One line for people."""
    return (
        f"{run.summary(first, counts)}; with synchronous flush {counts['flush.sync']}, worlds at risk {counts['world.at_risk']}, "
        f"elections at risk {counts['set.elected_at_risk']}, losses excused {counts['message.lost_excused']}"
    )


SERIES = Series("trust", run_world, missing, summary)


if __name__ == "__main__":
    sys.exit(SERIES.main(__doc__))
