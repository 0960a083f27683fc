"""Runs worlds of the control plane and prints what happened.

    python -m tests.simulation.control.run --seeds 100 --from 1             that many worlds
    python -m tests.simulation.control.run --budget-s 60 --counts           as many as fit, with
    every count
    python -m tests.simulation.control.run --seeds 1 --from 4711 --trace    one world, readable

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are
printed); 2: usage.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tests.simulation.control.coverage import missing
from tests.simulation.control.faults import Faults, Mix
from tests.simulation.control.mixes import mix_of, shape_of
from tests.simulation.control.realm import Realm, Shape
from tests.simulation.seeds import Series, total
from tests.simulation.world import InvariantBroken, World, crashes_break

FAULTY_MS = 15_000
HEAL_MS = 30_000


def run_world(
    world: World, mix: Mix | None = None, shape: Shape | None = None, faulty_ms: int = FAULTY_MS
) -> World:
    """One world: faults for a while, then healing within bounded time. Raises InvariantBroken."""
    with crashes_break(world):
        realm = Realm(world, shape or shape_of(world))
        faults = Faults(realm, mix or mix_of(world.seed))
        _run_until(world, faulty_ms, lambda: False)
        faults.stop()
        _settle(world, realm)
    return world


def _run_until(world: World, end_ms: int, done: Callable[[], bool]) -> None:
    while (due := world.next_due_ms()) is not None and due <= end_ms and not done():
        world.step()


def _settle(world: World, realm: Realm) -> None:
    begun = world.now_ms
    _run_until(
        world, begun + HEAL_MS, lambda: world.steps % 64 == 0 and realm.promises.whole() is None
    )
    lacking = realm.promises.whole()
    if lacking is not None:
        raise InvariantBroken(f"not whole {HEAL_MS} ms after the last fault: {lacking}")
    world.count("world.healed")
    world.count("heal_ms", world.now_ms - begun)


def summary(first: int, counts: Counter[str]) -> str:
    """One line for people."""
    return (
        f"control plane: seeds {counts['seeds']} from {first}, steps {counts['steps']}, commands "
        f"{total(counts, 'outcome.')}, answers {total(counts, 'answered.')}, faults "
        f"{total(counts, 'fault.')}"
    )


SERIES = Series("control", run_world, missing, summary)


if __name__ == "__main__":
    sys.exit(SERIES.main(__doc__))
