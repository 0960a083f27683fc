"""The same decision at a Java 5.3.3 controller and at Regent's: a registration with another
address, which both write to their log.

Each as one node and as three: Java's DLedger group answers when a majority has the entry in its
page cache, Regent when Kafka has acknowledged it on all in-sync replicas (page cache, no flush) and
it was folded and its outcome handed to the publisher.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from brokers.membership import controller_messages
from brokers.remoting import codec
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.problems import Problem
from infra.processes.ports import split_address
from tests.bench import pipelined
from tests.bench.apart import apart
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, not_measured
from tests.bench.own_set import call
from tests.bench.rows.decisions import SETS, introduction
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.interop.java_rocketmq import JavaWorld

ROW = "decisions-java"
DECISIONS, ALONE, WINDOW, TURNS = 4_000, 200, 256, 2
LEADER_WITHIN_S = 60.0
POLL_S = 0.2
WARM_UP = 2_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one controller group: decisions/s of each turn, ms of single ones, answers other than
    0.
    """

    per_s: Sequence[float]
    alone_ms: Sequence[float]
    refused: int


def moved(number: int) -> RemotingCommand:
    """1003 of a broker that moved: the address differs from the one before."""
    me = replace(
        introduction(number % SETS), address=f"127.0.0.1:{1_024 + number // SETS % 60_000}"
    )
    position = controller_messages.LogPosition(-1, number + 1, 0)
    return controller_messages.register_broker(
        me, 1, position, True, uuid.uuid4().hex, 1_700_000_000_000
    )


def _frames(count: int, first: int) -> list[bytes]:
    return [
        codec.encode(moved(number), opaque=pipelined.FIRST_OPAQUE + number)
        for number in range(first, first + count)
    ]


def _many(address: tuple[str, int], count: int, first: int) -> pipelined.Load:
    return pipelined.run(address, _frames(count, first), WINDOW)


def _alone(address: tuple[str, int], count: int, first: int) -> list[float]:
    return pipelined.one_by_one(address, _frames(count, first))


def rates_of(address: str) -> Rates:
    """Give the sets their ids, warm up (Java compiles while it runs), then measure."""
    for number in range(SETS):
        me = introduction(number)
        _give_id(
            address,
            controller_messages.apply_broker_id(me, 1, "127.0.0.1:1;bench", uuid.uuid4().hex),
        )
    at = split_address(address)
    apart(_many, at, WARM_UP, 0)
    times = apart(_alone, at, ALONE, 1_000_000)
    loads = [apart(_many, at, DECISIONS, turn * 2_000_000) for turn in range(1, TURNS + 1)]
    return Rates(
        [load.good_per_s for load in loads], times, sum(sum(load.bad.values()) for load in loads)
    )


def _give_id(address: str, application: RemotingCommand) -> None:
    """Asked again, under its one id, while the leader is elected and not ready yet."""
    limit = time.monotonic() + LEADER_WITHIN_S
    while (
        answer := asyncio.run(call(address, application))
    ).code == ResponseCode.CONTROLLER_NOT_LEADER and time.monotonic() < limit:
        time.sleep(POLL_S)
    if answer.code:
        raise BenchFailed(f"no broker id from {address}: {answer.code} {answer.remark}")


def leader_of(addresses: Sequence[str]) -> str:
    """The address that 1005 names as soon as there is one."""
    limit = time.monotonic() + LEADER_WITHIN_S
    while time.monotonic() < limit:
        for address in addresses:
            try:
                leader = asyncio.run(call(address, controller_messages.metadata())).ext.get(
                    "controllerLeaderAddress"
                )
            except (BenchFailed, OSError):
                continue
            if leader:
                return leader
        time.sleep(POLL_S)
    raise BenchFailed(f"no leader among {', '.join(addresses)} within {LEADER_WITHIN_S:.0f} s")


def _java(bench: Bench, nodes: int) -> Rates | None:
    try:
        with JavaWorld(bench.folder(f"java-{nodes}"), bench.say) as java:
            addresses = [one.address for one in java.controllers(nodes)]
            return rates_of(leader_of(addresses))
    except Problem as problem:
        bench.say(f"the Java controller was not measured: {problem}")
        return None


def _regent(bench: Bench, nodes: int) -> Rates:
    flags = (
        "--replicas",
        "0",
        "--controllers",
        str(nodes),
        "--kafka-nodes",
        str(nodes),
        "--no-land",
    )
    cluster = bench.cluster(f"decisions-{nodes}", *flags)
    return rates_of(cluster.active_controller())


def measure(bench: Bench) -> list[Figure]:
    figures: list[Figure] = []
    for nodes in (1, 3):
        bench.quiet()
        bench.say(f"{nodes} Java controller(s) of 5.3.3")
        java = _java(bench, nodes)
        bench.say(f"{nodes} Kafka node(s), {nodes} controller(s) of Regent")
        figures += compared(nodes, _regent(bench, nodes), java)
    bench.quiet()
    return figures


def compared(nodes: int, ours: Rates, java: Rates | None) -> list[Figure]:
    """The figures of one size of group."""
    names = (
        f"changed address, {nodes} node(s), {WINDOW} under way",
        f"changed address, {nodes} node(s), alone, p50",
    )
    if java is None:
        return [
            not_measured(ROW, name, unit, "no Java or no jars")
            for name, unit in zip(names, ("decisions/s", "ms"), strict=True)
        ]
    note = f"answers other than 0: ours {ours.refused}, Java's {java.refused}"
    return [
        Figure(
            ROW,
            names[0],
            "decisions/s",
            median(ours.per_s),
            "Java controller",
            median(java.per_s),
            note=note,
            samples=[round(one) for one in ours.per_s],
            details={"peer_samples": [round(one) for one in java.per_s]},
        ),
        Figure(
            ROW,
            names[1],
            "ms",
            median(ours.alone_ms),
            "Java controller",
            median(java.alone_ms),
            note=(f"{ALONE} one after the other"),
        ),
    ]
