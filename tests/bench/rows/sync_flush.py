"""Synchronous flush: 64 producers, each waiting for its answer, at one broker that answers when the
message is on its disk.

Peers of the same run: `fdatasync` alone on the same disk with as many bytes each time, and a Java
broker with SYNC_FLUSH.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench import java_brokers, send_load, syncs
from tests.bench.apart import apart
from tests.bench.cluster import BenchCluster
from tests.bench.figure import Figure
from tests.bench.java_brokers import JavaBrokers
from tests.bench.own_set import OwnSet, own_set
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.support import preloaded

ROW = "sync-flush"
SET_NAME = "bench-sync"
PRODUCERS = 64
MESSAGES, TURNS = 10_000, 3
WARM_UP, JAVA_WARM_UP = 2_000, 10_000
ALONE_S = 3.0
RECORD_BYTES = 1_200
"""What a message of 1 KiB takes in the log with its properties, about."""
FLAGS = ("--min-in-sync-replicas", "1", "--flush-disk", "sync")
JAVA = {"flushDiskType": "SYNC_FLUSH"}


@dataclass(frozen=True, slots=True)
class Flushed:
    """One turn at one broker: what was sent, how many syncs that took, seconds in them."""

    sent: send_load.Turn
    syncs: int
    seconds: float
    in_sync_s: float

    @property
    def per_sync(self) -> float:
        return self.sent.count / max(1, self.syncs)

    @property
    def syncs_per_s(self) -> float:
        return self.syncs / self.seconds


class Measured:
    """One broker and what counts its syncs."""

    def __init__(self, brokers: OwnSet | JavaBrokers, counter: syncs.SyncCounter) -> None:
        self._brokers = brokers
        self._counter = counter
        self.turns: list[Flushed] = []

    def warm_up(self, count: int) -> None:
        self._brokers.create_topic(send_load.TOPIC)
        send_load.warmed_up(
            self._brokers.wait_whole(),
            self._brokers.members,
            send_load.send_waiting,
            count,
            PRODUCERS,
        )

    def turn(self) -> None:
        before = self._counter.read()
        sent = send_load.turn(
            self._brokers.wait_whole(),
            self._brokers.members,
            send_load.send_waiting,
            MESSAGES,
            PRODUCERS,
        )
        found = self._counter.since(before)
        self.turns.append(Flushed(sent, found.count, sent.count / sent.per_s, found.seconds))


def _brokers(cluster: BenchCluster, home: Path, stack: ExitStack) -> list[Measured]:
    """Ours first; Java's when there is one."""
    library = preloaded.build(syncs.SOURCE, home)
    counters = [syncs.SyncCounter(library, home / f"{name}.syncs") for name in ("ours", "java")]
    ours = stack.enter_context(
        own_set(cluster, home, SET_NAME, 1, *FLAGS, environ=counters[0].environ)
    )
    java = stack.enter_context(
        java_brokers.beside(
            cluster, home / "java", f"{SET_NAME}-java", 1, JAVA, environ=counters[1].environ
        )
    )
    return [Measured(ours, counters[0])] + ([Measured(java, counters[1])] if java else [])


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.broker_cluster()
    home = bench.folder(ROW)
    with ExitStack() as stack:
        found = _brokers(cluster, home, stack)
        for one, count in zip(found, (WARM_UP, JAVA_WARM_UP), strict=False):
            one.warm_up(count)
        bench.say(
            f"{PRODUCERS} producers, {TURNS} x {MESSAGES} messages, flushed before the answer"
        )
        alone: list[float] = []
        for _ in range(TURNS):
            for one in found:
                one.turn()
            alone.append(
                apart(
                    syncs.fdatasync_alone,
                    home,
                    round(found[0].turns[-1].per_sync * RECORD_BYTES),
                    ALONE_S,
                )
            )
    shutil.rmtree(home)
    return figures(found[0].turns, found[1].turns if len(found) > 1 else [], alone)


def figures(ours: list[Flushed], java: list[Flushed], alone: list[float]) -> list[Figure]:
    """`alone`: syncs/s of each turn with the bytes of ours."""
    per_sync = median([one.per_sync for one in ours])
    rates = [one.sent.per_s for one in ours]
    bound = median(alone) * per_sync
    note = (
        f"median of {TURNS} turns of {MESSAGES}; {PRODUCERS} connections of the own client, one 1 "
        f"KiB message under way on each, set of one; alone: {round(per_sync * RECORD_BYTES)} bytes "
        "and fdatasync, one after the other, into a file made in its full size; ours spent "
        f"{share_in_sync(ours) * 100:.0f} % of the time in syncs"
    ) + (
        (f", Java's {share_in_sync(java) * 100:.0f} % ({java_brokers.JVM_NAMED}, SYNC_FLUSH)")
        if java
        else ""
    )
    return [
        Figure(
            ROW,
            f"synchronous flush, {PRODUCERS} producers",
            "messages/s",
            median(rates),
            "fdatasync alone, as many bytes",
            bound,
            note=note,
            samples=[round(one) for one in rates],
            details={"syncs_alone_per_s": [round(one, 1) for one in alone]},
        ),
        _beside(
            "the same beside Java",
            "messages/s",
            [one.sent.per_s for one in ours],
            [one.sent.per_s for one in java],
        ),
        _beside(
            "syncs", "syncs/s", [one.syncs_per_s for one in ours], [one.syncs_per_s for one in java]
        ),
        _beside(
            "messages per sync",
            "messages",
            [one.per_sync for one in ours],
            [one.per_sync for one in java],
        ),
        _beside(
            "p99, synchronous flush",
            "ms",
            [one.sent.p99_ms for one in ours],
            [one.sent.p99_ms for one in java],
        ),
        _beside(
            "messages per core-second, synchronous flush",
            "messages/core-s",
            [one.sent.per_core_s for one in ours],
            [one.sent.per_core_s for one in java],
        ),
    ]


def share_in_sync(turns: list[Flushed]) -> float:
    """Of the turns' time."""
    return sum(one.in_sync_s for one in turns) / sum(one.seconds for one in turns)


def _beside(what: str, unit: str, ours: list[float], java: list[float]) -> Figure:
    samples = [round(one, 2) for one in ours]
    return Figure(
        ROW,
        what,
        unit,
        median(ours),
        "Java broker" if java else "no Java here",
        median(java) if java else None,
        samples=samples,
        details={"peer_samples": [round(one, 2) for one in java]},
    )
