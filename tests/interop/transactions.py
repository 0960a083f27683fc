"""Transactions of the stock Java client, while their masters are killed: what was committed comes,
what was rolled back never does, what was left open is asked about.

Responsible for: one cluster through the `regent` command line, a producer that commits, rolls back
and leaves open, a consumer, two kills. Refuses to know: where halves wait.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from tests.interop.client_on_regent import masters_killed
from tests.interop.java_client import Consumer, Producer, first_message
from tests.interop.ledger import LedgerRow, acknowledged_of, whole_lines
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

TOPIC = "transacted"
MESSAGES, RATE_PER_S = 1_500, 100
KILL_AT = (0.25, 0.6)
# The first round of questions comes 30 s behind the last election, and at worst once more.
RECEIVED_WITHIN_S = 150.0
POLL_S = 0.2


def run(stage: Stage) -> list[Row]:
    """1,500 transactions, the master killed twice meanwhile."""
    with own_cluster(stage) as cluster:
        return _under_load(stage, cluster)


def is_committed(sequence: int) -> bool:
    """What the client's listener decides, at once or when it is asked."""
    return sequence % 3 == 0 or (sequence % 3 == 2 and sequence // 3 % 2 == 0)


def _under_load(stage: Stage, cluster: LocalCluster) -> list[Row]:
    name_server = cluster.name_servers[0]
    first_message(stage, name_server, TOPIC)
    asked = stage.work / "clients" / f"{TOPIC}-asked.csv"
    consumer = Consumer(stage, name_server, TOPIC)
    producer = Producer(
        stage,
        name_server,
        TOPIC,
        rate=RATE_PER_S,
        count=MESSAGES,
        options={"mode": "transact", "asked": str(asked)},
    )
    try:
        masters_killed(stage, cluster, producer, MESSAGES, KILL_AT)
        stage.say("waiting for the questions about what was left open")
        wanted = {one for one in acknowledged_of(producer.rows()) if is_committed(one)}
        came = _received(consumer, wanted)
        ledger = producer.stop()
    finally:
        producer.end()
        consumer.stop()
    return _judged(ledger, came, asked)


def _received(consumer: Consumer, wanted: set[int]) -> Counter[int]:
    """Message -> how often it was handed out."""
    deadline = time.monotonic() + RECEIVED_WITHIN_S
    while True:
        came = Counter(int(line.split(",")[0]) for line in whole_lines(consumer.received))
        if wanted <= came.keys() or time.monotonic() > deadline:
            return came
        time.sleep(POLL_S)


def _judged(ledger: list[LedgerRow], came: Counter[int], asked: Path) -> list[Row]:
    good = acknowledged_of(ledger)
    wanted = {one for one in good if is_committed(one)}
    lost = wanted - came.keys()
    wrong = [one for one in came if one >= 0 and not is_committed(one)]
    calls = Counter(row.sequence for row in ledger)
    again = {one for one in wanted if came[one] > 1}
    once_sent = {one for one in again if calls[one] == 1}
    questions = Counter(int(line.split(",")[0]) for line in whole_lines(asked))
    ended_at_once = [one for one in questions if one % 3 != 2]
    return [
        Row(
            "transactions, two masters killed: committed ones lost",
            f"{len(lost)} of {len(wanted)}",
            bool(wanted) and not lost,
        ),
        Row("rolled back and visible", f"{len(wrong)}", not wrong),
        Row(
            "committed ones that came again",
            f"{len(again)}, of these {len(once_sent)} sent with one call",
        ),
        Row(
            "questions",
            f"{sum(questions.values())} about {len(questions)} of {len(good)}; about "
            f"{len(ended_at_once)} that were ended at once",
        ),
    ]
