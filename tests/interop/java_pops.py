"""A pop consumer of the stock Java client while its masters are killed: all comes, what it left
comes back behind its invisible time, what it acknowledged stays away but for the stated window.

Responsible for: one cluster through the `regent` command line, a producer, a consumer that pops,
two kills. Refuses to know: where check points lie, and what is promised of them (`judged_pops`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from infra.features.counts import Blow, Counts, Sent
from infra.features.judged_pops import Given, Unanswered, judge_pops
from tests.interop.client_on_regent import masters_killed
from tests.interop.java_client import CLIENT_JVM, Consumer, Producer, first_message
from tests.interop.ledger import LedgerRow, acknowledged_of, whole_lines
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

TOPIC = "popped"
MESSAGES, RATE_PER_S = 1_500, 60
KILL_AT = (0.25, 0.6)
INVISIBLE_MS = 10_000
RECEIVED_WITHIN_S = 120.0
# What was acknowledged would come back behind its time, and a few seconds more.
QUIET_S = INVISIBLE_MS / 1000 + 5
POLL_S = 0.2


def run(stage: Stage) -> list[Row]:
    """1,500 messages, a third of them left the first time, the master killed twice meanwhile."""
    with own_cluster(stage) as cluster:
        return _under_load(stage, cluster)


def popper(stage: Stage, name_servers: str, topic: str) -> Consumer:
    """The stock client that pops this topic until it is stopped."""
    return Consumer(
        stage,
        name_servers,
        topic,
        name=f"{topic}-pops",
        mode="pop",
        options={"invisibleMs": str(INVISIBLE_MS)},
        words=lambda on: ["java", *CLIENT_JVM, "-cp", on.client_class_path, "PopClient"],
    )


def _under_load(stage: Stage, cluster: LocalCluster) -> list[Row]:
    name_server = cluster.name_servers[0]
    first_message(stage, name_server, TOPIC)
    consumer = popper(stage, name_server, TOPIC)
    producer = Producer(stage, name_server, TOPIC, rate=RATE_PER_S, count=MESSAGES)
    try:
        blows = masters_killed(stage, cluster, producer, MESSAGES, KILL_AT)
        ledger = producer.stop()
        _wait_done(consumer.received, acknowledged_of(ledger))
    finally:
        producer.end()
        consumer.stop()
    return judged(ledger, consumer.received, blows, "two masters killed")


def _wait_done(path: Path, wanted: set[int]) -> None:
    """Until all is acknowledged, or time is up; and then until what comes again has come."""
    deadline = time.monotonic() + RECEIVED_WITHIN_S
    while time.monotonic() < deadline:
        given, _ = read_popped(path)
        done = {number for number, times in given.items() if any(one.answered_ms for one in times)}
        if wanted <= done:
            break
        time.sleep(POLL_S)
    time.sleep(QUIET_S)


def read_popped(path: Path) -> tuple[dict[int, list[Given]], list[Unanswered]]:
    """What PopClient's file says; the message that made the topic (−1) is left out."""
    given: dict[int, list[Given]] = {}
    unanswered = []
    for line in whole_lines(path):
        kind, *words = line.split(",")
        numbers = [int(word) for word in words]
        if kind == "U":
            unanswered.append(Unanswered(numbers[0], numbers[1], INVISIBLE_MS))
        elif kind == "G" and numbers[0] >= 0:
            number, is_back, pop_ms, visible_ms = numbers[:4]
            given.setdefault(number, []).append(Given(bool(is_back), pop_ms, visible_ms))
        elif kind in ("S", "A"):
            for one in given.get(numbers[0], ()):
                if one.pop_ms == numbers[1]:
                    one.is_asked = True
                    one.answered_ms = numbers[2] if kind == "A" else one.answered_ms
    return given, unanswered


def sent_of(ledger: Sequence[LedgerRow]) -> dict[int, Sent]:
    """Each message of a ledger by its number."""
    sent: dict[int, Sent] = {}
    for row in ledger:
        one = sent.setdefault(row.sequence, Sent(row.start_ms, row.start_ms))
        one.begun_ms = min(one.begun_ms, row.start_ms)
        one.calls += 1
        if row.outcome == "SEND_OK":
            one.answered_ms = row.end_ms
    return sent


def judged(ledger: Sequence[LedgerRow], popped: Path, blows: Sequence[Blow], how: str) -> list[Row]:
    """The rows of a run."""
    given, unanswered = read_popped(popped)
    counts = Counts("pops")
    judge_pops(counts, sent_of(ledger), given, unanswered, blows)
    return rows_of(counts, f"popped by the stock Java client, {how}")


def rows_of(counts: Counts, what: str) -> list[Row]:
    """What was counted, as a table has it."""
    return [Row(what, counts.text(), counts.problem is None), *_broken(counts)]


def _broken(counts: Counts) -> list[Row]:
    return [Row(f"{counts.what}: broken", counts.problem, False)] if counts.problem else []
