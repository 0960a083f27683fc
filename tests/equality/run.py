"""The same question answered by all who can answer it: one answer (`make equality`).

A generated history goes into a real Kafka, a controller leads on it, the landing job lands it; then
everybody is asked: a fold of the log in memory, the running controller over its wire, `regent
state` and `regent history`, SQL without Spark, SQL by Spark, Spark's own fold (`regent verify`),
before the gold tables are made and after.

Responsible for: who is asked when, the table and the exit code. Refuses to know: the questions, and
how the parts come up.

    make equality                                       200,000 commands, 50 sets
    make equality ARGS="--commands 2000 --sets 8"       a small one
    make equality ARGS="--json --keep"

Exit codes: 0 all answers are equal; 1 they are not, or a part failed; 2 wrong usage; 130 it was
interrupted, nothing of it runs any more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from infra.cli.lake.spark import spark_for
from infra.problems import Problem
from lakehouse.errors import LakehouseError
from tests.bench.cluster import BenchFailed
from tests.equality.comparison import Comparison
from tests.equality.stage import NotAsItShouldBe, Sizes, Stage
from tests.support.controller_answers import ControllerAnswers
from tests.support.interruptible import interruptible
from tests.support.lake_questions import questions_about
from tests.support.table_answers import by_fold, by_proof, by_spark, by_sql
from tests.support.verb_answers import VerbAnswers, ask_verb

COMMANDS, SETS = 200_000, 50
COMMANDS_MIN = 500
EXIT_DIFFERENT, EXIT_INTERRUPTED = 1, 130
FAILURES = (
    NotAsItShouldBe,
    BenchFailed,
    LakehouseError,
    Problem,
    AssertionError,
    RuntimeError,
    OSError,
)
Say = Callable[[str], None]


def asked(stage: Stage, say: Say) -> Comparison:
    """Everybody, before gold is made and after."""
    lake, log = stage.lake, stage.log
    found = Comparison(questions_about(log), say)
    found.ask("fold", by_fold(log))
    found.ask("controller", ControllerAnswers(stage.controllers))
    found.ask("verbs", VerbAnswers(lake.root))
    found.ask("SQL before gold", by_sql(lake))
    say("Spark starts")
    with spark_for("equality") as spark:
        interruptible()  # Spark has set a handler of its own.
        found.ask("Spark before gold", by_spark(spark, lake))
        began = time.monotonic()
        made = ask_verb("lake", "gold", "--tables", lake.root)
        if made["commands"] != len(log.commands):
            raise NotAsItShouldBe(
                f"of {len(log.commands)} commands {made['commands']} were not in gold: nobody "
                "should have made it before"
            )
        say(
            f"gold made in {time.monotonic() - began:.1f} s: {made['commands']:,} commands, "
            f"{made['rows']:,} rows"
        )
        found.ask("SQL", by_sql(lake))
        found.ask("Spark", by_spark(spark, lake))
        found.ask("Spark's proof", by_proof(spark, lake))
    found.ask("controller again", ControllerAnswers(stage.controllers))
    stage.require_still()
    return found


def compared(sizes: Sizes, home: Path, say: Say) -> Comparison:
    """Everything that was started has ended when this returns."""
    with ExitStack() as held:
        return asked(Stage(home, sizes, held, say), say)


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make equality", description=("The same question, whoever is asked: one answer.")
    )
    parser.add_argument(
        "--commands",
        type=int,
        default=COMMANDS,
        help=("length of the history (default %(default)s)"),
    )
    parser.add_argument(
        "--sets", type=int, default=SETS, help=("broker sets in it (default %(default)s)")
    )
    parser.add_argument("--seed", type=int, default=1, help="another history of the same size")
    parser.add_argument("--json", action="store_true", help="one document instead of a table")
    parser.add_argument(
        "--keep", action="store_true", help=("leave the folder with the tables and logs")
    )
    flags = parser.parse_args(words)
    if flags.commands < COMMANDS_MIN or flags.sets < 1:
        parser.error(f"a history has {COMMANDS_MIN} commands and one set at least")
    return flags


def was_interrupted(error: BaseException | None) -> bool:
    """Whether an interruption led to it: what ends then may fail on the way."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def tell(found: Comparison, sizes: Sizes, seconds: float, as_json: bool) -> None:
    if as_json:
        facts = {
            "equal": found.is_equal,
            "commands": sizes.commands,
            "sets": sizes.sets,
            "seed": sizes.seed,
            "seconds": round(seconds, 1),
        }
        print(json.dumps({**facts, "why": found.why(), "questions": found.document()}, indent=1))
        return
    print("\n".join(found.lines()))
    verdict = "all answers are equal" if found.is_equal else "ANSWERS DIFFER"
    print(
        f"{verdict}: {len(found.compared)} questions, {sizes.commands:,} commands, {sizes.sets} "
        f"sets, {seconds:.0f} s"
    )


def main(words: Sequence[str] | None = None) -> int:
    flags = parsed(words)
    interruptible()
    sizes, began = Sizes(flags.commands, flags.sets, flags.seed), time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="regent-equality-"))

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    try:
        found = compared(sizes, home, say)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        if was_interrupted(error):
            return EXIT_INTERRUPTED
        if not isinstance(error, FAILURES):
            raise
        print(f"make equality: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_DIFFERENT
    finally:
        if flags.keep:
            say(f"kept: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    tell(found, sizes, time.monotonic() - began, flags.json)
    return 0 if found.is_equal else EXIT_DIFFERENT


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Threads of Kafka clients need not be waited for.
