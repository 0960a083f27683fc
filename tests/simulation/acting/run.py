"""Runs worlds of sets without controllers and prints what happened.

    python -m tests.simulation.acting.run --seeds 100 --from 1             that many worlds
    python -m tests.simulation.acting.run --budget-s 60 --counts           as many as fit, counted
    python -m tests.simulation.acting.run --seeds 1 --from 4711 --trace    one world, readable

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are
printed); 2: usage.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tests.simulation.acting.coverage import missing
from tests.simulation.acting.world import World as ActingWorld
from tests.simulation.acting.world import Wrong
from tests.simulation.seeds import Series, total
from tests.simulation.world import InvariantBroken, World, crashes_break


def run_world(world: World) -> World:
    """One world: accidents, then none, and everything must be whole. Raises InvariantBroken."""

    def told(now_ms: int, text: str) -> None:
        world.now_ms = now_ms
        world.note(text)

    acting = ActingWorld(world.seed, told)
    try:
        with crashes_break(world):
            _run(acting)
    finally:
        world.counts.update(acting.net.counts)
        world.steps = acting.net.steps
    return world


def _run(acting: ActingWorld) -> None:
    try:
        acting.run()
    except Wrong as wrong:
        raise InvariantBroken(str(wrong)) from wrong


def summary(first: int, counts: Counter[str]) -> str:
    """One line for people."""
    return (
        f"acting: seeds {counts['seeds']} from {first}, steps {counts['steps']}, delivered here "
        f"{counts['delivered.here']}, by other sets {counts['delivered.away']}, twice "
        f"{counts['delivered.twice']}, faults {total(counts, 'fault.')}"
    )


SERIES = Series("acting", run_world, missing, summary)


if __name__ == "__main__":
    sys.exit(SERIES.main(__doc__))
