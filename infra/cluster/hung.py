"""Which processes stand still: they live, but have not beaten for too long.

A broker that stands still (stopped, or held up by its disk) keeps its port, and clients with its
address wait at it for their own timeouts; one that is started in its place passes on what comes.

Refuses to know how a process is ended and started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from infra.cluster.child import CALM_AFTER_S, Child
from infra.cluster.plan import ProcessSpec

ASKED_BEFORE_S = 0.5
"""Before its time is over it is asked once, which takes that long at most."""
OWN_GAP_S = 0.5
PATIENCE_MAX = 16


class Heard(Protocol):
    """`infra.processes.pulses.Pulses`."""

    def beaten(self) -> set[int]: ...


class HungWatch:
    """`answers(spec)`: asks the process for its status. Where this process itself stood still, the
    others get that time as well.
    """

    def __init__(
        self,
        watchdog_ms: int,
        pulses: Heard,
        answers: Callable[[ProcessSpec], bool],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit_s = watchdog_ms / 1000
        self._pulses = pulses
        self._answers = answers
        self._now_s = now_s
        self._looked = now_s()

    def look(self, children: Iterable[Child]) -> list[Child]:
        """Those that have to be ended now. Only who beat once in this life is watched."""
        watched = [one for one in children if one.state in ("starting", "ready")]
        gap = self._now_s() - self._looked
        if gap > OWN_GAP_S:
            for one in watched:
                one.beat_at = None if one.beat_at is None else one.beat_at + gap
        self._hear(watched)
        hung = [one for one in watched if self._hangs(one, watched)] if self._limit_s else []
        for one in hung:
            self._note(one)
        self._looked = self._now_s()
        return hung

    def _hear(self, watched: list[Child]) -> None:
        pids, now = self._pulses.beaten(), self._now_s()
        for one in watched:
            if one.process.pid in pids:
                one.beat_at = now

    def silent_s(self, child: Child) -> float:
        """How long it has not beaten."""
        return 0.0 if child.beat_at is None else self._now_s() - child.beat_at

    def _hangs(self, child: Child, watched: list[Child]) -> bool:
        limit_s = self._limit_s * child.patience
        if self.silent_s(child) <= limit_s - ASKED_BEFORE_S:
            return False
        self._answers(child.spec)  # a process that was only late beats before it answers, or soon
        self._hear(watched)
        return self.silent_s(child) >= limit_s

    def _note(self, child: Child) -> None:
        """One that hangs again soon has some long work to do: it gets longer next time."""
        soon = (child.beat_at or 0.0) - child.started_at < CALM_AFTER_S
        child.patience = min(PATIENCE_MAX, child.patience * 2) if soon else 1
