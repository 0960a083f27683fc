"""One line of the report: a fault of brokers, how often it is tried, and what is promised under it.

Refuses to know what is hit and how it is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infra.features.use import FeatureUse
    from tests.chaos.broker_stage import BrokerStage
    from tests.interop.stage import Row as Judged

RUNS = 2
"""The whole must end within an hour; who wants more of one fault says `--runs`."""
OF_THE_COMMON_ONES = 3


@dataclass(frozen=True, slots=True)
class Line:
    """`strike` is one run: it begins with a whole set under load, and gives a note; when it
    returns nothing may be hit any more, and the set must become whole by itself. It raises
    NotAsItShouldBe for a promise that is broken.

    `runs`: how often, when nobody says otherwise. `may_lose`: the window in words where the mode
    promises less than "nothing is lost"; '' where lost must be 0. `calm`: no send may fail. `cuts`:
    it needs a network that can be cut. `armed`: its brokers are started with kill points
    (armed.py). `shipped`: its cluster has the timers that `regent up` has, what stands still is
    ended, and disks can be made to hang (held_disks.py); the stock Java client with default
    settings sends beside our own, where there is a JDK. `settings`: what its brokers have besides
    FAST_TIMERS, or besides nothing; lines with the same settings share a cluster.

    `outage_ms_max`: of our own client, 0: not bounded. `stock`: what is judged of the Java client's
    figures besides loss and order (java_client.verdict). `feature`: what uses one, made of name
    servers and a topic; it runs beside the producer, and its counts are the line's.
    """

    name: str
    text: str
    strike: Callable[[BrokerStage], str]
    runs: int = RUNS
    may_lose: str = ""
    calm: bool = False
    cuts: bool = False
    armed: bool = False
    shipped: bool = False
    outage_ms_max: int = 0
    feature: Callable[[Sequence[str], str], FeatureUse] | None = None
    stock: Callable[[dict[str, Any]], Judged] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cluster(self) -> tuple[object, ...]:
        """Lines for which it is the same can share one."""
        return self.armed, self.shipped, self.settings


def by_cluster(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines that can share a cluster, in the order of their first ones."""
    groups: list[list[Line]] = []
    for line in lines:
        same = next((group for group in groups if group[0].cluster == line.cluster), None)
        if same is None:
            groups.append([line])
        else:
            same.append(line)
    return groups
