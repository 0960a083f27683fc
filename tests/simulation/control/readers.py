"""Whoever looks: asks controllers for what must be current, so that an answer from the past shows.

Refuses to know: the answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand
from tests.simulation.control import asks
from tests.simulation.control.lines import Line, Process

if TYPE_CHECKING:
    from tests.simulation.control.realm import Realm

EVERY_MS = (30, 250)
CALL_MS = 3_000
AT_ONCE_MAX = 8


class ReaderNode(Process):
    """Asks one thing after the other, a few at a time, of any controller."""

    def __init__(self, realm: Realm, name: str) -> None:
        super().__init__(realm.world, name)
        self.realm = realm
        self._open = 0
        self._lines: dict[str, Line] = {}
        self.begin()
        self.soon(self.world.between(*EVERY_MS), self._look)

    def _look(self) -> None:
        self.soon(self.world.between(*EVERY_MS), self._look)
        if self._open >= AT_ONCE_MAX:
            return
        chance, name = self.world.chance, self.world.chance.choice(self.realm.sets).name
        request = chance.choice(
            [
                asks.replica_info(name),
                asks.next_id(name),
                asks.sync_state(name),
                asks.controller_state(),
            ]
        )
        node = chance.choice(self.realm.controllers)
        floor = self.realm.promises.asked(request)
        self._open += 1

        def settled(answer: RemotingCommand | None) -> None:
            self._open -= 1
            if answer is not None:
                self.realm.promises.answered(self.name, request, answer, floor)

        line = self._lines.get(node.name)
        if line is not None and line.open:
            self.call(line, request, CALL_MS, settled)
            return

        def opened(made: Line) -> None:
            self._lines[node.name] = made
            self.call(made, request, CALL_MS, settled)

        self.realm.lines.connect(self, node, opened, lambda why: settled(None))
