"""Time, messages and accidents of a world of sets without controllers.

Responsible for: calls between nodes with delays, cuts of pairs, pauses and new starts, all drawn
from one seed. Refuses to know: what nodes are.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

CALL_MS = 3_000
DELAY_MS = (2, 150)

Value = TypeVar("Value")


class Node(Protocol):
    """A process with a name. `life` counts its starts; what was sent to another one is gone."""

    name: str
    up: bool
    life: int
    paused_until_ms: int


class Network:
    """`now_ms` moves when `run_until` is called. `told(ms, text)` hears what is
    worth a line of a trace.
    """

    def __init__(self, chance: Random, told: Callable[[int, str], None]) -> None:
        self.chance, self._told = chance, told
        self.now_ms = self.steps = 0
        self.cuts: set[frozenset[str]] = set()
        self.counts: Counter[str] = Counter()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def note(self, text: str) -> None:
        self._told(self.now_ms, text)

    def at(self, at_ms: int, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (max(at_ms, self.now_ms), self._number, act))

    def run_until(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, act = heapq.heappop(self._events)
            self.steps += 1
            act()
        self.now_ms = until_ms

    def reaches(self, one: Node, other: Node) -> bool:
        return frozenset((one.name, other.name)) not in self.cuts

    def alive(self, node: Node) -> bool:
        """Up and running now."""
        return node.up and self.now_ms >= node.paused_until_ms

    def deliver(self, source: Node, target: Node, act: Callable[[], None]) -> None:
        """`act` happens at the target, once its process runs, if it gets there."""
        life = target.life

        def arrive() -> None:
            if not target.up or target.life != life or not self.reaches(source, target):
                self.counts["lost"] += 1
            elif self.now_ms < target.paused_until_ms:
                self.at(target.paused_until_ms + 1, arrive)
            else:
                act()

        if self.reaches(source, target):
            self.at(self.now_ms + self.chance.randint(*DELAY_MS), arrive)

    def call(
        self,
        source: Node,
        target: Node,
        serve: Callable[[], Value],
        then: Callable[[Value | None], None],
    ) -> None:
        """`then` hears the answer, or None after the time for a call."""
        self.ask(source, target, lambda reply: reply(serve()), then)

    def ask(
        self,
        source: Node,
        target: Node,
        serve: Callable[[Callable[[Value | None], None]], None],
        then: Callable[[Value | None], None],
    ) -> None:
        """The same, of a target that answers later, by the function that it is given."""
        life, done = source.life, [False]

        def finish(value: Value | None) -> None:
            if not done[0] and source.up and source.life == life:
                if self.now_ms < source.paused_until_ms:
                    self.at(source.paused_until_ms + 2, lambda: finish(value))
                    return
                done[0] = True
                then(value)

        def reply(value: Value | None) -> None:
            self.deliver(target, source, lambda: finish(value))

        self.deliver(source, target, lambda: serve(reply))
        self.at(self.now_ms + CALL_MS, lambda: finish(None))
