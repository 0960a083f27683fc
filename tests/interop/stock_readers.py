"""Readers that pull from one replica by its id, whichever role it has, while all brokers are
restarted in turn: what the Java client's consumers do that read from slaves. No pull is refused.

Responsible for: one cluster through the `regent` command line, a producer, a reader for each
replica.
Refuses to know: how a replica that stops keeps its readers.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.interop.java_client import Consumer, Producer, first_message, java
from tests.interop.ledger import (
    LedgerRow,
    acknowledged_of,
    disorder,
    longest_wait_ms,
    read_arrivals,
    read_refused,
)
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.interop.stock_restarts import RATE_PER_S, rolling
from tests.support.local_cluster import LocalCluster

TOPIC = "stock-restarts-pulls"


def run(stage: Stage) -> list[Row]:
    """As many rolling restarts as --times says."""
    java(stage)  # what needs a compiler is said before anything starts
    with own_cluster(stage, folder="cluster-pulls", java_client=False) as cluster:
        return _under_load(stage, cluster, int(stage.options.get("times") or 10))


def _under_load(stage: Stage, cluster: LocalCluster, times: int) -> list[Row]:
    name_server = cluster.name_servers[0]
    first_message(stage, name_server, TOPIC)
    readers = {
        broker_id: _reader(stage, name_server, broker_id)
        for broker_id in range(1, len(cluster.processes("broker")) + 1)
    }
    producer = Producer(stage, name_server, TOPIC, settings={}, rate=RATE_PER_S)
    try:
        for number in range(1, times + 1):
            cluster.whole()
            producer.flows(RATE_PER_S)
            took_s = rolling(cluster)
            stage.say(f"regent restart --rolling, {number} of {times}: {took_s:.1f} s")
        cluster.whole()
        producer.flows(RATE_PER_S)
        ledger = producer.stop()
        return [_row(broker_id, one, ledger) for broker_id, one in readers.items()]
    finally:
        producer.end()
        for one in readers.values():
            one.stop()


def _reader(stage: Stage, name_server: str, broker_id: int) -> Consumer:
    name = f"{TOPIC}-{broker_id}"
    options = {"brokerId": str(broker_id), "refused": str(_refused_file(stage, name))}
    return Consumer(stage, name_server, TOPIC, settings={}, name=name, mode="pull", options=options)


def _row(broker_id: int, reader: Consumer, ledger: list[LedgerRow]) -> Row:
    got = reader.wait_for(ledger)
    refused = read_refused(_refused_of(reader.received))
    lost = acknowledged_of(ledger) - {row[0] for row in got}
    breaches = disorder(ledger, got)
    kinds = ", ".join(f"{what} {n}" for what, n in Counter(row[3] for row in refused).items())
    return Row(
        f"pulls from replica {broker_id}: none refused, every message, in order",
        f"{len(refused)} refused{f' ({kinds})' if kinds else ''}, lost {len(lost)}, out of order "
        f"{len(breaches)}, the longest from the acknowledgement to the reader "
        f"{longest_wait_ms(ledger, read_arrivals(reader.received))} ms",
        not refused and not lost and not breaches,
    )


def _refused_file(stage: Stage, name: str) -> Path:
    return _refused_of(stage.work / "clients" / f"{name}-received.csv")


def _refused_of(received: Path) -> Path:
    return received.with_name(received.name.replace("-received", "-refused"))
