"""Worlds of a set without a controller: whatever happens, the promises hold; as many as fit the
budget, and the proof that a seed says all.

REGENT_ACTING_BUDGET_S: seconds for the series (default 10); REGENT_SIMULATION_FROM: its first seed
(default: by chance, printed). A failing seed replays alone: `make simulate WORLDS=acting SEEDS=1
FROM=<seed>`.
"""

from __future__ import annotations

import os

import pytest

from brokers.acting.lock_quorum import VOTE_WAIT_MS
from brokers.acting.pre_online import TOLD_AGAIN_MS
from brokers.service.clients.queue_locks import LOCK_EXPIRES_MS, Queue
from tests.simulation.acting.coverage import missing, required
from tests.simulation.acting.returns import PLAYS, played
from tests.simulation.acting.run import SERIES, run_world
from tests.simulation.acting.world import MOMENTS_MS, QUEUE, World
from tests.simulation.judged import judged
from tests.simulation.seeds import Report
from tests.simulation.world import World as Seeded

BEHIND_EACH_OTHER = [(seed, True) for seed in range(36, 60)] + [(seed, False) for seed in range(8)]
BUDGET_S = float(os.environ.get("REGENT_ACTING_BUDGET_S", "10"))
WORLDS = 40

pytestmark = pytest.mark.timeout(BUDGET_S * 2 + 300)


@pytest.fixture(scope="module")
def series(request: pytest.FixtureRequest) -> Report:
    """All worlds that fit the budget, from one first seed."""
    return judged(request, "acting", SERIES, BUDGET_S, WORLDS)


@pytest.mark.simulation
def test_every_promise_holds_in_every_set_without_a_controller(series: Report) -> None:
    assert series.failed_seed is None, (
        f"make simulate WORLDS=acting SEEDS=1 FROM={series.failed_seed}"
    )
    assert series.counts["world.settled"] > 0


@pytest.mark.simulation
def test_everything_that_can_happen_to_such_a_set_did_happen(series: Report) -> None:
    assert series.failed_seed is None, "the series ended early"
    unseen = missing(series.counts)
    assert not unseen, f"never seen in {series.counts['seeds']} worlds: {', '.join(unseen)}"


def test_what_was_never_seen_is_named() -> None:
    assert missing({}) == required()
    assert missing(dict.fromkeys(required(), 1)) == []


@pytest.mark.simulation
def test_the_same_seed_gives_the_same_world() -> None:
    once, again = run_world(Seeded(7)), run_world(Seeded(7))
    assert once.trace_hash == again.trace_hash and once.steps == again.steps > 0


@pytest.mark.simulation
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", PLAYS)
def test_who_comes_back_delivers_nothing_again(name: str, seed: int) -> None:
    played(seed, PLAYS[name])


@pytest.mark.simulation
def test_who_acts_for_a_master_that_delivers_stops_when_it_hears_of_it() -> None:
    """Name servers disagree, and the link between both is cut as well, for a while."""
    world = World(5)
    for one in world.brokers:
        one.start()
    world.spend(20_000)
    master, *slaves = world.brokers
    first, second = world.name_servers
    world.net.cuts.add(frozenset((master.name, second.name)))
    world.net.cuts |= {frozenset((one.name, first.name)) for one in slaves}
    apart = {frozenset((master.name, one.name)) for one in slaves}
    world.net.cuts |= apart
    world.spend(40_000)
    assert [one.delivers for one in world.brokers] == [True, True, False], "as PROTOCOL 7.2 says"
    world.net.cuts -= apart
    world.spend(10_000)
    assert [one.delivers for one in world.brokers] == [True, False, False]
    world.spend(60_000)
    assert [one.delivers for one in world.brokers] == [True, False, False]


@pytest.mark.simulation
@pytest.mark.parametrize(("seed", "one_host"), BEHIND_EACH_OTHER)
def test_a_master_that_starts_again_at_once_is_back_soon(seed: int, one_host: bool) -> None:
    """Some of its slaves hear that it is gone when it has told them already that it is back; on
    one host the link of another one is taken for theirs.
    """
    world = World(seed, one_host=one_host)
    for one in world.brokers:  # they ask name servers at different moments
        one.start()
        world.spend(100 * world.net.chance.randint(0, 9))
    world.spend(20_000)
    master = world.brokers[0]
    master.stop()
    world.spend(100 * world.net.chance.randint(0, 20))
    master.start()
    world.spend(2 * TOLD_AGAIN_MS + MOMENTS_MS)
    assert not master.core.isolated, master.core.waits_for


@pytest.mark.simulation
def test_a_master_that_is_back_gives_new_locks_soon() -> None:
    """It may have forgotten old ones, and does without its own vote."""
    world = World(1)
    world.clients = []
    for one in world.brokers:
        one.start()
    world.spend(20_000)
    master = world.brokers[0]
    master.stop()
    world.spend(3_000)
    master.start()
    world.spend(LOCK_EXPIRES_MS // 2)
    assert not master.core.isolated
    held: list[tuple[Queue, ...]] = []
    master.lock("c1", QUEUE, held.append)
    world.spend(VOTE_WAIT_MS)
    assert held == [(QUEUE,)]
