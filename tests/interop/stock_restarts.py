"""Planned changes under a stock client with default settings: brokers restarted in turn, a master
stopped and started 2 s later, the mastership handed over. No send fails.

Responsible for: one cluster through the `regent` command line, a producer and a push consumer that
run through all of it.
Refuses to know: how a former master goes on for clients with an old route.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.problems import Problem
from tests.interop.go_client import go
from tests.interop.java_client import Consumer, Producer, Words, first_message, java, verdict
from tests.interop.ledger import LedgerRow, longest_wait_ms, read_arrivals
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster, regent

TOPIC = "stock-restarts"
RATE_PER_S = 200
STOPPED_S = 2.0
STOP_WITHIN_S = 120.0
WAITS_MS_MAX = 10_000
"""A consumer that waits for its own timers (20 s for its queues, 30 s for its route) is found."""
NAMES = {
    "rolling": "regent restart --rolling",
    "stopped": "SIGTERM of the master, started 2 s after its end",
    "handed-over": "regent controller transfer",
}


def under_java(stage: Stage) -> list[Row]:
    """Each kind of change as often as --times says, under the Java client."""
    return _run(stage, "java", java)


def under_go(stage: Stage) -> list[Row]:
    """The same under the Go client."""
    return _run(stage, "go", go)


def _run(stage: Stage, client: str, words: Words) -> list[Row]:
    words(stage)  # what needs a compiler is said before anything starts
    with own_cluster(stage, folder=f"cluster-{client}", java_client=False) as cluster:
        return _under_load(stage, cluster, f"{TOPIC}-{client}", words)


def _under_load(stage: Stage, cluster: LocalCluster, topic: str, words: Words) -> list[Row]:
    name_server, times = cluster.name_servers[0], int(stage.options.get("times") or 10)
    first_message(stage, name_server, topic, words)
    consumer = Consumer(stage, name_server, topic, settings={}, words=words)
    producer = Producer(stage, name_server, topic, settings={}, rate=RATE_PER_S, words=words)
    parts: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMES}
    try:
        for name, change in (
            ("rolling", rolling),
            ("stopped", _stopped),
            ("handed-over", _handed_over),
        ):
            for number in range(1, times + 1):
                parts[name].append(_once(stage, cluster, producer, change))
                took_s = (parts[name][-1][1] - parts[name][-1][0]) / 1000
                stage.say(f"{NAMES[name]}, {number} of {times}: {took_s:.1f} s")
        ledger = producer.stop()
        got = consumer.wait_for(ledger)
    finally:
        producer.end()
        consumer.stop()
    result = verdict("default", ledger, got, [], [*producer.said(), *consumer.said()])
    stage.documents[topic] = result
    longest_ms = max(row.end_ms - row.start_ms for row in ledger)
    waited_ms = longest_wait_ms(ledger, read_arrivals(consumer.received))
    return [_row(name, parts[name], ledger) for name in NAMES] + [
        Row(
            "every message, in order",
            f"{result['acknowledged']} acknowledged, lost {result['lost']}, out of order "
            f"{result['out_of_order']}, stored twice {result['stored_twice']}",
            result["lost"] == result["out_of_order"] == 0,
        ),
        Row(
            f"the longest: to the push consumer {WAITS_MS_MAX / 1000:.0f} s",
            f"call {longest_ms} ms, from the acknowledgement to the push consumer {waited_ms} ms",
            waited_ms <= WAITS_MS_MAX,
        ),
    ]


def _once(
    stage: Stage,
    cluster: LocalCluster,
    producer: Producer,
    change: Callable[[LocalCluster], object],
) -> tuple[int, int]:
    """From the change until the set is whole again and messages have flowed; ms of the wall
    clock.
    """
    cluster.whole()
    producer.flows(RATE_PER_S)
    began_ms = time.time_ns() // 1_000_000
    change(cluster)
    cluster.whole()
    producer.flows(RATE_PER_S)
    return began_ms, time.time_ns() // 1_000_000


def _row(name: str, parts: list[tuple[int, int]], ledger: list[LedgerRow]) -> Row:
    failed = [
        row
        for row in ledger
        if row[3] != "SEND_OK" and any(began <= row[1] <= ended for began, ended in parts)
    ]
    sends = sum(any(began <= row[1] <= ended for began, ended in parts) for row in ledger)
    text = f"{len(parts)} times, {sends} calls, {len(failed)} failed"
    if failed:
        text += f", first {failed[0][3]}"
    return Row(f"{NAMES[name]}: no failed send", text, not failed)


def rolling(cluster: LocalCluster) -> float:
    """Restart all brokers in turn; how long that took, in s."""
    began = time.monotonic()
    _verb("restart", "--rolling", "--dir", str(cluster.folder.root))
    return time.monotonic() - began


def _stopped(cluster: LocalCluster) -> None:
    view = cluster.set_view("a master", lambda one: one.master_address is not None)
    name = cluster.view.process_at(str(view.master_address))["name"]
    cluster.folder.ask({"action": "hold", "name": name}, STOP_WITHIN_S)
    time.sleep(STOPPED_S)
    cluster.folder.ask({"action": "start", "name": name}, STOP_WITHIN_S)


def _handed_over(cluster: LocalCluster) -> None:
    _verb("controller", "transfer", "broker-a", "--dir", str(cluster.folder.root))


def _verb(*words: str) -> None:
    done = regent(*words)
    if done.returncode:
        raise Problem(f"regent {' '.join(words[:2])}", (done.stderr or done.stdout).strip()[:300])
