"""Messages with a delay level, or a time of delivery, under the stock Java client, while their
masters are killed: none is lost, none comes before its time.

Responsible for: one cluster through the `regent` command line, a producer and a consumer, two
kills while messages wait. Refuses to know: where delayed messages wait.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.interop.client_on_regent import masters_killed
from tests.interop.java_client import Consumer, Producer, first_message
from tests.interop.ledger import LedgerRow, acknowledged_of, whole_lines
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

TOPIC = "delayed"
DELAY_MS = 5_000
# Both ask for the same: the second level, or the milliseconds.
BY_LEVEL, BY_TIME = {"delayLevel": "2"}, {"delayMs": str(DELAY_MS)}
MESSAGES, RATE_PER_S = 2_000, 100
KILL_AT = (0.25, 0.6)
RECEIVED_WITHIN_S = 60.0
POLL_S = 0.1


def run(stage: Stage) -> list[Row]:
    """2,000 messages of 5 s, by level, the master killed twice meanwhile."""
    return _run(stage, BY_LEVEL)


def timed(stage: Stage) -> list[Row]:
    """The same by time: they wait in the timer wheel."""
    return _run(stage, BY_TIME)


def _run(stage: Stage, asked: Mapping[str, str]) -> list[Row]:
    with own_cluster(stage) as cluster:
        return _under_load(stage, cluster, asked)


def _under_load(stage: Stage, cluster: LocalCluster, asked: Mapping[str, str]) -> list[Row]:
    name_server = cluster.name_servers[0]
    first_message(stage, name_server, TOPIC)
    consumer = Consumer(stage, name_server, TOPIC)
    producer = Producer(
        stage, name_server, TOPIC, rate=RATE_PER_S, count=MESSAGES, options={**asked, "first": "1"}
    )
    try:
        masters_killed(stage, cluster, producer, MESSAGES, KILL_AT)
        ledger = producer.stop()
        came = _received(consumer, acknowledged_of(ledger))
    finally:
        producer.end()
        consumer.stop()
    return _judged(ledger, came)


def _received(consumer: Consumer, wanted: set[int]) -> dict[int, list[int]]:
    """Message -> when it was handed out, ms of the wall clock, each time."""
    deadline = time.monotonic() + RECEIVED_WITHIN_S
    while True:
        came: dict[int, list[int]] = {}
        for line in whole_lines(consumer.received):
            sequence, _, _, at_ms = map(int, line.split(","))
            came.setdefault(sequence, []).append(at_ms)
        if wanted <= came.keys() or time.monotonic() > deadline:
            return came
        time.sleep(POLL_S)


def _judged(ledger: list[LedgerRow], came: dict[int, list[int]]) -> list[Row]:
    good = {row.sequence: row for row in ledger if row.outcome == "SEND_OK"}
    lost = good.keys() - came.keys()
    # the first call for a message may have stored it, whatever was answered
    begun: dict[int, int] = {}
    for row in ledger:
        begun[row.sequence] = min(row.start_ms, begun.get(row.sequence, row.start_ms))
    early = [one for one in good.keys() & came.keys() if came[one][0] < begun[one] + DELAY_MS]
    late_ms = sorted(came[one][0] - good[one].end_ms - DELAY_MS for one in good.keys() - lost)
    twice = sum(len(times) - 1 for one, times in came.items() if one in good)
    return [
        Row(
            f"messages of {DELAY_MS / 1000:.0f} s, two masters killed: lost",
            f"{len(lost)} of {len(good)}",
            bool(good) and not lost,
        ),
        Row("before their time", f"{len(early)}", not early),
        Row(
            "behind their time, handed out again",
            f"median {late_ms[len(late_ms) // 2]} ms, longest {late_ms[-1]} ms; {twice} times "
            "again",
        ),
    ]
