"""
Runs seeds and prints what happened.

    python -m tests.simulation.run --seeds 100 --from 1       that many worlds
    python -m tests.simulation.run --budget-s 150             as many as fit
    python -m tests.simulation.run --seeds 1 --from 4711 --trace   one world, readable

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are printed); 2: usage.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

from tests.simulation.cluster import Cluster, Shape
from tests.simulation.faults import Faults, Mix
from tests.simulation.world import InvariantBroken, World

FAULTY_MS = 25_000
HEAL_MS = 60_000
TRACE_LINES_SHOWN = 120


def run_world(world: World, mix: Mix | None = None, shape: Shape | None = None, faulty_ms: int = FAULTY_MS) -> World:
    """One world: faults for a while, then healing, then everything must be whole. Raises InvariantBroken."""
    world_shape = shape or Shape(controllers=world.chance.choice([2, 2, 3]), clients=world.chance.randint(1, 3))
    cluster = Cluster(world, world_shape)
    faults = Faults(cluster, mix)
    try:
        _run_until(world, faulty_ms, lambda: False)
        faults.stop()
        _settle(world, cluster)
    except InvariantBroken:
        raise
    except Exception as error:  # A crash of the product's code is a failure of the seed, with its trace.
        world.note("".join(traceback.format_exception(error))[-2000:])
        raise InvariantBroken(f"{type(error).__name__}: {error}") from error
    return world


def _run_until(world: World, end_ms: int, done: Callable[[], bool]) -> None:
    while (due := world.next_due_ms()) is not None and due <= end_ms and not done():
        world.step()
    world.now_ms = max(world.now_ms, min(end_ms, world.next_due_ms() or end_ms))


def _settle(world: World, cluster: Cluster) -> None:
    begun = world.now_ms
    _run_until(world, begun + 8_000, lambda: False)
    for client in cluster.clients:
        client.stopped = True
    _run_until(world, begun + HEAL_MS, lambda: world.steps % 64 == 0 and cluster.checkers.healed() is None)
    missing = cluster.checkers.healed()
    if missing is not None:
        raise InvariantBroken(f"not whole {HEAL_MS} ms after the last fault: {missing}")
    world.count("world.healed")
    world.count("heal_ms", world.now_ms - begun)
    cluster.checkers.final()
    if cluster.checkers.at_risk:
        world.count("world.at_risk")
    world.count("message.stored", len(cluster.checkers.acked))


def report_failure(seed: int, world_trace: list[str], error: InvariantBroken, out: Callable[[str], None]) -> None:
    """The readable trace and how to repeat it."""
    for line in world_trace[-TRACE_LINES_SHOWN:]:
        out(line)
    out(f"seed {seed} FAILED: {error}")
    out(f"repeat it alone: make simulate SEEDS=1 FROM={seed}")


def run_many(first: int, seeds: int | None, budget_s: float | None, out: Callable[[str], None]) -> tuple[Counter[str], int | None]:
    """Run seeds in order; returns all counts and the seed that failed, if one did."""
    totals: Counter[str] = Counter()
    begun = shown = time.monotonic()
    seed = first
    while (seeds is None or seed < first + seeds) and (budget_s is None or time.monotonic() - begun < budget_s):
        world = World(seed)
        try:
            run_world(world)
        except InvariantBroken as error:
            report_failure(seed, list(world.trace), error, out)
            return totals, seed
        totals.update(world.counts)
        totals["steps"] += world.steps
        totals["seeds"] += 1
        seed += 1
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            out(f"seeds {totals['seeds']}  steps {totals['steps']}  acknowledged {totals['message.acknowledged']}")
    return totals, None


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="how many worlds (default: until the budget ends, or 20)")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--budget-s", type=float, help="stop after this many seconds")
    parser.add_argument("--counts", action="store_true", help="print every count, not only the totals")
    options = parser.parse_args()
    seeds = options.seeds if options.seeds or options.budget_s else 20
    totals, failed = run_many(options.first, seeds, options.budget_s, lambda line: print(line, flush=True))
    faults = sum(count for name, count in totals.items() if name.startswith("fault."))
    print(
        f"seeds {totals['seeds']} from {options.first}, steps {totals['steps']}, messages sent {totals['message.sent']}, "
        f"acknowledged {totals['message.acknowledged']}, faults {faults}"
    )
    if options.counts:
        for name, count in sorted(totals.items()):
            print(f"  {count:>9}  {name}")
    return 1 if failed is not None else 0


if __name__ == "__main__":
    sys.exit(main())
