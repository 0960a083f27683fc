"""Series of simulated worlds: one seed after the other, what is printed of them, and their command
line.

Responsible for: budgets, counts, the failed seed with its trace and how to repeat it. Refuses to
know: what a world is made of and what it promises.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.simulation.world import InvariantBroken, World

TRACE_LINES_SHOWN = 150
PROGRESS_S = 10
OVERTIME = 2
Out = Callable[[str], None]
Summary = Callable[[int, Counter[str]], str]
"""(first seed, counts) -> one line for people"""


@dataclass(slots=True)
class Report:
    """What a series of worlds did."""

    first: int
    summary: Summary
    counts: Counter[str] = field(default_factory=Counter)
    failed_seed: int | None = None

    def line(self) -> str:
        """One line for people."""
        return self.summary(self.first, self.counts)


def total(counts: Counter[str], prefix: str) -> int:
    """All counts whose names begin so."""
    return sum(count for name, count in counts.items() if name.startswith(prefix))


@dataclass(frozen=True, slots=True)
class Series:
    """`worlds` is what `make simulate` calls this kind; `run_world` raises InvariantBroken.
    `directed`: the same for worlds of one kind only, by its name.
    """

    worlds: str
    run_world: Callable[[World], World]
    missing: Callable[[Counter[str]], list[str]]
    summary: Summary
    directed: Mapping[str, Callable[[World], World]] = field(default_factory=dict)

    def run(
        self,
        first: int,
        seeds: int | None,
        budget_s: float | None,
        out: Out,
        *,
        until_covered: bool = False,
        at_least: int = 0,
    ) -> Report:
        """Run seeds in order until their number, the budget or the first failure.

        `until_covered`: on a busy machine the budget may be too short to see everything; then up to
        as much again, and up to `at_least` worlds however long they take.
        """
        report = Report(first, self.summary)
        begun = shown = time.monotonic()
        seed = first
        while seeds is None or seed < first + seeds:
            spent_s = time.monotonic() - begun
            if budget_s is not None and spent_s >= budget_s:
                over = spent_s >= OVERTIME * budget_s and report.counts["seeds"] >= at_least
                if not until_covered or over or not self.missing(report.counts):
                    return report
            world = World(seed)
            try:
                self.run_world(world)
            except InvariantBroken as error:
                self.report_failure(world, error, out)
                report.failed_seed = seed
                return report
            report.counts.update(world.counts)
            report.counts["steps"] += world.steps
            report.counts["seeds"] += 1
            seed += 1
            if time.monotonic() - shown > PROGRESS_S:
                shown = time.monotonic()
                out(report.line())
        return report

    def main(self, about: str | None) -> int:
        """The command line."""
        parser = argparse.ArgumentParser(
            prog="simulate", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument(
            "--seeds", type=int, help=("how many worlds (default: until the budget ends, or 20)")
        )
        parser.add_argument(
            "--from", dest="first", type=int, default=1, help=("the first seed (default 1)")
        )
        parser.add_argument("--budget-s", type=float, help="stop after this many seconds")
        parser.add_argument(
            "--counts", action="store_true", help=("print every count, not only the totals")
        )
        parser.add_argument(
            "--coverage", action="store_true", help=("fail when something was never seen to happen")
        )
        parser.add_argument(
            "--trace", action="store_true", help=("one world: print its whole trace and its hash")
        )
        parser.add_argument("--mix", choices=self.directed, help="only worlds that are plagued so")
        options = parser.parse_args()
        if options.mix:
            return replace(self, run_world=self.directed[options.mix], directed={})._run_as_told(
                options
            )
        return self._run_as_told(options)

    def _run_as_told(self, options: argparse.Namespace) -> int:

        def out(line: str) -> None:
            print(line, flush=True)

        if options.trace:
            return self.show(options.first, out)
        report = self.run(
            options.first,
            options.seeds or (None if options.budget_s else 20),
            options.budget_s,
            out,
        )
        out(report.line())
        if options.counts:
            for name, count in sorted(report.counts.items()):
                out(f"  {count:>9}  {name}")
        unseen = (
            self.missing(report.counts) if options.coverage and report.failed_seed is None else []
        )
        if unseen:
            out(f"never seen: {', '.join(unseen)}")
        return 1 if report.failed_seed is not None or unseen else 0

    def show(self, seed: int, out: Out) -> int:
        """Replay one seed with all it has to say."""
        world = World(seed)
        world.keep_whole_trace()
        try:
            self.run_world(world)
        except InvariantBroken as error:
            self.report_failure(world, error, out, len(world.trace))
            return 1
        for line in world.trace:
            out(line)
        out(f"seed {seed}: every promise held; trace {world.trace_hash}")
        return 0

    def report_failure(
        self, world: World, error: BaseException, out: Out, lines: int = TRACE_LINES_SHOWN
    ) -> None:
        """The readable trace and how to repeat it."""
        for line in list(world.trace)[-lines:]:
            out(line)
        out(f"{self.worlds}, seed {world.seed} FAILED: {error}")
        out(f"repeat it alone: make simulate WORLDS={self.worlds} SEEDS=1 FROM={world.seed}")
