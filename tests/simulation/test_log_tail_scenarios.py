"""The command log loses its newest decisions: a member left the set, more was acknowledged without
it, and the log forgot (S11).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from infra.controllers.log_doubts import doubts_behind
from processors.controller import heartbeats
from processors.fold.folder import Folder
from tests.simulation.broker_node import BrokerNode
from tests.simulation.test_trust_scenarios import Schedule
from tests.simulation.world import InvariantBroken

pytestmark = pytest.mark.simulation


class LostLeaving(Schedule):
    """Three brokers; `slow` was cut off and left the set, and that decision is not in the log any
    more.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, brokers=3, acked=50)
        master, slow = self.master(), self.others()[-1]
        self.slow = slow
        self.heal: Callable[[], None] = self.cluster.network.cut(
            [(master.name, slow.name), (slow.name, master.name)]
        )
        end, core = self.cluster.journal.end_offset(), master.core
        assert core is not None
        self.run(20_000, lambda: slow.broker_id not in core.sync_state_set)
        acked = len(self.checkers.acked)
        self.run(2_000)
        assert slow.broker_id not in core.sync_state_set and len(self.checkers.acked) > acked + 20
        for controller in self.cluster.controllers:
            controller.stop()
            controller.forget_snapshots(end)
        assert self.cluster.journal.end_offset() > end
        self.cluster.journal.lose_from(end)
        self.checkers.log_was_cut(end, self.folded().state)

    def folded(self) -> Folder:
        """What is left of the log."""
        folder = Folder()
        for offset, data in enumerate(self.cluster.journal.records):
            folder.apply(offset, data)
        return folder

    def believe_the_log(self) -> None:
        """The master was told of a decision that is gone, so it waits for fewer than the log calls
        members.
        """
        self.checkers._awaited = lambda known: None  # type: ignore[method-assign]

    def controllers_start(self) -> None:
        for controller in self.cluster.controllers:
            controller.start()

    def doubt(self) -> None:
        """As an operator does with `regent controller rebuild`."""
        numbers = count(1 << 100)
        doubts = doubts_behind(
            self.folded(), lambda: next(numbers).to_bytes(16, "big"), self.world.wall_ms
        )
        self.cluster.journal.records += [record.value for record in doubts.records]

    def kill_members(self, back_after_ms: int = 3_000) -> list[BrokerNode]:
        members = [node for node in self.cluster.brokers if node is not self.slow]
        for node in members:
            node.stop()
            self.world.after(back_after_ms, node.start)
        return members

    def missing(self) -> list[tuple[str, int]]:
        nodes, acked = self.cluster.brokers, self.checkers.acked
        return [
            (node.name, one.offset)
            for node in nodes
            for one in acked
            if not self.checkers._holds(node, one)
        ]


def elections(play: Schedule) -> int:
    return play.world.counts["outcome.ElectMaster.accepted"]


@pytest.mark.parametrize("seed", [5, 6])
def test_controllers_whose_log_forgot_a_decision_stop_by_the_masters_word_before_they_elect(
    seed: int,
) -> None:
    play = LostLeaving(seed)
    before = elections(play)
    play.believe_the_log()
    play.controllers_start()
    with pytest.raises(
        InvariantBroken,
        match=(
            r"halts: .* SyncStateSet epoch .* the log lost its newest decisions; .*rebuild "
            r"--from-log"
        ),
    ):
        play.run(10_000)
    assert elections(play) == before and play.missing()


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_after_a_rebuild_the_stale_member_does_not_lead_and_nothing_is_at_risk(seed: int) -> None:
    play = LostLeaving(seed)
    play.doubt()
    play.controllers_start()
    play.run(500)
    play.kill_members()
    play.heal()
    play.run(40_000, lambda: play.is_whole() and not play.missing())
    assert play.is_whole() and not play.missing()
    assert play.master() is not play.slow and not play.world.counts["set.elected_at_risk"]


def test_a_doubted_set_is_whole_again_without_any_death() -> None:
    play = LostLeaving(8)
    play.doubt()
    play.controllers_start()
    play.heal()
    acked = len(play.checkers.acked)
    play.run(40_000, lambda: play.is_whole() and len(play.checkers.acked) > acked + 100)
    assert play.is_whole() and not play.missing() and not play.world.counts["set.elected_at_risk"]


def test_a_doubted_set_waits_for_who_may_hold_more() -> None:
    play = LostLeaving(9)
    play.doubt()
    play.controllers_start()
    play.kill_members(back_after_ms=60_000)
    play.heal()
    play.run(30_000)
    assert not any(node.core is not None and node.core.is_master for node in play.cluster.brokers)
    play.run(60_000, lambda: play.is_whole() and not play.missing())
    assert play.is_whole() and not play.missing() and not play.world.counts["set.elected_at_risk"]


def test_the_loss_is_seen_where_a_short_log_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "ahead_of", lambda broker_set, beat: None)
    play = LostLeaving(5)
    play.believe_the_log()
    play.controllers_start()
    play.run(3_000)
    play.kill_members()
    play.heal()
    with pytest.raises(
        InvariantBroken, match=("leads in epoch .* without the message|acknowledges|cuts to")
    ):
        play.run(30_000)
