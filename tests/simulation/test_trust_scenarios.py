"""What was once lost or stuck, each as one schedule on whole clusters: short, without chance but for delays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokers import boot
from tests.simulation import ghost
from tests.simulation.broker_node import BrokerNode
from tests.simulation.cluster import Cluster, Shape
from tests.simulation.network import End
from tests.simulation.odd_requests import Operator
from tests.simulation.wire import Wire
from tests.simulation.world import InvariantBroken, World

pytestmark = pytest.mark.simulation


class Schedule:
    """A cluster whose set is whole and has acknowledged something."""

    def __init__(self, seed: int, brokers: int, acked: int) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, Shape(controllers=2, brokers=brokers, clients=6, strict=True))
        self.checkers = self.cluster.checkers
        self.run(20_000, lambda: self._is_whole() and len(self.checkers.acked) > acked)
        assert self._is_whole() and len(self.checkers.acked) > acked

    def run(self, for_ms: int, done: Callable[[], bool] = lambda: False) -> None:
        end_ms = self.world.now_ms + for_ms
        while (due := self.world.next_due_ms()) is not None and due <= end_ms and not done():
            self.world.step()
        if not done():
            self.world.now_ms = max(self.world.now_ms, end_ms)

    def master(self) -> BrokerNode:
        return next(node for node in self.cluster.brokers if node.core is not None and node.core.is_master)

    def others(self) -> list[BrokerNode]:
        return [node for node in self.cluster.brokers if node is not self.master()]

    def _is_whole(self) -> bool:
        masters = [node.core for node in self.cluster.brokers if node.core is not None and node.core.is_master]
        return any(len(core.sync_state_set) == len(self.cluster.brokers) for core in masters)

    def clean(self, node: BrokerNode) -> None:
        """An operator cleans a replica whose process lives."""
        request = ghost.clean(self.cluster.set_name, str(node.broker_id), living=True)
        place = self.cluster.node_at(self.cluster.controller_names[0])
        operator = Operator(self.cluster)
        operator.stopped = True

        def opened(end: End) -> None:
            Wire(self.world, end, lambda wire, request: None).call(request, 3_000, lambda answer: None)

        self.cluster.network.connect(operator, place, place.accept, opened, lambda why: None)


def play_a2() -> None:
    play = Schedule(3, brokers=2, acked=300)
    master, (other,) = play.master(), play.others()
    other.stop()
    play.run(200)
    other.disk.wipe(keep_identity=True)
    play.checkers.forget_epochs(other.name)
    play.checkers.lost_by_accident(other)
    play.run(3_000)
    other.start()
    play.run(5_000, lambda: other.core is not None and other.core.role.value == "SLAVE")
    master.stop()
    play.world.after(1_000, master.start)
    play.run(20_000)
    assert all(play.checkers._holds(node, message) for node in (master, other) for message in play.checkers.acked)


def test_a2_a_disk_of_which_only_the_identity_came_back_never_leads_over_the_others() -> None:
    play_a2()


def test_a2_is_seen_when_an_identity_without_its_marker_is_taken_for_a_first_start(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = boot.judge
    monkeypatch.setattr(boot, "judge", lambda marker, boot_id, has_data, traces: judge(marker, boot_id, has_data))
    with pytest.raises(InvariantBroken, match=r"without the message at \d+, .*intact on b\d"):
        play_a2()


def test_b3_a_replica_that_was_cleaned_and_lives_does_not_keep_a_dead_member_in_the_set() -> None:
    play = Schedule(11, brokers=4, acked=50)
    cleaned, dead, _ = play.others()
    play.clean(cleaned)
    play.run(3_000)
    acked = len(play.checkers.acked)
    dead.stop()
    play.run(30_000, lambda: len(play.checkers.acked) > acked + 20)
    assert len(play.checkers.acked) > acked + 20
