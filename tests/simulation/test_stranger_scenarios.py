"""Packets of somebody who belongs to no set, on whole clusters: they depose, promote and fence
nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from brokers.membership import controller_messages
from brokers.remoting.command import RemotingCommand
from processors.controller import heartbeats
from processors.controller.codes import CheckCodes
from processors.fold import decide_elect, decide_replicas, decide_sync_set
from processors.fold.state import EPOCH_MAX, EPOCH_REACH
from processors.liveness.pulses import NOTICE_TOKEN
from tests.simulation import ghost
from tests.simulation.broker_node import BrokerNode
from tests.simulation.controller_node import ControllerNode
from tests.simulation.network import End
from tests.simulation.odd_requests import Operator
from tests.simulation.test_trust_scenarios import Schedule
from tests.simulation.wire import Wire
from tests.simulation.world import InvariantBroken

pytestmark = pytest.mark.simulation

FAR = EPOCH_MAX - 1
Packet = Callable[[BrokerNode], RemotingCommand]


class Stranger:
    """Sends what it likes to whom it likes."""

    def __init__(self, play: Schedule) -> None:
        self._play, self._self = play, Operator(play.cluster)
        self._self.stopped = True
        self.answers: list[int] = []

    def tell(self, place: BrokerNode | ControllerNode, request: RemotingCommand) -> None:
        def answered(answer: RemotingCommand | None) -> None:
            self.answers += [] if answer is None else [answer.code]

        def opened(end: End) -> None:
            wire = Wire(self._play.world, end, lambda wire, request: None)
            wire.send(request) if request.is_oneway else wire.call(request, 3_000, answered)

        self._play.cluster.network.connect(
            self._self, place, place.accept, opened, lambda why: None
        )


def notice(play: Schedule, of: BrokerNode, epoch: int) -> RemotingCommand:
    ext = {
        "masterBrokerId": str(of.broker_id),
        "masterAddress": of.address,
        "regentMasterHaAddress": of.ha_address,
        "masterEpoch": str(epoch),
        "syncStateSetEpoch": "999",
        "regentSyncStateSet": str(of.broker_id),
    }
    return RemotingCommand.request(1008, ext, oneway=True)


def roles(play: Schedule) -> list[tuple[object, ...]]:
    cores = [node.core for node in play.cluster.brokers]
    return [
        (core.role, core.master_epoch, core.master_id, core.log.epoch_seen)
        for core in cores
        if core is not None
    ]


def play_notices(above: int) -> None:
    """A slave is told that it leads, and the master that the slave does."""
    play = Schedule(5, brokers=3, acked=100)
    stranger, before, master = Stranger(play), roles(play), play.master()
    other, _ = play.others()
    for number in range(10):
        told = notice(play, other, master.core.master_epoch + above)
        play.world.after(
            100 * number,
            lambda told=told: [stranger.tell(node, told) for node in play.cluster.brokers],
        )  # type: ignore[misc]
    acked = len(play.checkers.acked)
    play.run(5_000)
    assert roles(play) == before and len(play.checkers.acked) > acked


@pytest.mark.parametrize("above", [1, 1_001, 2**31 - 100])
def test_a_notice_that_no_controller_sent_changes_no_role_and_no_epoch(above: int) -> None:
    play_notices(above)


def test_it_is_seen_when_any_notice_counts_as_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_messages, "is_from_controller", lambda message, me: True)
    with pytest.raises((AssertionError, InvariantBroken)):
        play_notices(1)


def play_packets() -> None:
    """Five seconds of heartbeats, registrations and set changes in the master's name, to every
    controller.
    """
    play = Schedule(6, brokers=3, acked=100)
    stranger, before, master = Stranger(play), roles(play), play.master()
    name, broker_id, members = play.cluster.set_name, master.broker_id, master.core.sync_state_set
    for number in range(50):
        for controller in play.cluster.controllers:
            for request in (
                ghost.beat(name, broker_id, "another"),
                ghost.beat(name, broker_id, master.incarnation),
                ghost.register(name, broker_id, master.address, regentHaAddress=master.ha_address),
                ghost.register(
                    name,
                    broker_id,
                    master.address,
                    regentHaAddress=master.ha_address,
                    regentClean="false",
                ),
                ghost.alter(
                    name, broker_id, master.core.master_epoch, master.core.set_epoch, [broker_id]
                ),
            ):
                play.world.after(
                    100 * number,
                    lambda place=controller, packet=request: stranger.tell(place, packet),
                )  # type: ignore[misc]
    play.run(8_000)
    assert (
        roles(play) == before and play.master() is master and master.core.sync_state_set == members
    )
    assert 1 in stranger.answers


def test_five_seconds_of_packets_in_the_masters_name_change_no_epoch_and_no_set() -> None:
    play_packets()


def test_it_is_seen_when_no_check_code_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckCodes, "doubt", lambda *_: None)
    with pytest.raises((AssertionError, InvariantBroken)):
        play_packets()


def far_heartbeat(node: BrokerNode) -> RemotingCommand:
    """What a replica of ours would send whose epoch file is damaged, or whoever knows its check
    code.
    """
    return controller_messages.heartbeat(
        node.membership.me, node.broker_id, far_above(node), 4_000, node.settings.priority
    )


def far_registration(node: BrokerNode) -> RemotingCommand:
    me, command_id = node.membership.me, f"{node.world.chance.getrandbits(128):032x}"
    return controller_messages.register_broker(
        me, node.broker_id, far_above(node), True, command_id, node.wall_ms
    )


def far_above(node: BrokerNode) -> controller_messages.LogPosition:
    return replace(node.position(), epoch=FAR)


def play_far_epochs(packet: Packet) -> None:
    """A slave is said to be in the last epoch but one, before two masters die one after the
    other.
    """
    play = Schedule(8, brokers=3, acked=100)
    stranger, slave, epoch = Stranger(play), play.others()[0], play.master().core.master_epoch
    for number in range(40):
        for place in play.cluster.controllers:
            play.world.after(50 * number, lambda place=place: stranger.tell(place, packet(slave)))  # type: ignore[misc]
    play.run(1_000)
    for _ in range(2):
        dead = play.master()
        dead.stop()
        play.world.after(6_000, dead.start)
        play.run(20_000, lambda dead=dead: dead.up and play.is_whole())  # type: ignore[misc]
    acked = len(play.checkers.acked)
    play.run(2_000)
    assert play.is_whole() and len(play.checkers.acked) > acked
    assert play.master().core.master_epoch <= epoch + EPOCH_REACH


@pytest.mark.parametrize("packet", [far_heartbeat, far_registration])
def test_b4_an_epoch_far_above_uses_up_none_of_a_set(packet: Packet) -> None:
    play_far_epochs(packet)


@pytest.mark.parametrize("packet", [far_heartbeat, far_registration])
def test_b4_is_seen_when_every_epoch_is_within_reach(
    packet: Packet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "EPOCH_REACH", FAR)
    for module in (decide_elect, decide_replicas, decide_sync_set):
        monkeypatch.setattr(module, "reach", lambda broker_set, rules, limit: limit)
    with pytest.raises((AssertionError, InvariantBroken, StopIteration)):
        play_far_epochs(packet)


def play_far_notice() -> None:
    """A slave is told of an epoch that no controller can give, under the token of its start; then
    it starts again.
    """
    play = Schedule(9, brokers=3, acked=100)
    slave = play.others()[0]
    told = notice(play, play.master(), 2**63 - 1)
    told.ext[NOTICE_TOKEN] = slave.membership.me.notice_token
    Stranger(play).tell(slave, told)
    play.run(3_000)
    slave.stop()
    slave.start()
    play.run(20_000, play.is_whole)
    assert (
        play.is_whole()
        and slave.core is not None
        and slave.core.log.epoch_seen == play.master().core.master_epoch
    )


def test_b4_an_epoch_that_cannot_be_one_fences_no_broker_and_no_start() -> None:
    play_far_notice()


def test_b4_is_seen_when_brokers_take_any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_messages, "INT32_MAX", 2**63 - 1)
    with pytest.raises((AssertionError, InvariantBroken)):
        play_far_notice()
