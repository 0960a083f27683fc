"""A master that stands still (SIGSTOP) under the stock Java client with default settings: it is
replaced, or, with nobody who ends it, wakes when another one has led for a while.

Responsible for: one cluster through the `regent` command line, a producer and a push consumer that
run through all of it.
Refuses to know: who notices, and what takes its place.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable
from typing import Any

from tests.interop.java_client import Consumer, Producer, first_message, verdict
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster, wait_until

TOPIC = "stock-pauses"
RATE_PER_S = 200
# One that hangs again within 20 s of its start is given longer; two brokers take turns here.
CALM_S = 11
MEDIAN_MS_MAX, LONGEST_MS_MAX = 3_000, 6_000
REPEATS_A_BLOW = 4


Strike = Callable[[LocalCluster, Producer], tuple[str, int]]


def run(stage: Stage) -> list[Row]:
    """As often as --times says, whoever is the master then."""
    result = _measured(stage, pause)
    return [outages(result), in_order(result)]


def wakes(stage: Stage) -> list[Row]:
    """What lay in the socket of the old master is not stored behind what came later."""
    result = _measured(stage, _wake, "--watchdog-ms", "0")
    return [in_order(result), few_repeats(result)]


def outages(
    result: dict[str, Any],
    median_ms_max: float = MEDIAN_MS_MAX,
    longest_ms_max: float = LONGEST_MS_MAX,
) -> Row:
    """How long no send was answered behind each blow; `result` is the client's verdict."""
    times = [max(one["rto_ms"], one["longest_gap_ms"]) for one in result["outages"]]
    median, longest = statistics.median(times), max(times)
    figures = ", ".join(f"{one / 1000:.2f}" for one in times)
    return Row(
        f"outages: median {median_ms_max / 1000:.0f} s, longest {longest_ms_max / 1000:.0f} s",
        f"median {median / 1000:.2f} s, longest {longest / 1000:.2f} s ({figures})",
        median <= median_ms_max and longest <= longest_ms_max,
    )


def few_repeats(result: dict[str, Any]) -> Row:
    """One for each call that was under way; without the refusal of what is old it is all that lay
    in the socket (38 were seen).
    """
    most = REPEATS_A_BLOW * len(result["outages"])
    return Row(
        f"stored twice: {REPEATS_A_BLOW} a wake",
        f"{result['stored_twice']} of {most} that may be",
        result["stored_twice"] <= most,
    )


def in_order(result: dict[str, Any]) -> Row:
    """What the consumer was handed is what was acknowledged."""
    return Row(
        "every message, in order",
        f"{result['acknowledged']} acknowledged, lost {result['lost']}, out of order "
        f"{result['out_of_order']}, stored twice {result['stored_twice']}",
        result["lost"] == result["out_of_order"] == 0,
    )


def _measured(stage: Stage, strike: Strike, *flags: str) -> dict[str, Any]:
    with own_cluster(stage, *flags) as cluster:
        return _under_load(stage, cluster, strike)


def _under_load(stage: Stage, cluster: LocalCluster, strike: Strike) -> dict[str, Any]:
    times = int(stage.options.get("times") or 10)
    name_server = cluster.name_servers[0]
    first_message(stage, name_server, TOPIC)
    consumer = Consumer(stage, name_server, TOPIC, settings={})
    producer = Producer(stage, name_server, TOPIC, settings={}, rate=RATE_PER_S)
    pauses = []
    try:
        for number in range(1, times + 1):
            pauses.append(strike(cluster, producer))
            stage.say(f"{number} of {times}: {pauses[-1][0]} stood still")
        ledger = producer.stop()
        got = consumer.wait_for(ledger)
    finally:
        producer.end()
        consumer.stop()
    result = verdict("default", ledger, got, pauses, [*producer.said(), *consumer.said()])
    stage.documents["stock-pauses"] = result
    return result


def pause(cluster: LocalCluster, producer: Producer) -> tuple[str, int]:
    """The master stands still until another process has its place, and the set is whole again.
    Its name, and when it was stopped, ms of the wall clock.
    """
    view = cluster.whole()
    producer.flows(RATE_PER_S * CALM_S)
    name = cluster.view.process_at(str(view.master_address))["name"]
    at_ms = time.time_ns() // 1_000_000
    pid = cluster.strike(name, signal.SIGSTOP)
    wait_until(lambda: cluster.restarted(name, pid), f"{name} was replaced")
    cluster.whole()
    producer.flows(RATE_PER_S * CALM_S)
    return name, at_ms


def _wake(cluster: LocalCluster, producer: Producer) -> tuple[str, int]:
    """It wakes when another master has led for a while, with the client's sends in its socket."""
    before = cluster.whole()
    producer.flows(RATE_PER_S * CALM_S)
    name = cluster.view.process_at(str(before.master_address))["name"]
    at_ms = time.time_ns() // 1_000_000
    pid = cluster.strike(name, signal.SIGSTOP)
    cluster.set_view(
        "another master",
        lambda view: view.master_id is not None and view.master_epoch > before.master_epoch,
    )
    producer.flows(RATE_PER_S * CALM_S)
    os.kill(pid, signal.SIGCONT)
    cluster.whole()
    producer.flows(RATE_PER_S * CALM_S)
    return name, at_ms
