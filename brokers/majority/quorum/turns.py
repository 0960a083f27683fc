"""In which order a shell lets a member hear and carries out what it wants.

Responsible for: one input at a time; its effects in their order; what the member hears of an effect
behind all of them, and before the next input. Refuses to know: what an effect is, who asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import Effect

Step = Callable[[QuorumCore], list[Effect]]
"""One input of a member; its effects."""


class Turns:
    """`do` carries out one effect and returns what the member hears of it, if anything."""

    def __init__(self, core: QuorumCore, do: Callable[[Effect], Step | None]) -> None:
        self._core, self._do = core, do
        self._waiting: deque[Step] = deque()
        self._busy = False

    def hear(self, step: Step) -> None:
        """Now; or behind the inputs before it, where one of them is being carried out. What `do`
        raises ends the effects of the present input, and this call; inputs that wait stay.
        """
        self._waiting.append(step)
        self.go_on()

    def hear_first(self, step: Step) -> None:
        """The same, before those that wait."""
        self._waiting.appendleft(step)
        self.go_on()

    def go_on(self) -> None:
        """With the inputs that wait."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._waiting:
                self._carry_out(self._waiting.popleft()(self._core))
        finally:
            self._busy = False

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        more: list[Step] = []
        for effect in effects:
            heard = self._do(effect)
            if heard is not None:
                more.append(heard)
        for step in more:
            self._carry_out(step(self._core))
