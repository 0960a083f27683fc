"""The released Java client 5.3.3 against Regent's own brokers while their master is killed twice.

Responsible for: one cluster through the `regent` command line, default and tuned client settings,
two kills each.
Refuses to know: how Regent works inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infra.features.counts import Blow
from infra.features.use import now_ms
from infra.problems import Problem
from tests.interop.java_client import Consumer, Producer, first_message, verdict
from tests.interop.ledger import LedgerRow, acknowledged_of
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

MESSAGES = 20_000
RATE_PER_S = 800
KILL_AT = (0.25, 0.6)
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "tuned": {"pollMs": "200", "timeoutMs": "500"},
}


def run(stage: Stage) -> list[Row]:
    """Both client settings, or the one that --only names."""
    messages = int(stage.options.get("messages") or MESSAGES)
    only = stage.options.get("only")
    results: list[dict[str, Any]] = []
    with own_cluster(stage) as cluster:
        for label, extra in SETTINGS.items():
            if only in (None, label):
                cluster.whole()
                stage.say(f"{messages} messages, client settings {label} {extra or ''}")
                results.append(_once(stage, cluster, label, extra, messages))
    lost = sum(result["lost"] for result in results)
    complete = all(result["acknowledged"] == result["sent"] == messages for result in results)
    stage.documents["client"] = {"results": results, "lost": lost, "complete": complete}
    return [row for result in results for row in _rows(result, messages)]


def _once(
    stage: Stage, cluster: LocalCluster, label: str, extra: dict[str, str], messages: int
) -> dict[str, Any]:
    """Send and consume `messages` with one set of client settings while the master dies twice."""
    name_server, topic = cluster.name_servers[0], f"Interop-{label}"
    first_message(stage, name_server, topic)
    consumer = Consumer(stage, name_server, topic, settings=extra)
    producer = Producer(stage, name_server, topic, settings=extra, rate=RATE_PER_S, count=messages)
    try:
        kills: list[tuple[str, int]] = []
        for share in KILL_AT:
            producer.wait(lambda rows, share=share: len(rows) >= messages * share, "sending")  # type: ignore[misc]
            if kills:
                cluster.whole()
            kills.append(kill_master(cluster))
            stage.say(f"kill -9 {kills[-1][0]}")
        producer.wait(lambda rows: _is_done(rows, messages), "sending to the end")
        rows = producer.stop()
        got = consumer.wait_for(rows)
        consumer.stop()
    finally:
        producer.end()
        consumer.stop()
    return verdict(label, rows, got, kills, [*producer.said(), *consumer.said()])


def _is_done(rows: list[LedgerRow], messages: int) -> bool:
    return len(acknowledged_of(rows)) >= messages


def kill_master(cluster: LocalCluster) -> tuple[str, int]:
    """`kill -9` of the master's process; its name and the wall clock in ms."""
    view = cluster.set_view("a master", lambda one: one.master_address is not None)
    process = cluster.view.process_at(str(view.master_address))
    if process["pid"] is None:
        raise Problem("no master to kill", "look at 'regent status'")
    return process["name"], int(cluster.view.kill(process))


def masters_killed(
    stage: Stage, cluster: LocalCluster, producer: Producer, messages: int, at: Sequence[float]
) -> list[Blow]:
    """A master is killed when these shares of the messages are acknowledged, each time once the set
    is whole; returns when all are acknowledged.
    """
    blows: list[Blow] = []
    for share in at:
        producer.wait(
            lambda rows, share=share: len(acknowledged_of(rows)) >= messages * share,  # type: ignore[misc]
            "sending",
        )
        cluster.whole()
        begun_ms = now_ms()
        name, _ = kill_master(cluster)
        blows.append(Blow(begun_ms, now_ms()))
        stage.say(f"kill -9 {name}")
    producer.wait(lambda rows: len(acknowledged_of(rows)) >= messages, "sending to the end")
    return blows


def _rows(result: dict[str, Any], messages: int) -> list[Row]:
    label = result["settings"]
    rows = [
        Row(
            f"client settings {label}: acknowledged lost",
            f"{result['lost']} of {result['acknowledged']}, out of order {result['out_of_order']}, "
            f"stored twice {result['stored_twice']}, call p50 {result['call_p50_ms']} ms p99 "
            f"{result['call_p99_ms']} ms",
            result["lost"] == result["out_of_order"] == 0
            and result["acknowledged"] == result["sent"] == messages,
        )
    ]
    for one in result["outages"]:
        failed = (
            (f"{one['failed_calls']} failed calls, first {one['first_failure']}")
            if one["failed_calls"]
            else "no failed call"
        )
        text = (
            f"RTO {one['rto_ms']} ms, longest gap between answers {one['longest_gap_ms']} ms, "
            f"{failed}"
        )
        rows.append(Row(f"client settings {label}: kill -9 {one['killed']}", text))
    return rows
