"""What was once lost or stuck, each as one schedule on whole clusters: short, without chance but
for delays.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokers.ha.sync_set import SyncSet
from brokers.replica.admission import Admission
from brokers.replica.loss_watch import LossWatch
from brokers.store.recovery import boot
from processors.fold import decide_replicas, decide_sync_set, elect
from processors.fold.folder import Folder
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
        self.cluster = Cluster(self.world, Shape(controllers=2, brokers=brokers, clients=6))
        self.checkers = self.cluster.checkers
        self.run(20_000, lambda: self.is_whole() and len(self.checkers.acked) > acked)
        assert self.is_whole() and len(self.checkers.acked) > acked

    def run(self, for_ms: int, done: Callable[[], bool] = lambda: False) -> None:
        end_ms = self.world.now_ms + for_ms
        while (due := self.world.next_due_ms()) is not None and due <= end_ms and not done():
            self.world.step()
        if not done():
            self.world.now_ms = max(self.world.now_ms, end_ms)

    def master(self) -> BrokerNode:
        return next(
            node for node in self.cluster.brokers if node.core is not None and node.core.is_master
        )

    def others(self) -> list[BrokerNode]:
        return [node for node in self.cluster.brokers if node is not self.master()]

    def is_whole(self) -> bool:
        masters = [
            node.core
            for node in self.cluster.brokers
            if node.core is not None and node.core.is_master
        ]
        return any(len(core.sync_state_set) == len(self.cluster.brokers) for core in masters)

    def clean(self, node: BrokerNode) -> None:
        """An operator cleans a replica whose process lives."""
        request = ghost.clean(self.cluster.set_name, str(node.broker_id), living=True)
        place = self.cluster.node_at(self.cluster.controller_names[0])
        operator = Operator(self.cluster)
        operator.stopped = True

        def opened(end: End) -> None:
            Wire(self.world, end, lambda wire, request: None).call(
                request, 3_000, lambda answer: None
            )

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
    assert all(
        play.checkers._holds(node, message)
        for node in (master, other)
        for message in play.checkers.acked
    )


def test_a2_a_disk_of_which_only_the_identity_came_back_never_leads_over_the_others() -> None:
    play_a2()


def test_a2_is_seen_when_an_identity_without_its_marker_is_taken_for_a_first_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = boot.judge
    monkeypatch.setattr(
        boot, "judge", lambda marker, boot_id, has_data, traces: judge(marker, boot_id, has_data)
    )
    # what it showed before tells, too
    monkeypatch.setattr(decide_replicas, "_went_back", lambda *args: False)
    with pytest.raises(InvariantBroken, match=r"without the message at \d+, .*intact on b\d"):
        play_a2()


def left_for_a_loss(play: Schedule) -> int:
    return play.world.counts["left.LOSS_PROVEN"] + play.world.counts["left.UNCLEAN_START"]


def play_a3(*, heard: bool = True) -> Schedule:
    """A slave's disk goes back by a moment; its master is there. `heard` False: no controller knows
    what the slave told last.
    """
    play = Schedule(4, brokers=2, acked=100)
    (other,) = play.others()
    copy, acked = other.disk.copy(), len(play.checkers.acked)
    play.run(5_000, lambda: len(play.checkers.acked) > acked + 30)
    other.stop()
    copy.distrusted = True
    other.disk = copy
    play.checkers.forget_epochs(other.name)
    play.checkers.lost_by_accident(other)
    if not heard:
        for controller in play.cluster.controllers:
            controller.stop()
            controller.start()
        play.run(
            5_000,
            lambda: any(
                one.core is not None and one.core.is_active for one in play.cluster.controllers
            ),
        )
    other.start()
    play.run(10_000)
    return play


def test_a3_a_log_that_went_back_is_noticed_and_leaves_the_set() -> None:
    play = play_a3()
    assert left_for_a_loss(play) == 1
    assert play.is_whole()
    settled = [
        message for message in play.checkers.acked if message.at_ms < play.world.now_ms - 1_000
    ]
    assert all(
        play.checkers._holds(node, message) for node in play.cluster.brokers for message in settled
    )


def test_a3_where_controllers_forgot_what_they_heard_the_master_proves_it() -> None:
    play = play_a3(heard=False)
    assert play.world.counts["left.LOSS_PROVEN"] == 1


def test_a3_is_seen_where_neither_masters_nor_the_fold_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LossWatch, "claims", lambda *args: [])
    monkeypatch.setattr(decide_replicas, "_went_back", lambda *args: False)
    assert left_for_a_loss(play_a3()) == 0


def play_b3() -> bool:
    """Whether sends go on when a replica was cleaned, lives on, and a member dies."""
    play = Schedule(11, brokers=4, acked=50)
    cleaned, dead, _ = play.others()
    play.clean(cleaned)
    play.run(3_000)
    return goes_on_without(play, dead, 30_000)


def test_b3_a_replica_that_was_cleaned_and_lives_does_not_keep_a_dead_member_in_the_set() -> None:
    assert play_b3()


def test_b3_is_seen_where_strangers_link_and_refused_joiners_are_proposed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SyncSet, "_hold_back", lambda *args, **named: None)
    monkeypatch.setattr(Admission, "is_known", lambda *args: True)
    assert not play_b3()


def unheard(play: Schedule, node: BrokerNode) -> None:
    """The controllers do not hear it, nor it them; its master does."""
    names = play.cluster.controller_names
    play.cluster.network.cut(
        [pair for name in names for pair in ((node.name, name), (name, node.name))]
    )


def all_is_kept(play: Schedule) -> bool:
    """Whoever leads holds everything that was ever acknowledged."""
    return all(play.checkers._holds(play.master(), message) for message in play.checkers.acked)


def play_kill_then_power(play: Schedule) -> None:
    """The master is killed, the other one leads alone and loses its power; both come back."""
    master, (other,) = play.master(), play.others()
    master.stop()
    play.run(5_000, lambda: other.core is not None and other.core.is_master)
    other.lose_power()
    play.world.after(500, master.start)
    play.world.after(1_500, other.start)
    play.run(30_000, lambda: play.is_whole())


def play_power_then_kill(play: Schedule) -> None:
    """The slave's machine goes dark, which nobody hears yet; then the master is killed."""
    master, (other,) = play.master(), play.others()
    other.lose_power()
    play.run(300)
    master.stop()
    play.world.after(1_000, master.start)
    play.world.after(20_000, other.start)
    play.run(60_000, lambda: play.is_whole())


