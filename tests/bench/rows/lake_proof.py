"""The proof over long histories, and questions to them: `verify` from the start, its slope, and
`explain` of one election.

Tables are written without Kafka, with the states that a gold job leaves. The proof is what `regent
verify` does: a process for each core, their start within the time. Its peer is the fold of the same
bytes in memory on one core, which reads no table and compares nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

from lakehouse.proof.verify import Scope, verify_beside
from lakehouse.tables.lake import lake_at
from tests.bench import laid_lake
from tests.bench.apart import apart
from tests.bench.cluster import ROOT, BenchFailed
from tests.bench.figure import Figure, at_most
from tests.bench.laid_lake import CLUSTER_ID, Laid
from tests.bench.run_context import Bench
from tests.bench.samples import median

SHORT, LONG, LONGEST = 100_000, 1_000_000, 10_000_000
ASKED = ("explain", "broker-007", "3")
TIMES = 5


def prove(laid: Laid) -> float:
    """Seconds to fold and compare all of it from the start, on every core. RuntimeError when it is
    not proven.
    """
    began = time.perf_counter()
    lake, scope = lake_at(laid.root, CLUSTER_ID), Scope(from_start=True)
    verdict = verify_beside(lake, scope, len(os.sched_getaffinity(0)))
    took_s = time.perf_counter() - began
    if verdict.exit_code:
        raise RuntimeError(verdict.text())
    return took_s


def measure(bench: Bench) -> list[Figure]:
    """0.1 M and 1 M commands."""
    return _two(bench, SHORT, LONG)


def measure_long(bench: Bench) -> list[Figure]:
    """1 M and 10 M commands."""
    return _two(bench, LONG, LONGEST)


def measure_question(bench: Bench) -> list[Figure]:
    """One election of a history of 1 M commands explained, of tables as they landed and after a
    round of care.
    """
    bench.quiet()
    bench.say(f"laying down {LONG:,} commands and their outcomes, in silver too")
    laid = apart(laid_lake.lay, bench.folder("explain") / "tables", LONG, True)
    landed = _asked(bench, laid, "as it landed")
    bench.say("one round of care")
    _regent("lake", "maintain", "--tables", laid.root)
    return [landed, _asked(bench, laid, "cared for")]


def _two(bench: Bench, first: int, second: int) -> list[Figure]:
    bench.quiet()
    short, long = _proven(bench, first), _proven(bench, second)
    return [
        short,
        replace(
            long,
            note=(
                f"{long.note}; {(long.value or 0) / (short.value or 1):.2f} times the rate of the "
                "shorter history"
            ),
        ),
    ]


def _proven(bench: Bench, commands: int) -> Figure:
    home = bench.folder(f"proof-{commands}")
    bench.say(f"laying down {commands:,} commands and their outcomes")
    laid = apart(laid_lake.lay, home / "tables", commands, False, True)
    bench.say("they are proven")
    rate = commands / apart(prove, laid)
    note = (
        "a first proof, all of history from bronze, in ranges from the states that a gold job "
        "leaves, every digest and outcome compared, every byte named, invariants asked, the "
        "processes' start included; the peer folds the bytes in bulk on one core"
    )
    return Figure(
        "verify",
        f"verify, {_name(commands)}",
        "commands/s",
        rate,
        "fold in memory",
        commands / laid.fold_s,
        note=note,
    )


def _name(commands: int) -> str:
    return f"{commands / 1_000_000:g} M commands"


def _asked(bench: Bench, laid: Laid, state: str) -> Figure:
    bench.say(f"regent {' '.join(ASKED)}, {TIMES} times, {state}")
    times = [_regent(*ASKED, "--tables", laid.root) for _ in range(TIMES)]
    note = (
        f"the whole command, process start included, median of {TIMES}, {_name(laid.commands)} of "
        f"{laid_lake.SETS} sets, {state}"
    )
    title = f"regent explain of one election, {_name(laid.commands)}, {state}"
    return Figure("explain", title, "s", median(times), goal=at_most(1.0), note=note, samples=times)


def _regent(*words: str) -> float:
    """Seconds that a verb takes. Raises `BenchFailed` with what it said."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "infra", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchFailed(f"{' '.join(words)}: {done.stderr.strip()}")
    return round(time.perf_counter() - began, 3)
