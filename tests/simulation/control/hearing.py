"""
Whom each controller hears, kept from outside, so that a deaf leader shows when it deposes the world.

Refuses to know: how a controller keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand
from events.commands import ElectMaster
from tests.simulation.world import InvariantBroken, World

if TYPE_CHECKING:
    from tests.simulation.control.controllers import ControllerNode

MASS_BROKERS = 10
HOLD_MS = 10_000
SLACK_MS = 500


class Hearing:
    """Times are those of the controller: what it slept through is held against nobody."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._silent_from: dict[tuple[str, int, str, int], int] = {}

    def heard(self, node: ControllerNode, beat: RemotingCommand) -> None:
        key = node.name, node.life, beat.ext["brokerName"], int(beat.ext["brokerId"])
        self._silent_from[key] = node.running_ms() + int(beat.ext["heartbeatTimeoutMills"])

    def electing(self, node: ControllerNode, record: ElectMaster) -> None:
        """Who issues an election by silence must not have been deaf to more than half of many for a short while only."""
        self.world.count("elections.by_silence")
        silent_from = sorted(
            self._silent_from.get((node.name, node.life, one.broker_name, replica.broker_id), node.led_since_ms)
            for one in node.folder.state.sets.values()
            for replica in one.replicas
            if replica.is_registered
        )
        if len(silent_from) <= MASS_BROKERS:
            return
        deaf_ms = node.running_ms() - silent_from[len(silent_from) // 2]
        if 0 < deaf_ms < HOLD_MS - SLACK_MS:
            raise InvariantBroken(
                f"{node.name} elects in {record.broker_name} by {record.envelope.cause}, deaf to half the world for {deaf_ms} ms"
            )

    def is_deaf(self, node: ControllerNode) -> bool:
        """To more than half of what it knows, just now."""
        known = [
            self._silent_from.get((node.name, node.life, one.broker_name, replica.broker_id), 0) > node.running_ms()
            for one in node.folder.state.sets.values()
            for replica in one.replicas
            if replica.is_registered
        ]
        return len(known) > MASS_BROKERS and sum(known) * 2 < len(known)
