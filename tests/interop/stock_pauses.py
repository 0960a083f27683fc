"""A master that stands still (SIGSTOP, for good) under the stock Java client with default settings.

Responsible for: one cluster through the `regent` command line, a producer and a push consumer that
run through all of it.
Refuses to know: who notices, and what takes its place.
"""

from __future__ import annotations

import signal
import statistics
import time

from tests.interop.java_client import Consumer, Producer, first_message, verdict
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster, wait_until

TOPIC = "stock-pauses"
RATE_PER_S = 200
# One that hangs again within 20 s of its start is given longer; two brokers take turns here.
CALM_S = 11
MEDIAN_MS_MAX, LONGEST_MS_MAX = 3_000, 6_000


def run(stage: Stage) -> list[Row]:
    """As often as --times says, whoever is the master then."""
    times = int(stage.options.get("times") or 10)
    cluster = LocalCluster(stage.work / "cluster")
    try:
        stage.client_class_path  # noqa: B018  what needs a compiler is said before anything starts
        stage.say("starting a cluster: Kafka, two controllers, a name server, three brokers")
        cluster.up()
        rows = _under_load(stage, cluster, times)
        cluster.down()
    finally:
        cluster.end()
    return rows


def _under_load(stage: Stage, cluster: LocalCluster, times: int) -> list[Row]:
    name_server = cluster.name_servers[0]
    first_message(stage, name_server, TOPIC)
    consumer = Consumer(stage, name_server, TOPIC, settings={})
    producer = Producer(stage, name_server, TOPIC, settings={}, rate=RATE_PER_S)
    pauses = []
    try:
        for number in range(1, times + 1):
            pauses.append(_pause(cluster, producer))
            stage.say(f"{number} of {times}: {pauses[-1][0]} stood still and was replaced")
        ledger = producer.stop()
        got = consumer.wait_for(ledger)
    finally:
        producer.end()
        consumer.stop()
    result = verdict("default", ledger, got, pauses, [*producer.said(), *consumer.said()])
    stage.documents["stock-pauses"] = result
    outages = [max(one["rto_ms"], one["longest_gap_ms"]) for one in result["outages"]]
    median, longest = statistics.median(outages), max(outages)
    figures = ", ".join(f"{one / 1000:.2f}" for one in outages)
    return [
        Row(
            f"outages: median {MEDIAN_MS_MAX / 1000:.0f} s, longest {LONGEST_MS_MAX / 1000:.0f} s",
            f"median {median / 1000:.2f} s, longest {longest / 1000:.2f} s ({figures})",
            median <= MEDIAN_MS_MAX and longest <= LONGEST_MS_MAX,
        ),
        Row(
            "every message, in order",
            f"{result['acknowledged']} acknowledged, lost {result['lost']}, out of order "
            f"{result['out_of_order']}, stored twice {result['stored_twice']}",
            result["lost"] == result["out_of_order"] == 0,
        ),
    ]


def _pause(cluster: LocalCluster, producer: Producer) -> tuple[str, int]:
    """The master's name, and when it was stopped, ms of the wall clock."""
    view = cluster.whole()
    producer.flows(RATE_PER_S * CALM_S)
    name = cluster.view.process_at(str(view.master_address))["name"]
    at_ms = time.time_ns() // 1_000_000
    pid = cluster.strike(name, signal.SIGSTOP)
    wait_until(lambda: cluster.restarted(name, pid), f"{name} was replaced")
    cluster.whole()
    producer.flows(RATE_PER_S * CALM_S)
    return name, at_ms
