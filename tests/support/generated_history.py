"""Long histories of many broker sets, by seed: the three topics as a cluster that lived through
much has them.

Responsible for the clock, and for whose turn it is. What controllers decide is the real fold's
(`generated_leaders`), what befalls a set and what its brokers say is `generated_set`'s. The same
arguments give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from random import Random

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from tests.support.generated_blows import Blow, SetLife
from tests.support.generated_leaders import NETWORK, Leaders, LogIsFull

CLUSTER_ID = "generated"
BEGAN_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""
PAUSE_MS = 240_000
"""A set is left in peace for so long, on average."""
LEADER_PAUSE_MS = 3_600_000

TimedRecord = tuple[str, int, int, int, bytes]
"""Topic, partition, offset, the log's timestamp in ms since 1970-01-01 UTC, value."""


@dataclass(frozen=True)
class GeneratedHistory:
    """Values of the three topics by offset, the log's timestamps beside them, and the blows that
    the sets were dealt.
    """

    cluster_id: str
    sets: tuple[str, ...]
    commands: Sequence[bytes]
    commands_ms: Sequence[int]
    outcomes: Sequence[bytes]
    """Not at their commands' offsets: after a change of leader some stand twice."""
    outcomes_ms: Sequence[int]
    events: Sequence[Sequence[bytes]]
    """By partition."""
    events_ms: Sequence[Sequence[int]]
    blows: Sequence[Blow]
    """Ascending by the offset of the election that answered."""
    end_ms: int

    def records(self) -> Iterator[TimedRecord]:
        """All records, topic by topic and partition by partition, in the order of their offsets."""
        yield from _numbered(COMMANDS_TOPIC, 0, self.commands_ms, self.commands)
        yield from _numbered(OUTCOMES_TOPIC, 0, self.outcomes_ms, self.outcomes)
        for partition, (times, values) in enumerate(zip(self.events_ms, self.events, strict=True)):
            yield from _numbered(BROKER_EVENTS_TOPIC, partition, times, values)


def generate(
    commands: int,
    sets: int = 50,
    seed: int = 1,
    *,
    cluster_id: str = CLUSTER_ID,
    began_ms: int = BEGAN_MS,
    pause_ms: int = PAUSE_MS,
    network: str = NETWORK,
) -> GeneratedHistory:
    """A history of that many commands over that many sets of three replicas.

    `network`: what the addresses of brokers begin with. A controller that leads on such a history
    asks their ports.
    """
    chance = Random(seed)
    leaders = Leaders(cluster_id, chance, began_ms, commands, network)
    names = tuple(f"broker-{number:03d}" for number in range(sets))
    lives = [SetLife(leaders, name, Random(chance.getrandbits(64)), pause_ms) for name in names]
    turns = [(began_ms + 10 * number, number, life.live()) for number, life in enumerate(lives)]
    turns.append((began_ms + pause_ms, sets, leaders.live(LEADER_PAUSE_MS)))
    heapify(turns)
    try:
        while True:
            now_ms, number, life = turns[0]
            leaders.now_ms = now_ms
            heapreplace(turns, (now_ms + next(life), number, life))
    except LogIsFull:
        blows = sorted(
            (blow for life in lives for blow in life.blows), key=lambda one: one.election_offset
        )
        return GeneratedHistory(
            cluster_id,
            names,
            leaders.commands,
            leaders.commands_ms,
            leaders.outcomes,
            leaders.outcomes_ms,
            leaders.events,
            leaders.events_ms,
            blows,
            leaders.now_ms,
        )


def _numbered(
    topic: str, partition: int, times: Sequence[int], values: Sequence[bytes]
) -> Iterator[TimedRecord]:
    for offset, (at_ms, value) in enumerate(zip(times, values, strict=True)):
        yield topic, partition, offset, at_ms, value
