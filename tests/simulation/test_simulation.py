"""Whole clusters under one seed each: as many as fit the budget, and the proof that a seed says
all.

REGENT_SIMULATION_BUDGET_S: seconds for the series (default 150); REGENT_SIMULATION_FROM: its first
seed (default: by chance, printed). A failing seed replays alone: `make simulate SEEDS=1
FROM=<seed>`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.coverage import NOT_PRODUCED, everything, missing, required
from tests.simulation.judged import judged
from tests.simulation.run import SERIES, run_world
from tests.simulation.seeds import Report
from tests.simulation.world import World

BUDGET_S = float(os.environ.get("REGENT_SIMULATION_BUDGET_S", "150"))
WORLDS = 80
KNOWN_SEEDS = (2, 7)
SHORT_MS = 6_000
ROOT = Path(__file__).resolve().parents[2]
ONE_HASH = (
    "from tests.simulation.run import run_world; from tests.simulation.world import World\n"
    "print(run_world(World({seed}), faulty_ms={faulty_ms}).trace_hash)"
)

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(BUDGET_S * 2 + 300)]


@pytest.fixture(scope="module")
def series(request: pytest.FixtureRequest) -> Report:
    """All worlds that fit the budget, from one first seed."""
    return judged(request, "simulation", SERIES, BUDGET_S, WORLDS)


def test_every_promise_holds_in_every_world(series: Report) -> None:
    assert series.failed_seed is None, f"make simulate SEEDS=1 FROM={series.failed_seed}"
    assert series.counts["seeds"] > 0
    assert series.counts["message.acknowledged"] > 0


def test_everything_that_can_happen_did_happen(series: Report) -> None:
    assert series.failed_seed is None, "the series ended early"
    unseen = missing(series.counts)
    assert not unseen, f"never seen in {series.counts['seeds']} worlds: {', '.join(unseen)}"


def test_what_was_never_seen_is_named_and_every_exception_is_still_one() -> None:
    assert missing({}) == required()
    assert missing(dict.fromkeys(required(), 1)) == []
    assert set(NOT_PRODUCED) <= set(everything()), "an exception for something that does not exist"
    assert all(NOT_PRODUCED.values()), "an exception without a reason"


@pytest.mark.parametrize("seed", KNOWN_SEEDS)
def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    once, again = (run_world(World(seed), faulty_ms=SHORT_MS) for _ in range(2))
    assert once.trace_hash == again.trace_hash
    assert once.steps == again.steps > 1_000


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_the_run_does_not_depend_on_the_hash_seed_of_python(hash_seed: str) -> None:
    seed = KNOWN_SEEDS[0]
    there = subprocess.run(
        [sys.executable, "-c", ONE_HASH.format(seed=seed, faulty_ms=SHORT_MS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == run_world(World(seed), faulty_ms=SHORT_MS).trace_hash


def test_other_seeds_give_other_runs() -> None:
    assert len(
        {run_world(World(seed), faulty_ms=SHORT_MS).trace_hash for seed in KNOWN_SEEDS}
    ) == len(KNOWN_SEEDS)
