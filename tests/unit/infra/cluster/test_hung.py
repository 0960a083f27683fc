"""Which processes are ended because they stand still."""

from types import SimpleNamespace

import pytest

from infra.cluster.child import CALM_AFTER_S
from infra.cluster.hung import OWN_GAP_S, PATIENCE_MAX, HungWatch

TURN_S = 0.02


class World:
    """A clock, two brokers, and what they send. `dead`: those that neither beat nor answer."""

    def __init__(self, watchdog_ms: int = 2_000) -> None:
        self.now = 50.0
        self.children = [self.child(1), self.child(2)]
        self.dead: set[int] = set()
        self.asked: list[int] = []
        self.sent: set[int] = set()
        self.watch = HungWatch(watchdog_ms, self, self.answers, lambda: self.now)

    def child(self, pid: int) -> SimpleNamespace:
        return SimpleNamespace(
            spec=pid,
            process=SimpleNamespace(pid=pid),
            state="ready",
            beat_at=None,
            patience=1,
            started_at=self.now,
        )

    def beaten(self) -> set[int]:
        sent, self.sent = self.sent, set()
        return sent

    def answers(self, pid: int) -> bool:
        self.asked.append(pid)
        self.now += 0.5 if pid in self.dead else 0.001
        return pid not in self.dead

    def run(self, seconds: float) -> list[tuple[int, float]]:
        """Pids that had to be ended, with the time."""
        ended, until = [], self.now + seconds
        while self.now < until:
            self.now += TURN_S
            self.sent |= {1, 2} - self.dead
            for one in self.watch.look(self.children):
                ended.append((one.process.pid, self.now))
                one.beat_at = None
        return ended


def test_one_that_stands_still_is_ended_when_its_time_is_over() -> None:
    world = World()
    assert world.run(10) == [] and world.asked == []
    world.dead, since = {2}, world.now
    ((pid, at),) = world.run(10)
    assert pid == 2 and 2.0 <= at - since < 2.2
    assert world.asked == [2]


def test_one_that_never_beat_or_is_not_watched_now_is_left_alone() -> None:
    world = World()
    world.dead = {1}
    assert world.run(10) == []
    world.dead = set()
    world.run(1)
    world.children[0].state, world.dead = "holding", {1}
    assert world.run(10) == []


def test_one_that_answers_but_does_not_beat_is_ended_too() -> None:
    world = World()
    world.run(1)
    world.dead, world.answers = {1}, lambda pid: True  # type: ignore[method-assign]
    world.watch._answers = lambda pid: True
    since = world.now
    ((pid, at),) = world.run(5)
    assert pid == 1 and at - since >= 2.0


def test_one_that_was_only_late_is_left_alone() -> None:
    world = World()
    world.run(1)
    world.dead = {1}
    assert world.run(1.4) == []
    world.dead = set()
    assert world.run(5) == []


@pytest.mark.parametrize("gap_s", [OWN_GAP_S + 1, 60])
def test_time_in_which_the_watch_itself_stood_still_counts_for_nobody(gap_s: float) -> None:
    world = World()
    world.run(5)
    world.now += gap_s
    for _ in range(5):
        world.now += TURN_S
        assert world.watch.look(world.children) == []
    assert world.run(5) == []


def test_one_that_hangs_again_soon_after_its_start_gets_longer() -> None:
    world, took = World(), []
    one = world.children[0]
    for _ in range(7):
        one.started_at, world.dead = world.now, set()
        world.run(1)
        world.dead, since = {1}, world.now
        ((_, at),) = world.run(60)
        took.append(round(at - since))
    assert took == [2, 4, 8, 16, 32, 32, 32]
    assert one.patience == PATIENCE_MAX
    one.started_at, world.dead = world.now, set()
    world.run(CALM_AFTER_S + 1)
    world.dead = {1}
    assert len(world.run(60)) == 1
    assert one.patience == 1


def test_without_a_limit_nobody_is_ended() -> None:
    world = World(watchdog_ms=0)
    world.run(1)
    world.dead = {1, 2}
    assert world.run(100) == [] and world.asked == []
