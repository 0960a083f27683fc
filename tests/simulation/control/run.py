"""
Runs worlds of the control plane and prints what happened.

    python -m tests.simulation.control.run --seeds 100 --from 1             that many worlds
    python -m tests.simulation.control.run --budget-s 60 --counts           as many as fit, with every count
    python -m tests.simulation.control.run --seeds 1 --from 4711 --trace    one world, readable

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are printed); 2: usage.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tests.simulation.control.coverage import missing
from tests.simulation.control.faults import Faults, Mix
from tests.simulation.control.mixes import mix_of, shape_of
from tests.simulation.control.realm import Realm, Shape
from tests.simulation.world import InvariantBroken, World

FAULTY_MS = 15_000
HEAL_MS = 30_000
TRACE_LINES_SHOWN = 150
PROGRESS_S = 10
OVERTIME = 2


def run_world(world: World, mix: Mix | None = None, shape: Shape | None = None, faulty_ms: int = FAULTY_MS) -> World:
    """One world: faults for a while, then healing within bounded time. Raises InvariantBroken."""
    try:
        realm = Realm(world, shape or shape_of(world))
        faults = Faults(realm, mix or mix_of(world.seed))
        _run_until(world, faulty_ms, lambda: False)
        faults.stop()
        _settle(world, realm)
    except InvariantBroken:
        raise
    except Exception as error:  # A crash of the product's code is a failure of the seed, with its trace.
        world.note("".join(traceback.format_exception(error))[-3000:])
        raise InvariantBroken(f"{type(error).__name__}: {error}") from error
    return world


def _run_until(world: World, end_ms: int, done: Callable[[], bool]) -> None:
    while (due := world.next_due_ms()) is not None and due <= end_ms and not done():
        world.step()


def _settle(world: World, realm: Realm) -> None:
    begun = world.now_ms
    _run_until(world, begun + HEAL_MS, lambda: world.steps % 64 == 0 and realm.promises.whole() is None)
    lacking = realm.promises.whole()
    if lacking is not None:
        raise InvariantBroken(f"not whole {HEAL_MS} ms after the last fault: {lacking}")
    world.count("world.healed")
    world.count("heal_ms", world.now_ms - begun)


def report_failure(world: World, error: BaseException, out: Callable[[str], None], lines: int = TRACE_LINES_SHOWN) -> None:
    """The readable trace and how to repeat it."""
    for line in list(world.trace)[-lines:]:
        out(line)
    out(f"control plane, seed {world.seed} FAILED: {error}")
    out(f"repeat it alone: make simulate WORLDS=control SEEDS=1 FROM={world.seed}")


@dataclass(slots=True)
class Report:
    """What a series of worlds did."""

    first: int
    counts: Counter[str] = field(default_factory=Counter)
    failed_seed: int | None = None

    def summary(self) -> str:
        """One line for people."""
        counts = self.counts
        return (
            f"control plane: seeds {counts['seeds']} from {self.first}, steps {counts['steps']}, "
            f"commands {total(counts, 'outcome.')}, answers {total(counts, 'answered.')}, faults {total(counts, 'fault.')}"
        )


def total(counts: Counter[str], prefix: str) -> int:
    return sum(count for name, count in counts.items() if name.startswith(prefix))


def run_many(first: int, seeds: int | None, budget_s: float | None, out: Callable[[str], None], *, until_covered: bool = False) -> Report:
    """
    Run seeds in order until their number, the budget or the first failure.

    `until_covered`: on a busy machine the budget may be too short to see everything; then up to as much again.
    """
    report = Report(first)
    begun = shown = time.monotonic()
    seed = first
    while seeds is None or seed < first + seeds:
        spent_s = time.monotonic() - begun
        if budget_s is not None and spent_s >= budget_s:
            if not until_covered or spent_s >= OVERTIME * budget_s or not missing(report.counts):
                return report
        world = World(seed)
        try:
            run_world(world)
        except InvariantBroken as error:
            report_failure(world, error, out)
            report.failed_seed = seed
            return report
        report.counts.update(world.counts)
        report.counts["steps"] += world.steps
        report.counts["seeds"] += 1
        seed += 1
        if time.monotonic() - shown > PROGRESS_S:
            shown = time.monotonic()
            out(report.summary())
    return report


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="how many worlds (default: until the budget ends, or 20)")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--budget-s", type=float, help="stop after this many seconds")
    parser.add_argument("--counts", action="store_true", help="print every count, not only the totals")
    parser.add_argument("--coverage", action="store_true", help="fail when something was never seen to happen")
    parser.add_argument("--trace", action="store_true", help="one world: print its whole trace and its hash")
    options = parser.parse_args()

    def out(line: str) -> None:
        print(line, flush=True)

    if options.trace:
        return show_world(options.first, out)
    report = run_many(options.first, options.seeds or (None if options.budget_s else 20), options.budget_s, out)
    out(report.summary())
    if options.counts:
        for name, count in sorted(report.counts.items()):
            out(f"  {count:>9}  {name}")
    unseen = missing(report.counts) if options.coverage and report.failed_seed is None else []
    if unseen:
        out(f"never seen: {', '.join(unseen)}")
    return 1 if report.failed_seed is not None or unseen else 0


def show_world(seed: int, out: Callable[[str], None]) -> int:
    """Replay one seed with all it has to say."""
    world = World(seed)
    world.keep_whole_trace()
    try:
        run_world(world)
    except InvariantBroken as error:
        report_failure(world, error, out, len(world.trace))
        return 1
    for line in world.trace:
        out(line)
    out(f"seed {seed}: every promise held; trace {world.trace_hash}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
