"""Memory and processor time of brokers that serve for a long time: three in sync under a steady
load, ours and Java's in turn, looked at all the while; and what they use of the processors once
nothing is sent any more.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from infra.processes.ports import split_address
from tests.bench import java_brokers, memory, pipelined, send_load
from tests.bench.apart import Running, cpu_seconds, running
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
"""Of the time, in the beginning, which does not count for growth and processor time: caches fill,
Java compiles.
"""
ANSWERED_WITHIN_S = 30.0
"""After the end of the time, what was sent by then."""
IDLE_S = 5.0
SPINS_FROM = 0.5
"""Cores of a broker to which nobody sends."""


@dataclass(slots=True)
class Held:
    """What was seen of one broker: (seconds, MiB) of its own memory, (seconds, processor seconds so
    far), the last look with mapped files, cores once nothing was sent.
    """

    samples: list[tuple[float, float]] = field(default_factory=list)
    spent: list[tuple[float, float]] = field(default_factory=list)
    name: str = ""
    mapped_mib: float = 0.0
    idle_cores: float = 0.0

    @property
    def last(self) -> float:
        return self.samples[-1][1]

    def growth(self) -> float:
        """MiB an hour after the beginning."""
        return memory.slope_per_hour(_warm(self.samples))

    def cores(self) -> float:
        """Used after the beginning, under the load."""
        (from_s, before), *_, (to_s, after) = _warm(self.spent)
        return (after - before) / (to_s - from_s)


def _warm(samples: list[tuple[float, float]]) -> list[tuple[float, float]]:
    from_s = samples[-1][0] * WARM_SHARE
    return [one for one in samples if one[0] >= from_s]


@dataclass(frozen=True, slots=True)
class Watched:
    """One set, the load it had."""

    master: Held
    slaves: list[Held]
    load: pipelined.Load

    @property
    def all(self) -> list[Held]:
        return [self.master, *self.slaves]

    @property
    def slave(self) -> Held:
        """The one that holds more."""
        return max(self.slaves, key=lambda one: one.last)


def watched(brokers: OwnSet | JavaBrokers, seconds: float) -> Watched:
    """Under PER_S messages a second for so long."""
    brokers.create_topic(send_load.TOPIC)
    master = brokers.wait_whole()
    found = {member.pid: Held(name=member.name) for member in brokers.members}
    with running(send_load.send_steadily, split_address(master.address), PER_S, seconds) as sending:
        _look_while(sending, brokers.members, found, seconds)
        load: pipelined.Load = sending(ANSWERED_WITHIN_S)
    refused = sum(load.bad.values())
    if refused > PER_S * seconds * send_load.REFUSED_MOST:
        raise BenchFailed(f"{refused} sends at {master.name} were refused")
    _look_idle(found)
    return Watched(
        found[master.pid], [held for pid, held in found.items() if pid != master.pid], load
    )


def _look_while(
    sending: Running, members: Sequence[Member | JavaMember], found: dict[int, Held], seconds: float
) -> None:
    began = time.monotonic()
    while (at_s := time.monotonic() - began) < seconds and not sending.is_done:
        for member in members:
            held, now = found[member.pid], memory.resident(member.pid)
            held.samples.append((at_s, now.own))
            held.spent.append((at_s, cpu_seconds(member.pid)))
            held.mapped_mib = now.all
        time.sleep(LOOK_S)


def _look_idle(found: dict[int, Held]) -> None:
    before, began = {pid: cpu_seconds(pid) for pid in found}, time.monotonic()
    time.sleep(IDLE_S)
    for pid, held in found.items():
        held.idle_cores = (cpu_seconds(pid) - before[pid]) / (time.monotonic() - began)


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.broker_cluster()
    home = bench.folder(ROW)
    seconds = bench.minutes * 60
    bench.say(
        f"{PER_S:.0f} messages/s at three brokers for {bench.minutes:g} minutes, ours and then "
        "Java's"
    )
    with own_set(cluster, home, SET_NAME, 3) as ours:
        own = watched(ours, seconds)
    bench.say(_used(own))
    shutil.rmtree(home)
    theirs = None
    with java_brokers.beside(cluster, bench.folder(f"{ROW}-java"), f"{SET_NAME}-java", 3) as java:
        if java:
            theirs = watched(java, seconds)
            bench.say(_used(theirs))
    return figures(own, theirs, bench.minutes)


WHAT: tuple[tuple[str, str, int, Callable[[Held], float]], ...] = (
    ("memory of a {}'s own", "MiB", 1, lambda one: one.last),
    ("growth of a {}", "MiB/h", 1, Held.growth),
    ("processors for a {}", "cores", 3, Held.cores),
)


def figures(ours: Watched, java: Watched | None, minutes: float) -> list[Figure]:
    """Master and larger slave: what they hold at the end, how it grew, what they used of the
    processors.
    """
    found = []
    for role in ("master", "slave"):
        mine, peer = getattr(ours, role), getattr(java, role, None)
        for name, unit, places, of in WHAT:
            found.append(
                Figure(
                    ROW,
                    name.format(role),
                    unit,
                    round(of(mine), places),
                    "Java broker" if peer else "no Java here",
                    round(of(peer), places) if peer else None,
                    note="" if found else _note(ours, java, minutes),
                    details={"samples": [(round(at), round(mib, 1)) for at, mib in mine.samples]},
                )
            )
    return found


def _note(ours: Watched, java: Watched | None, minutes: float) -> str:
    words = (
        f"{PER_S:.0f} messages/s of 1 KiB for {minutes:g} minutes, three in sync, all-ack; RssAnon "
        "of the process; growth by least squares and processors without the first "
        f"{WARM_SHARE * 100:.0f} %; with mapped files at the end: ours "
        f"{ours.master.mapped_mib:.0f} MiB"
    )
    if java is None:
        return f"{words}. {_used(ours)}"
    return (
        f"{words}, Java's {java.master.mapped_mib:.0f} MiB ({java_brokers.JVM_NAMED}). "
        f"{_used(ours)}. {_used(java)}"
    )


def _used(one: Watched) -> str:
    """What each broker of a set used of the processors, and whether one of them is busy with
    nothing.
    """
    each = ", ".join(f"{held.name} {held.cores():.2f} ({held.idle_cores:.2f})" for held in one.all)
    words = f"cores under {one.load.per_s:.0f} messages/s (in {IDLE_S:.0f} s without any): {each}"
    spinning = [
        (f"{held.name} used {held.idle_cores:.2f} cores with nothing to do")
        for held in one.all
        if held.idle_cores >= SPINS_FROM
    ]
    return "; ".join([words, *spinning])
