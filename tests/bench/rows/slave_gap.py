"""A slave dies or is paused: the longest gap between two answers that a sender sees until the set
goes on without it.
"""

from __future__ import annotations

import time
from typing import Any

from tests.bench import blows
from tests.bench.calls import longest_gap_ms
from tests.bench.cluster import BenchCluster, Caller, kill, paused
from tests.bench.figure import Figure, at_most
from tests.bench.run_context import Bench

TURNS = 2
TOPIC = "bench-slave-gap"
ROW = "slave-gap"
CALM_CALLS = 1_500


def _slave(cluster: BenchCluster) -> dict[str, Any]:
    cluster.wait_whole()
    _, master = cluster.master()
    return next(one for one in cluster.processes("broker") if one["name"] != master["name"])


def _normal_gap_s(sending: Caller) -> float:
    """The longest gap of a stretch in which nobody is hit: what the machine itself does."""
    sending.wait_calm()  # what the last blow held up has been sent
    began = time.monotonic_ns()
    sending.wait_calm(CALM_CALLS)
    return (
        longest_gap_ms(
            (call for call in sending.calls() if call.ended_ns >= began), began, time.monotonic_ns()
        )
        / 1000
    )


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.plain_cluster()
    killed, stopped, normal = [], [], []
    with cluster.sending(TOPIC) as sending:
        for _ in range(TURNS):
            victim = _slave(cluster)
            normal.append(_normal_gap_s(sending))
            killed.append(blows.seen_by(sending, kill(victim["pid"]), victim["name"]))
            cluster.wait_done(victim["pid"])
            bench.say(
                f"{victim['name']} killed: longest gap {killed[-1].seen.longest_gap_ms:.0f} ms"
            )
            victim = _slave(cluster)
            sending.wait_calm()
            with paused(victim["pid"]) as at_ns:
                stopped.append(blows.seen_by(sending, at_ns, victim["name"]))
            bench.say(
                f"{victim['name']} paused: longest gap {stopped[-1].seen.longest_gap_ms:.0f} ms"
            )
        cluster.wait_whole()
    return [
        _figure("slave kill -9", killed, max(normal)),
        _figure("slave paused", stopped, max(normal)),
        blows.loss(ROW, sending, cluster.name_server),
    ]


def _figure(what: str, struck: list[blows.Blow], normal_s: float) -> Figure:
    gaps = [round(blow.seen.longest_gap_ms / 1000, 3) for blow in struck]
    failed = sum(blow.seen.failed_calls for blow in struck)
    return Figure(
        ROW,
        f"longest gap, {what}",
        "s",
        max(gaps),
        "longest gap with nobody hit",
        round(normal_s, 3),
        floor=at_most(3.0),
        goal=at_most(1.2),
        note=(f"longest of {len(gaps)}; {failed} failed calls; {blows.CLIENT}; ackWaitShrink 1 s"),
        samples=gaps,
        details={"blows": [blow.document() for blow in struck]},
    )
