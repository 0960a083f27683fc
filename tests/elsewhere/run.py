"""The landing job on a Spark cluster and on an object store, both real and on loopback (`make
elsewhere`).

Responsible for: which places are tried, the table at the end and the exit code. Refuses to know:
what is done there.

    make elsewhere                         all
    make elsewhere ARGS=--list             what there is
    make elsewhere ARGS=s3                 this one only

Exit codes: 0 all as it should be; 1 something was not, or a step failed; 2 wrong usage; 130
interrupted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from infra.cli.main import EXIT_INTERRUPTED
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.interop.run import broken, show
from tests.interop.stage import Row, Stage
from tests.support.interruptible import interruptible

Play = Callable[[Stage], list[Row]]

LINES = {
    "standalone": (
        "Spark's standalone master and workers: landed, asked and proven there, one worker killed "
        "in between"
    ),
    "s3": (
        "a store that speaks S3: landed through Spark over a kill of the job, read without Spark, "
        "cared for, proven"
    ),
    "locked": (
        "a bucket with object lock: anchors that can neither be removed nor changed, and a lake "
        "held against them"
    ),
}


def played(name: str, play: Play, stage: Stage) -> list[Row]:
    """What was seen at one place; whatever breaks it becomes a row."""
    print(f"{name}: {LINES.get(name, name)}", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        rows = play(stage)
    except Exception as error:
        rows = [broken(error)]
    for row in rows:
        stage.say(f"{'ok' if row.ok else 'NOT OK'} {row.what}: {row.result}")
    stage.say(
        f"{name}: {'ok' if all(row.ok for row in rows) else 'NOT OK'} after "
        f"{time.monotonic() - began:.0f} s"
    )
    return rows


def run(names: Sequence[str], plays: Mapping[str, Play], stage: Stage) -> int:
    """Try them one after the other and print what came out; the exit code."""
    results = {name: played(name, plays[name], stage) for name in names or plays}
    good = all(row.ok for rows in results.values() for row in rows)
    show(results, [])
    print(f"\n{'all as it should be' if good else 'NOT EVERYTHING IS AS IT SHOULD BE'}", flush=True)
    return EXIT_DONE if good else EXIT_FAILED


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make elsewhere",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("place", nargs="*", help="try these only (default: all)")
    parser.add_argument("--list", action="store_true", help="list the places")
    parser.add_argument("--keep", action="store_true", help="keep the run's folder (tables, logs)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:<12} {line}" for name, line in LINES.items()))
        return EXIT_DONE
    unknown = [name for name in options.place if name not in LINES]
    if unknown:
        print(f"elsewhere: no place {unknown[0]}; there are: {', '.join(LINES)}", file=sys.stderr)
        return EXIT_USAGE
    return _tried(options.place, options.keep)


def _tried(names: Sequence[str], keep: bool) -> int:
    from tests.elsewhere import places

    interruptible()
    work = Path(tempfile.mkdtemp(prefix="regent-elsewhere-"))
    try:
        return run(names, {name: getattr(places, name) for name in LINES}, Stage(work))
    except KeyboardInterrupt:
        print("elsewhere: interrupted, everything that was started has ended", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        if keep:
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
