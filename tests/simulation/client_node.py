"""
A producing client: sends to whom it believes to be the master, tries again, counts what it was told.

Refuses to know: who the master is by any other way than trying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from tests.simulation.network import End
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

SEND_EVERY_MS = (5, 60)
TIMEOUT_MS = 800
BODY_BYTES = (1, 400)


class ClientNode:
    """Sends one message at a time."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.world, self.name = cluster, cluster.world, name
        self.life, self.up, self.paused = 1, True, False
        self.stopped = False
        self._sequence = 0
        self._target = 0
        self._wires: dict[str, Wire] = {}
        self._again()

    def _again(self) -> None:
        if not self.stopped:
            self.world.after(self.world.chance.randint(*SEND_EVERY_MS), self._send)

    def _send(self) -> None:
        self._sequence += 1
        size = self.world.chance.randint(*BODY_BYTES)
        body = f"{self.name}:{self._sequence}:".encode() + bytes(size)
        request = RemotingCommand.request(RequestCode.SEND_MESSAGE, body=body)
        node = self.cluster.brokers[self._target % len(self.cluster.brokers)]
        self.world.count("message.sent")
        wire = self._wires.get(node.name)
        if wire is not None and wire.open:
            wire.call(request, TIMEOUT_MS, self._answered)
            return

        def opened(end: End) -> None:
            self._wires[node.name] = Wire(self.world, end, lambda wire, request: None)
            self._wires[node.name].call(request, TIMEOUT_MS, self._answered)

        self.cluster.network.connect(self, node, node.accept, opened, lambda why: self._answered(None))

    def _answered(self, answer: RemotingCommand | None) -> None:
        if answer is None or answer.code != 0:
            self._target += 1
        self._again()