def play_the_only_member_is_gone(play: Schedule) -> None:
    """B1: who was elected alone never comes back; the killed master does."""
    master, (other,) = play.master(), play.others()
    master.stop()
    play.run(5_000, lambda: other.core is not None and other.core.is_master)
    other.stop(silent=True)
    master.start()
    play.run(60_000, lambda: master.core is not None and master.core.is_master)


@pytest.mark.parametrize(
    "blows", [play_kill_then_power, play_power_then_kill, play_the_only_member_is_gone]
)
def test_a1_b1_who_was_left_out_and_holds_everything_leads_again(
    blows: Callable[[Schedule], None],
) -> None:
    play = Schedule(5, brokers=2, acked=200)
    blows(play)
    assert play.master().core is not None
    assert all_is_kept(play)


def test_b1_is_seen_where_elections_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect, "_sound_remembered", lambda broker_set, candidates: [])
    play = Schedule(5, brokers=2, acked=200)
    play_the_only_member_is_gone(play)
    assert not [
        node for node in play.cluster.brokers if node.core is not None and node.core.is_master
    ]


def goes_on_without(play: Schedule, dead: BrokerNode, within_ms: int) -> bool:
    """Whether sends are acknowledged after `dead` has died."""
    acked = len(play.checkers.acked)
    dead.stop()
    play.run(within_ms, lambda: len(play.checkers.acked) > acked + 20)
    return len(play.checkers.acked) > acked + 20


def play_b2() -> bool:
    """Whether sends go on when a member that the controllers do not hear is left and the other one
    dies.
    """
    play = Schedule(7, brokers=3, acked=50)
    quiet, dead = play.others()
    unheard(play, quiet)
    play.run(15_000)
    return goes_on_without(play, dead, 15_000)


def test_b2_a_member_that_the_controllers_do_not_hear_blocks_no_change() -> None:
    assert play_b2()


def test_b2_is_seen_where_liveness_is_asked_of_members_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = decide_sync_set._unfit_member
    monkeypatch.setattr(
        decide_sync_set,
        "_unfit_member",
        lambda wanted, candidates, members_too: asked(wanted, candidates, members_too=True),
    )
    assert not play_b2()


def begin_again_without_a_log(play: Schedule) -> None:
    """New controllers, to which nobody has ever been a member: each replica is a new one to them,
    whatever lies on its disk.
    """
    for node in play.cluster.brokers:
        node.stop_in_order()
        node.disk.identity = None
        play.checkers.forget_epochs(node.name)
    for controller in play.cluster.controllers:
        controller.stop()
        controller.forget_snapshots(0)
    play.cluster.journal.lose_from(0)
    play.checkers.log_was_cut(0, Folder().state)
    play.checkers.ids_end = 0
    for controller in play.cluster.controllers:
        controller.start()
    play.run(3_000)


def are_registered(play: Schedule, nodes: list[BrokerNode]) -> bool:
    """Whether the log says so of what these processes are."""
    newest = max(play.cluster.controllers, key=lambda node: node.folder.offset)
    known = newest.folder.state.sets.get(play.cluster.set_name)
    there = (
        set() if known is None else {one.incarnation for one in known.replicas if one.is_registered}
    )
    return {node.incarnation for node in nodes} <= there


def play_c7() -> None:
    """Whoever has everything is registered and does not ask yet, and an empty replica asks for the
    first election.
    """
    play = Schedule(5, brokers=3, acked=50)
    empty = play.others()[0]
    full = [node for node in play.cluster.brokers if node is not empty]
    begin_again_without_a_log(play)
    empty.disk.wipe()
    play.checkers.lost_by_accident(empty)
    for node in full:
        node.start()
        play.run(5_000, lambda node=node: are_registered(play, [node]))  # type: ignore[misc]
        node.paused = True
        play.world.after(1_500, lambda node=node: setattr(node, "paused", False))  # type: ignore[misc]
    empty.start()
    play.run(20_000, play.is_whole)
    assert play.is_whole() and all_is_kept(play)


def test_c7_a_first_election_takes_the_longest_log_of_those_that_report() -> None:
    play_c7()


def test_c7_is_seen_when_whoever_asks_first_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    first = elect._elect_first
    monkeypatch.setattr(
        elect,
        "_elect_first",
        lambda candidates, broker_id, *, longest: first(candidates, broker_id, longest=False),
    )
    with pytest.raises(InvariantBroken, match=r"without the message at \d+"):
        play_c7()
