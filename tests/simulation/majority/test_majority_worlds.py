"""Groups that replicate by majority under one seed each: as many as fit the budget, and the proof
that a seed says all.

REGENT_MAJORITY_BUDGET_S: seconds for the series (default 20); REGENT_SIMULATION_FROM: its first
seed (default: by chance, printed). A failing seed replays alone: `make simulate WORLDS=majority
SEEDS=1 FROM=<seed>`.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.judged import judged
from tests.simulation.majority.coverage import missing, required
from tests.simulation.majority.run import SERIES, run_world
from tests.simulation.seeds import Report
from tests.simulation.world import World

BUDGET_S = float(os.environ.get("REGENT_MAJORITY_BUDGET_S", "20"))
WORLDS = 80
KNOWN_SEED = 3

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(BUDGET_S * 2 + 300)]


@pytest.fixture(scope="module")
def series(request: pytest.FixtureRequest) -> Report:
    """All worlds that fit the budget, from one first seed."""
    return judged(request, "majority", SERIES, BUDGET_S, WORLDS)


def test_every_promise_holds_in_every_group(series: Report) -> None:
    assert series.failed_seed is None, (
        f"make simulate WORLDS=majority SEEDS=1 FROM={series.failed_seed}"
    )
    assert series.counts["acknowledged"] > 0


def test_everything_that_can_happen_to_a_group_did_happen(series: Report) -> None:
    assert series.failed_seed is None, "the series ended early"
    unseen = missing(series.counts)
    assert not unseen, f"never seen in {series.counts['seeds']} worlds: {', '.join(unseen)}"


def test_what_was_never_seen_is_named() -> None:
    assert missing({}) == required()
    assert missing(dict.fromkeys(required(), 1)) == []


def test_the_same_seed_gives_the_same_group() -> None:
    once, again = (run_world(World(KNOWN_SEED)) for _ in range(2))
    assert once.trace_hash == again.trace_hash
    assert once.steps == again.steps > 0
