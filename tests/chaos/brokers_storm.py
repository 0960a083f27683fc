"""A random storm: kills, pauses and cuts, several at once, of brokers and controllers. The seed
says which, and is told.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext

from tests.chaos.broker_stage import BrokerStage
from tests.chaos.line import Line
from tests.chaos.network import CLIENTS, CONTROLLERS

STORM_S = 120.0
SEED = "REGENT_STORM_SEED"
PAUSE_S = (0.2, 4.0)
LASTS_S = (0.5, 6.0)
KINDS = ("kill", "kill", "pause", "pause", "cut", "cut", "one way", "one way", "kill all")


class Storm:
    """What blows now, each with the moment of its end."""

    def __init__(self, stage: BrokerStage, seed: int) -> None:
        self._stage = stage
        self._random = random.Random(seed)
        self._blowing: list[tuple[float, ExitStack]] = []
        self.struck: Counter[str] = Counter()

    def blow(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self._calm_down(time.monotonic())
                self._strike(self._random.choice(KINDS))
                self._stage.wait_for(
                    min(self._random.uniform(*PAUSE_S), max(0.0, end - time.monotonic()))
                )
        finally:
            self._calm_down(float("inf"))

    def _calm_down(self, now: float) -> None:
        for end, blow in [one for one in self._blowing if one[0] <= now]:
            blow.close()
            self._blowing.remove((end, blow))

    def _strike(self, kind: str) -> None:
        brokers, count = self._stage.brokers, self._random.choice((1, 1, 2))
        lasts_s = self._random.uniform(*LASTS_S)
        if kind == "kill all":
            names = brokers
        elif kind == "kill":
            names = [self._random.choice([*brokers, "controller-1", "controller-2"])]
        else:
            names = (
                self._random.sample(brokers, count)
                if kind == "pause"
                else self._random.sample([*brokers, CONTROLLERS, CLIENTS], 2)
            )
        with (self._stage.home / "storm.log").open("a") as journal:
            journal.write(
                f"{time.strftime('%H:%M:%S', time.gmtime())} {kind} {' '.join(names)} "
                f"{lasts_s:.1f} s\n"
            )
        lasting = ExitStack()
        lasting.enter_context(self._blow_of(kind, names))
        self._blowing.append((time.monotonic() + lasts_s, lasting))
        self.struck[kind] += 1

    def _blow_of(self, kind: str, names: list[str]) -> AbstractContextManager[None]:
        if kind == "pause":
            return self._stage.paused(*names)
        if self._stage.network is not None and kind in ("cut", "one way"):
            one, other = [names[0]], [names[1]]
            return (
                self._stage.network.cut(one, other)
                if kind == "one way"
                else self._stage.network.apart(one, other)
            )
        self._stage.kill(*names)
        return nullcontext()


def storm(stage: BrokerStage) -> str:
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(1 << 32))
    blowing = Storm(stage, seed)
    try:
        blowing.blow(STORM_S)
    finally:
        told = f"{SEED}={seed}: " + ", ".join(
            f"{kind} {times}" for kind, times in sorted(blowing.struck.items())
        )
        print(f"  storm, {told}", file=sys.stderr, flush=True)
    stage.wait_ready(*stage.brokers)
    return told


LINES = (
    Line(
        "storm",
        "kills, pauses and cuts at random for 120 s, several at once; the seed repeats them",
        storm,
        runs=1,
        cuts=True,
    ),
)
