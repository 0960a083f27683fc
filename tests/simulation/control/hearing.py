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
SLACK_MS = 400
NEVER_MS = 1 << 60


class Hearing:
    """Times are those of the controller: what it slept through is held against nobody."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._silent_from: dict[tuple[str, int, str, int], int] = {}

    def heard(self, node: ControllerNode, beat: RemotingCommand) -> None:
        key = node.name, node.life, beat.ext["brokerName"], int(beat.ext["brokerId"])
        self._silent_from[key] = node.running_ms() + int(beat.ext["heartbeatTimeoutMills"])

    def electing(self, node: ControllerNode, record: ElectMaster) -> None:
        """Who elects by silence must not have been deaf to more than half of many for a short while only."""
        self.world.count("elections.by_silence")
        silent_from = self._all_silent_from(node)
        deaf_ms = node.running_ms() - silent_from[len(silent_from) // 2]
        if len(silent_from) > MASS_BROKERS and SLACK_MS < deaf_ms < HOLD_MS - SLACK_MS:
            raise InvariantBroken(
                f"{node.name} elects in {record.broker_name} by {record.envelope.cause}, deaf to half the world for {deaf_ms} ms"
            )

    def watch(self, node: ControllerNode) -> None:
        """Count the moments in which a leader is deaf."""
        if node.core is not None and node.core.is_active:
            silent_from = self._all_silent_from(node)
            if len(silent_from) > MASS_BROKERS and silent_from[len(silent_from) // 2] < node.running_ms():
                self.world.count("leader.deaf")

    def _all_silent_from(self, node: ControllerNode) -> list[int]:
        """Since when (or from when on) each registered replica is silent; one that is really gone is not meant."""
        there = {(one.set.name, one.broker_id) for one in node.realm.brokers if one.up}
        return sorted(
            self._silent_from.get((node.name, node.life, one.broker_name, replica.broker_id), node.led_since_ms)
            if (one.broker_name, replica.broker_id) in there else NEVER_MS
            for one in node.folder.state.sets.values()
            for replica in one.replicas
            if replica.is_registered
        )  # fmt: skip
