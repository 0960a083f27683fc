"""Memory of brokers that serve for a long time: three in sync under a steady load, ours and Java's in turn, looked at all the while."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from infra.ports import split_address
from tests.bench import java_brokers, memory, send_load
from tests.bench.apart import running
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure
from tests.bench.java_brokers import JavaBrokers, JavaMember
from tests.bench.own_set import Member, OwnSet, own_set
from tests.bench.run_context import Bench

ROW = "memory-growth"
SET_NAME = "bench-memory"
PER_S = 1_000.0
LOOK_S = 2.0
WARM_SHARE = 0.3
"""Of the time, in the beginning, which does not count for growth: caches fill, Java compiles."""


@dataclass(slots=True)
class Held:
    """(seconds, MiB) of one broker, its own memory; the last look with mapped files."""

    samples: list[tuple[float, float]] = field(default_factory=list)
    mapped_mib: float = 0.0

    @property
    def last(self) -> float:
        return self.samples[-1][1]

    def growth(self) -> float:
        """MiB an hour after the beginning."""
        from_s = self.samples[-1][0] * WARM_SHARE
        return memory.slope_per_hour([one for one in self.samples if one[0] >= from_s])


def watched(brokers: OwnSet | JavaBrokers, seconds: float) -> tuple[Held, list[Held]]:
    """(master, slaves) under PER_S messages a second for so long."""
    brokers.create_topic(send_load.TOPIC)
    master = brokers.wait_whole()
    found = {member.pid: Held() for member in brokers.members}
    with running(send_load.send_steadily, split_address(master.address), PER_S, seconds) as result:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            _look(brokers.members, found, time.monotonic() - began)
            time.sleep(LOOK_S)
        refused = sum(result().values())
    if refused > PER_S * seconds * send_load.REFUSED_MOST:
        raise BenchFailed(f"{refused} sends at {master.name} were refused")
    return found[master.pid], [held for pid, held in found.items() if pid != master.pid]


def _look(members: Sequence[Member | JavaMember], found: dict[int, Held], at_s: float) -> None:
    for member in members:
        now = memory.resident(member.pid)
        found[member.pid].samples.append((at_s, now.own))
        found[member.pid].mapped_mib = now.all


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.broker_cluster()
    home = bench.folder(ROW)
    seconds = bench.minutes * 60
    bench.say(f"{PER_S:.0f} messages/s at three brokers for {bench.minutes:g} minutes, ours and then Java's")
    with own_set(cluster, home, SET_NAME, 3) as ours:
        own = watched(ours, seconds)
    shutil.rmtree(home)
    theirs = None
    with java_brokers.beside(cluster, bench.folder(f"{ROW}-java"), f"{SET_NAME}-java", 3) as java:
        if java:
            theirs = watched(java, seconds)
    return figures(own, theirs, bench.minutes)


def figures(ours: tuple[Held, list[Held]], java: tuple[Held, list[Held]] | None, minutes: float) -> list[Figure]:
    """Master and larger slave: what they hold at the end, and how it grew."""
    found = []
    note = (
        f"{PER_S:.0f} messages/s of 1 KiB for {minutes:g} minutes, three in sync, all-ack; RssAnon of the process; growth by least squares "
        f"without the first {WARM_SHARE * 100:.0f} %; with mapped files at the end: ours {ours[0].mapped_mib:.0f} MiB"
        + (f", Java's {java[0].mapped_mib:.0f} MiB ({java_brokers.JVM_NAMED})" if java else "")
    )
    for what, mine, peer in (("master", ours[0], java[0] if java else None), ("slave", _largest(ours[1]), _largest(java[1]) if java else None)):
        for name, unit, of in ((f"memory of a {what}'s own", "MiB", lambda one: one.last), (f"growth of a {what}", "MiB/h", Held.growth)):
            found.append(
                Figure(ROW, name, unit, round(of(mine), 1), "Java broker" if peer else "no Java here", round(of(peer), 1) if peer else None,
                       note=note if not found else "", details={"samples": [(round(at), round(mib, 1)) for at, mib in mine.samples]})
            )  # fmt: skip
    return found


def _largest(held: list[Held]) -> Held:
    return max(held, key=lambda one: one.last)
