"""Runs seeds and prints what happened.

    python -m tests.simulation.run --seeds 100 --from 1       that many worlds
    python -m tests.simulation.run --budget-s 150             as many as fit
    python -m tests.simulation.run --seeds 1 --from 4711 --trace   one world, readable
    python -m tests.simulation.run --mix copies            only worlds that are plagued so
    (mixes.py)

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are
printed); 2: usage.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.simulation.cluster import NO_PRIORITY, Cluster, Shape
from tests.simulation.coverage import missing
from tests.simulation.faults import Faults
from tests.simulation.lasting import REPLICAS, WITH_CLEANED
from tests.simulation.mixes import MIXES, Mix, mix_of
from tests.simulation.seeds import Series, total
from tests.simulation.world import InvariantBroken, World, crashes_break

FAULTY_MS = 25_000
HEAL_MS = 60_000
COUNT_MODE_ONE_IN = 9  # odd, as directed worlds and others take turns
ODD_SENDS_ONE_IN = 3
RETAINS_ONE_IN = 4
MIN_IN_SYNC: tuple[tuple[int, ...], ...] = ((2,), (2,), (1,), (2, 1))
PRIORITIES: tuple[tuple[int, ...], ...] = ((NO_PRIORITY,), (NO_PRIORITY,), (3, 1, 2))
LEARNS_AMONG = 4


def run_world(
    world: World, mix: Mix | None = None, shape: Shape | None = None, faulty_ms: int | None = None
) -> World:
    """One world: faults for a while, then healing, then everything must be whole. Raises
    InvariantBroken.
    """
    mix = mix or mix_of(world.seed)
    cluster = Cluster(world, shape or _drawn_shape(world, mix))
    world.count("flush.sync", cluster.shape.sync_flush)
    world.count("shape.learners", cluster.shape.learners)
    world.count("shape.priorities", len(cluster.shape.priorities) > 1)
    world.count("shape.minimums", len(cluster.shape.min_in_sync) > 1)
    ends_ms = faulty_ms or mix.faulty_ms or FAULTY_MS
    faults = Faults(cluster, mix, ends_ms)
    try:
        with crashes_break(world):
            _run_until(world, ends_ms, lambda: False)
            faults.stop()
            _settle(world, cluster)
    finally:
        world.end()
    return world


def _drawn_shape(world: World, mix: Mix) -> Shape:
    controllers, brokers = (
        world.chance.choice([1, 2, 2, 2, 3]),
        world.chance.choice([3, 3, 3, 3, 3, 2, 4, 5]),
    )
    lasts = "lasting_cut" in mix.weights
    brokers = world.chance.choice([REPLICAS, REPLICAS, WITH_CLEANED]) if lasts else brokers
    clients, sync_flush = world.between(2, 8), world.one_in(4)
    count_mode, odd_sends = world.seed % COUNT_MODE_ONE_IN == 0, world.one_in(ODD_SENDS_ONE_IN)
    retains = world.one_in(RETAINS_ONE_IN) or "disk_crowded" in mix.weights
    learners = int(not lasts and brokers >= LEARNS_AMONG and world.one_in(2))
    return Shape(
        controllers,
        brokers,
        clients,
        sync_flush,
        count_mode,
        odd_sends,
        retains,
        world.chance.choice(MIN_IN_SYNC),
        world.chance.choice(PRIORITIES),
        learners,
    )


def _run_until(world: World, end_ms: int, done: Callable[[], bool]) -> None:
    while (due := world.next_due_ms()) is not None and due <= end_ms and not done():
        world.step()
    world.now_ms = max(world.now_ms, min(end_ms, world.next_due_ms() or end_ms))


def _settle(world: World, cluster: Cluster) -> None:
    begun = world.now_ms
    _run_until(world, begun + 8_000, lambda: False)
    for client in cluster.clients:
        client.stopped = True
    _run_until(
        world, begun + HEAL_MS, lambda: world.steps % 64 == 0 and cluster.checkers.healed() is None
    )
    missing = cluster.checkers.healed()
    if missing is not None:
        raise InvariantBroken(f"not whole {HEAL_MS} ms after the last fault: {missing}")
    world.count("world.healed")
    world.count("heal_ms", world.now_ms - begun)
    cluster.checkers.final()
    world.count("world.at_risk", bool(world.counts["set.elected_at_risk"]))
    world.count("message.stored", len(cluster.checkers.acked))


def summary(first: int, counts: Counter[str]) -> str:
    """One line for people."""
    return (
        f"seeds {counts['seeds']} from {first}, steps {counts['steps']}, messages sent "
        f"{counts['message.sent']}, acknowledged {counts['message.acknowledged']} (in count mode "
        f"{counts['count_mode.acknowledged']}, of them lost {counts['count_mode.lost']} from "
        f"{counts['count_mode.lost_window_ms']} ms), commands {total(counts, 'outcome.')}, faults "
        f"{total(counts, 'fault.')}, with synchronous flush {counts['flush.sync']}, elections at "
        f"risk {counts['set.elected_at_risk']}, losses excused {counts['message.lost_excused']}"
    )


SERIES = Series(
    "cluster",
    run_world,
    missing,
    summary,
    {name: partial(run_world, mix=mix) for name, mix in MIXES.items()},
)


if __name__ == "__main__":
    sys.exit(SERIES.main(__doc__))
