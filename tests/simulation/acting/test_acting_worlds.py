"""Worlds of a set without a controller: whatever happens, the promises hold."""

from __future__ import annotations

import pytest

from tests.simulation.acting.returns import PLAYS, played
from tests.simulation.acting.world import World

SEEDS = range(12)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", SEEDS)
def test_a_world(seed: int) -> None:
    World(seed).run()


@pytest.mark.simulation
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", PLAYS)
def test_who_comes_back_delivers_nothing_again(name: str, seed: int) -> None:
    played(seed, PLAYS[name])
