"""Sets of stores under one seed each: as many as fit the budget, and the proof that a seed says
all.

REGENT_STORE_BUDGET_S: seconds for the series (default 20); REGENT_SIMULATION_FROM: its first seed
(default: by chance, printed). A failing seed replays alone: `make simulate WORLDS=store SEEDS=1
FROM=<seed>`.
"""

from __future__ import annotations

import os
from random import SystemRandom

import pytest

from tests.simulation.seeds import Report
from tests.simulation.store.coverage import missing, required
from tests.simulation.store.run import SERIES, run_world
from tests.simulation.test_simulation import say
from tests.simulation.world import World

BUDGET_S = float(os.environ.get("REGENT_STORE_BUDGET_S", "20"))
FROM = os.environ.get("REGENT_SIMULATION_FROM")
SEEDS_MAX = 1_000_000_000
KNOWN_SEED = 3

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(BUDGET_S * 2 + 300)]


@pytest.fixture(scope="module")
def series(request: pytest.FixtureRequest) -> Report:
    """All worlds that fit the budget, from one first seed."""
    first = int(FROM) if FROM else SystemRandom().randrange(SEEDS_MAX)
    say(request, f"store: seeds from {first}, {BUDGET_S:.0f} s")
    report = SERIES.run(first, None, BUDGET_S, lambda line: say(request, line), until_covered=True)
    say(request, report.line())
    return report


def test_every_promise_holds_in_every_set_of_stores(series: Report) -> None:
    assert series.failed_seed is None, (
        f"make simulate WORLDS=store SEEDS=1 FROM={series.failed_seed}"
    )
    assert series.counts["acknowledged"] > 0 and series.counts["read"] > 0


def test_everything_that_can_happen_to_a_store_did_happen(series: Report) -> None:
    assert series.failed_seed is None, "the series ended early"
    unseen = missing(series.counts)
    assert not unseen, f"never seen in {series.counts['seeds']} worlds: {', '.join(unseen)}"


def test_what_was_never_seen_is_named() -> None:
    assert missing({}) == required()
    assert missing(dict.fromkeys(required(), 1)) == []


def test_the_same_seed_gives_the_same_stores() -> None:
    once, again = (run_world(World(KNOWN_SEED)) for _ in range(2))
    assert once.trace_hash == again.trace_hash
    assert once.steps == again.steps > 0
