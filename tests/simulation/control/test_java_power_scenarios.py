"""A Java member that lost its power, as one schedule on a set of two: it registers as ever, and its
heartbeats show less.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from processors.controller import heartbeats
from processors.fold.state import BrokerSet
from processors.liveness import replicas
from tests.simulation.control.brokers import BrokerNode
from tests.simulation.control.history import end_of, up_to
from tests.simulation.control.realm import Realm, Shape
from tests.simulation.world import InvariantBroken, World

pytestmark = pytest.mark.simulation

SEEDS = (1, 2, 3)
WRITTEN = 200


class JavaSet:
    """A set of two Java brokers of which decisions have shown what both hold."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.realm = Realm(self.world, Shape(sets=1, java_sets=1, replicas=2))
        self.set = self.realm.sets[0]
        self.run(40_000, lambda: self.is_whole() and end_of(self.master().history) > WRITTEN)
        slave = self.slave()
        slave.stop()
        self.run(4_000)  # it leaves the set: what comes back is asked what it holds
        slave.start()
        self.run(20_000, lambda: self.is_whole() and len(self.known().positions) > 1)
        self.run(4_000)
        assert self.is_whole()

    def run(self, for_ms: int, done: Callable[[], bool] = lambda: False) -> None:
        end_ms = self.world.now_ms + for_ms
        while (due := self.world.next_due_ms()) is not None and due <= end_ms and not done():
            self.world.step()

    def known(self) -> BrokerSet:
        return self.realm.newest_state().sets[self.set.name]

    def master(self) -> BrokerNode:
        return next(one for one in self.set.brokers if one.mastership is not None)

    def slave(self) -> BrokerNode:
        return next(one for one in self.set.brokers if one.mastership is None)

    def is_whole(self) -> bool:
        return self.set.is_whole() and any(one.mastership is not None for one in self.set.brokers)


def play_a4(seed: int) -> None:
    """The slave loses its power and half of what it had, and the master dies with it; only the
    slave comes back at first.
    """
    play = JavaSet(seed)
    slave, master = play.slave(), play.master()
    slave.stop()
    slave.history, slave.unclean = up_to(slave.history, end_of(slave.history) // 2), True
    master.stop()
    slave.start()
    play.run(15_000)
    assert play.known().unclean_members == (slave.broker_id,)
    assert slave.mastership is None
    master.start()
    play.run(30_000, play.is_whole)
    assert play.is_whole()
    assert [play.set.intact.lacks(one) for one in play.set.brokers] == [None, None]


@pytest.mark.parametrize("seed", SEEDS)
def test_a4_a_java_member_that_lost_its_power_waits_for_who_holds_everything(seed: int) -> None:
    play_a4(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a4_is_seen_where_heartbeats_of_java_members_are_not_compared(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "shows_less", lambda *args: None)
    monkeypatch.setattr(replicas, "expected_of", lambda *args: None)
    with pytest.raises(InvariantBroken, match="leads in epoch . and lacks epoch"):
        play_a4(seed)
