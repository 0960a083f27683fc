"""One line of the report: a fault of brokers, how often it is tried, and what is promised under it.

Refuses to know what is hit and how it is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.chaos.broker_stage import BrokerStage

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
    (armed.py). `settings`: what they have besides FAST_TIMERS; lines with the same settings share a
    cluster.
    """

    name: str
    text: str
    strike: Callable[[BrokerStage], str]
    runs: int = RUNS
    may_lose: str = ""
    calm: bool = False
    cuts: bool = False
    armed: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def by_settings(lines: Sequence[Line]) -> list[tuple[Mapping[str, Any], list[Line]]]:
    """Lines that can share a cluster (the armed ones among themselves), in the order of their first
    ones.
    """
    groups: list[tuple[Mapping[str, Any], list[Line]]] = []
    for line in lines:
        same = next(
            (
                group
                for settings, group in groups
                if (settings, group[0].armed) == (line.settings, line.armed)
            ),
            None,
        )
        if same is None:
            groups.append((line.settings, [line]))
        else:
            same.append(line)
    return groups
