"""Whom each controller hears, kept from outside, so that a deaf leader shows when it deposes the
world.

Refuses to know: how a controller keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR
from events.commands import ElectMaster
from tests.simulation.world import InvariantBroken, World

if TYPE_CHECKING:
    from tests.simulation.control.controllers import ControllerNode
    from tests.simulation.control.lines import Process

MASS_BROKERS = 10
HOLD_MS = 10_000
SLACK_MS = 400
NEVER_MS = 1 << 60


class Hearing:
    """Times are those of the controller: what it slept through is held against nobody."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._silent_from: dict[tuple[str, int, str, int], tuple[int, int]] = {}
        self._shown: dict[tuple[str, str, int], tuple[int, int]] = {}

    def heard(self, node: ControllerNode, sender: Process, beat: RemotingCommand) -> None:
        if FORWARDED_FOR in beat.ext:
            # Another controller's ears, which count only where these never heard.
            self.world.count("heartbeat.relayed")
            return
        key = node.name, node.life, beat.ext["brokerName"], int(beat.ext["brokerId"])
        self._silent_from[key] = (
            node.running_ms() + int(beat.ext["heartbeatTimeoutMills"]),
            sender.life,
        )
        held = (
            int(beat.ext["epoch"]),
            min(int(beat.ext["confirmOffset"]), int(beat.ext["maxOffset"])),
        )
        self._shown[sender.name, node.name, node.life] = held

    def shown(self, sender: Process) -> Mapping[tuple[str, int], tuple[int, int]]:
        """(epoch, confirmed) as its last heartbeat named it, by the life of each controller that
        heard one.
        """
        return {
            (node, life): held
            for (name, node, life), held in self._shown.items()
            if name == sender.name
        }

    def electing(self, node: ControllerNode, record: ElectMaster) -> None:
        """Who elects by silence must not have been deaf to more than half of many for a short while
        only.
        """
        self.world.count("elections.by_silence")
        silent_from = self._all_silent_from(node)
        # One more than half: of one that comes and goes the leader may know otherwise.
        deaf_ms = (
            node.running_ms() - silent_from[len(silent_from) // 2 + 1]
            if len(silent_from) > MASS_BROKERS
            else 0
        )
        if len(silent_from) > MASS_BROKERS and SLACK_MS < deaf_ms < HOLD_MS - SLACK_MS:
            raise InvariantBroken(
                f"{node.name} elects in {record.broker_name} by {record.envelope.cause}, deaf to "
                f"half the world for {deaf_ms} ms"
            )

    def watch(self, node: ControllerNode) -> None:
        """Count the moments in which a leader is deaf."""
        if node.core is not None and node.core.is_active:
            silent_from = self._all_silent_from(node)
            if (
                len(silent_from) > MASS_BROKERS
                and silent_from[len(silent_from) // 2] < node.running_ms()
            ):
                self.world.count("leader.deaf")

    def _all_silent_from(self, node: ControllerNode) -> list[int]:
        """Since when (or from when on) each registered replica is silent; who is gone, or was gone
        since, is not meant.
        """
        lives = {(one.set.name, one.broker_id): one.life for one in node.realm.brokers if one.up}
        found = []
        for name, known in node.folder.state.sets.items():
            for replica in known.replicas:
                if replica.is_registered:
                    heard = self._silent_from.get((node.name, node.life, name, replica.broker_id))
                    is_there = heard is not None and heard[1] == lives.get(
                        (name, replica.broker_id)
                    )
                    found.append(heard[0] if heard is not None and is_there else NEVER_MS)
        return sorted(found)
