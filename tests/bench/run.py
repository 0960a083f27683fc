"""The figures of this machine, each beside a peer of the same run, its floor and its goal (`make
bench`).

Responsible for: choosing rows, running them one after the other, stopping everything at the end,
also after Ctrl-C.
Refuses to know how a figure is measured.

Exit codes: 0 every required floor holds; 1 one is broken, or a required row failed; 2 wrong usage,
or a required row cannot be measured on this machine; 130 it was interrupted, and nothing of it runs
any more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from infra.problems import Problem
from tests.bench import report
from tests.bench.apart import ChildFailed
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, exit_code
from tests.bench.registry import ROWS
from tests.bench.run_context import Bench, Row
from tests.support.interruptible import interruptible, uninterruptible
from tests.support.own_ports import take_own_ports

EXIT_BROKEN, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def chosen(names: Sequence[str] | None, long: bool = False) -> list[Row]:
    """Rows by name, in their own order; without names all, the long ones only when asked for.
    Problem with unknown names.
    """
    if not names:
        return [row for row in ROWS if long or not row.long]
    wanted = {name for words in names for name in words.split(",") if name}
    unknown = sorted(wanted - {row.name for row in ROWS})
    if unknown or not wanted:
        raise Problem(
            f"no row is called {', '.join(unknown)}", "--list shows the rows.", EXIT_USAGE
        )
    return [row for row in ROWS if row.name in wanted]


def measured(bench: Bench, row: Row) -> list[Figure]:
    """The row's figures; one that says what went wrong when it failed."""
    bench.say(f"{row.name}: {row.meaning}")
    try:
        return row.measure(bench)
    except (BenchFailed, ChildFailed, Problem, OSError) as error:
        bench.say(f"{row.name} failed: {error}")
        return [
            Figure(row.name, row.meaning, "", None, required=row.required, note=f"failed: {error}")
        ]


def run(
    rows: Sequence[Row], keep: bool, minutes: float, share: float
) -> tuple[list[Figure], float, set[str]]:
    """(figures, seconds, rows that failed). Everything that was started is stopped, whatever
    happens.
    """
    work = Path(tempfile.mkdtemp(prefix="regent-bench-"))
    bench = Bench(work, minutes, share)
    figures: list[Figure] = []
    failed: set[str] = set()
    try:
        for row in rows:
            found = measured(bench, row)
            for figure in found:
                bench.say(report.line(figure))
            failed |= {row.name for figure in found if figure.note.startswith("failed: ")}
            figures += found
        return figures, bench.seconds, failed
    finally:
        uninterruptible()  # a second Ctrl-C must not leave a cluster behind
        bench.quiet()
        if keep or failed:
            bench.say(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="NAME,...", help="these rows only")
    parser.add_argument(
        "--long",
        action="store_true",
        help=("also the rows that take many minutes (make bench-long)"),
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=60.0,
        help=("how long memory-growth looks at each kind of broker (default %(default)g)"),
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help=("of the blows of rto-kills-java, rto-pauses-java and rto-stock-java"),
    )
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and ledgers")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if options.list:
        print("\n".join(f"{row.name:20s} {row.meaning}" for row in ROWS))
        return 0
    take_own_ports()
    interruptible()
    try:
        rows = chosen(options.only, options.long)
        figures, seconds, failed = run(rows, options.keep, options.minutes, options.share)
    except Problem as problem:
        print(f"make bench: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    required_failed = any(row.required and row.name in failed for row in rows)
    code = EXIT_BROKEN if required_failed else exit_code(figures)
    if options.json:
        print(json.dumps(report.document(figures, machine(), seconds, code), indent=1))
    else:
        print(report.table(figures))
        print(f"\n{seconds:.0f} s on {machine()['cores']} cores")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
