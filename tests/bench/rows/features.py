"""Delayed and timed sends, transactions, pulls and pops: messages per core-second of the broker,
beside a Java 5.3.3 broker on the same controllers, turn by turn.

What is due never comes during a turn: the delays are an hour and more. Pops are of messages that
were sent before the turn, each is acknowledged by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.processes.ports import split_address
from tests.bench import feature_load, java_brokers
from tests.bench.apart import apart, cpu_seconds
from tests.bench.cluster import BenchFailed
from tests.bench.feature_load import DELAYED, GIVEN, TIMED
from tests.bench.figure import Figure, share_at_least
from tests.bench.java_brokers import JavaBrokers
from tests.bench.own_set import Member, OwnSet, own_set
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.bench.send_load import QUEUES

ROW = "features"
SET_NAME = "bench-features"
SENDS, TRANSACTIONS, PULLS, POPS = 20_000, 6_000, 1_000, 200
TURNS, JAVA_WARM_UPS = 3, 3
PULLED, TO_POP = "bench-pulled", "bench-popped"


@dataclass(frozen=True, slots=True)
class Feature:
    """What is done in one turn, and what it needs at the broker first: topic, messages."""

    said: str
    topic: str
    function: Callable[..., int]
    arguments: tuple[object, ...]
    filled: int = 0


FEATURES = (
    Feature("delayed sends", "bench-delayed", feature_load.sends, (SENDS, DELAYED)),
    Feature("timed sends", "bench-timed", feature_load.sends, (SENDS, TIMED)),
    Feature(
        "transactions, half and end", "bench-halves", feature_load.transactions, (TRANSACTIONS,)
    ),
    Feature(
        f"messages by pulls of {GIVEN}",
        PULLED,
        feature_load.pulls,
        (PULLS, SENDS // QUEUES),
        filled=SENDS,
    ),
    Feature(f"pops of {GIVEN} with an ack each", TO_POP, feature_load.pops, (POPS,)),
)


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.broker_cluster()
    home = bench.folder(ROW)
    with (
        own_set(cluster, home, SET_NAME, 1, "--min-in-sync-replicas", "1") as ours,
        java_brokers.beside(cluster, home / "java", f"{SET_NAME}-java", 1) as java,
    ):
        sets: list[OwnSet | JavaBrokers] = [ours, java] if java else [ours]
        found = [_turns(feature, sets, bench.say) for feature in FEATURES]
    shutil.rmtree(home)
    return [_figure(feature, *rates) for feature, rates in zip(FEATURES, found, strict=True)]


def _turns(
    feature: Feature, sets: Sequence[OwnSet | JavaBrokers], say: Callable[[str], None]
) -> list[list[float]]:
    """Messages per core-second in each turn, by set."""
    rates: list[list[float]] = [[] for _ in sets]
    for brokers in sets:
        brokers.create_topic(feature.topic)
        if feature.filled:
            apart(feature_load.sends, _address(brokers), feature.topic, feature.filled, "")
        for _ in range(JAVA_WARM_UPS if isinstance(brokers, JavaBrokers) else 1):
            _turn(feature, brokers)
    for _ in range(TURNS):
        for brokers, found in zip(sets, rates, strict=True):
            found.append(_turn(feature, brokers))
    said = " against ".join(f"{median(found):,.0f}" for found in rates)
    say(f"{feature.said}: {said} per core-second")
    return rates


def _turn(feature: Feature, brokers: OwnSet | JavaBrokers) -> float:
    arguments = feature.arguments
    if feature.function is feature_load.pops:
        arguments = (*arguments, brokers.name)
        apart(feature_load.sends, _address(brokers), feature.topic, POPS * GIVEN, "")
    master = _master(brokers)
    before = cpu_seconds(master.pid)
    done = apart(feature.function, split_address(master.address), feature.topic, *arguments)
    if not done:
        raise BenchFailed(f"{brokers.name} carried through none of: {feature.said}")
    return float(done / (cpu_seconds(master.pid) - before))


def _master(brokers: OwnSet | JavaBrokers) -> Member:
    return brokers.wait_whole()  # type: ignore[return-value]


def _address(brokers: OwnSet | JavaBrokers) -> tuple[str, int]:
    return split_address(_master(brokers).address)


def _figure(feature: Feature, ours: list[float], java: list[float] | None = None) -> Figure:
    return Figure(
        ROW,
        feature.said,
        "messages/core-s",
        median(ours),
        "Java broker" if java else "no Java here",
        median(java) if java else None,
        goal=share_at_least(1.0) if java else None,
        samples=[round(one) for one in ours],
        details={"peer_samples": [round(one) for one in java or []]},
        note=(
            f"median of {TURNS} turns, ours and Java's in turn on the same cores, Java warmed up "
            f"by {JAVA_WARM_UPS} turns; 1 KiB, flush in the background; processor time of the "
            "broker's process, as /proc/PID/stat has it"
        ),
    )
