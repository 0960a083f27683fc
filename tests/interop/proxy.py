"""RocketMQ's proxy in CLUSTER mode in front of a Regent cluster, under the stock gRPC client: all
kinds of messages and consumers, and masters killed under sends and receipts.

Responsible for: one cluster through the `regent` command line, the proxy, its clients, two kills.
Refuses to know: what is promised of pops (`judged_pops`), and of the rest (`judged_proxy`).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import call
from infra.features.counts import Blow, Counts
from infra.features.judged_pops import judge_pops
from infra.problems import Problem
from infra.processes import children
from tests.interop import judged_proxy
from tests.interop.client_on_regent import masters_killed
from tests.interop.java_client import Consumer, Producer, first_message
from tests.interop.java_pops import INVISIBLE_MS, read_popped, rows_of, sent_of
from tests.interop.java_proxy import JavaProxy, grpc_class_path, grpc_words
from tests.interop.ledger import LedgerRow, acknowledged_of, whole_lines
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

CLUSTER = "regent"
KINDS = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
LOADED, RELAYED = "GrpcLoaded", "Relayed"
FEATURE_MESSAGES = 60
MESSAGES, RATE_PER_S = 1_200, 50
KILL_AT = (0.25, 0.6)
RELAYED_MESSAGES = 400
STARTED_WITHIN_S = 90.0
CALL_MS = 10_000
# Questions about transactions come up to a minute behind the send, dead letters behind ten seconds.
FEATURES_WITHIN_S = 180.0
RECEIVED_WITHIN_S = 120.0
# What was recalled is due 30 s behind its send; what was acknowledged would come behind its time.
QUIET_S = 30.0
POLL_S = 0.2
# A master's last copies of its tables are half a second old; the blow itself takes its time.
TWICE_WITHIN_MS = 1_500


def run(stage: Stage) -> list[Row]:
    """One cluster, one proxy: features, a client of RocketMQ's own protocol, kills."""
    with own_cluster(stage) as cluster:
        _made(cluster)
        proxy = JavaProxy(stage, cluster.name_servers, CLUSTER)
        stage.java.adopt(proxy)
        try:
            words = grpc_words(stage, grpc_class_path(stage))
            stage.say(f"the proxy listens on {proxy.address}")
            rows = _features(stage, proxy, words)
            rows += _dead_letters(stage, cluster)
            rows += _relayed(stage, proxy)
            rows += _under_kills(stage, cluster, proxy, words)
            rows.append(_what_it_says(proxy))
        finally:
            proxy.stop()
        return rows


def _made(cluster: LocalCluster) -> None:
    """Topics of each kind; a group whose order is kept, and one with a single retry."""
    master = str(cluster.whole().master_address)
    topics = {f"Grpc{kind}": kind for kind in KINDS} | {LOADED: "NORMAL", RELAYED: "NORMAL"}
    for topic, kind in topics.items():
        # the proxy takes no message for a topic that is not there yet
        fields = {"topic": topic, "attributes": f"+message.type={kind}", "perm": "6"}
        fields |= {"readQueueNums": "4", "writeQueueNums": "4", "topicFilterType": "SINGLE_TAG"}
        fields |= {"defaultTopic": "TBW102", "topicSysFlag": "0", "order": "false"}
        _did(master, RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields))
    for group in (
        {"groupName": "grpc-fifo", "consumeMessageOrderly": True},
        {"groupName": "grpc-dead", "retryMaxTimes": 1},
    ):
        code, body = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, fastjson.dumps(group)
        _did(master, RemotingCommand.request(code, body=body))


def _did(master: str, request: RemotingCommand) -> None:
    answer = call(master, request, CALL_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise Problem(f"{master} answers {request.code} with {answer.code}", answer.remark or "")


@contextmanager
def _client(
    words: list[str], out: Path, options: Mapping[str, object]
) -> Iterator[Callable[[], bool]]:
    """The gRPC program for the time of the block; gives whether it runs."""
    said = out.with_suffix(".out")
    pairs = [f"{key}={value}" for key, value in options.items()]
    child = children.spawn([*words, *pairs], said, cwd=out.parent, wants_input=True)
    try:
        yield lambda: child.poll() is None
    finally:
        assert child.stdin is not None
        child.stdin.close()
        children.stop(child, 10.0)


def _features(stage: Stage, proxy: JavaProxy, words: list[str]) -> list[Row]:
    home = stage.work / "clients"
    home.mkdir(parents=True, exist_ok=True)
    out = home / "grpc-features.csv"
    topics = {kind.lower(): f"Grpc{kind}" for kind in KINDS}
    options = {"mode": "features", "endpoints": proxy.address, "messages": FEATURE_MESSAGES}
    stage.say("gRPC: every kind of message, eight consumers")
    with _client(words, out, {**options, **topics, "out": out}) as runs:
        _until(runs, lambda: judged_proxy.has_all(_read(out)), FEATURES_WITHIN_S)
        time.sleep(QUIET_S)
        if not runs():
            raise Problem("the gRPC client ended", "\n".join(_last(out)))
        return judged_proxy.judged(_read(out), FEATURE_MESSAGES)


def _read(out: Path) -> judged_proxy.Said:
    return judged_proxy.read(whole_lines(out))


def _last(out: Path) -> list[str]:
    """What it said, without the calls below an exception."""
    said = children.last_lines(out.with_suffix(".out"), 60)
    return [line for line in said if not line.startswith("\t") and " at " not in f" {line.strip()}"]


def _until(runs: Callable[[], bool], condition: Callable[[], bool], limit_s: float) -> None:
    """Until the condition holds, or time is up, or the client has ended; who waits judges."""
    deadline = time.monotonic() + limit_s
    while not condition() and runs() and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _dead_letters(stage: Stage, cluster: LocalCluster) -> list[Row]:
    words = ("consumeMessage", "-t", "%DLQ%grpc-dead", "-c", "20", "-n", cluster.name_servers[0])
    wanted = Counter(str(number) for number in range(judged_proxy.DEAD_BELOW))
    deadline = time.monotonic() + RECEIVED_WITHIN_S
    while True:
        text = stage.java.mqadmin(*words).text
        found = Counter(re.findall(r"KEYS=(\d+)", text))
        if found == wanted or time.monotonic() > deadline:
            break
    return [Row("dead letters", f"{sorted(found.elements())}", found == wanted)]


def _relayed(stage: Stage, proxy: JavaProxy) -> list[Row]:
    """A client of RocketMQ's own protocol, which knows nothing but the proxy."""
    address = f"127.0.0.1:{proxy.settings['remotingListenPort']}"
    stage.say(f"RocketMQ's own protocol through the proxy at {address}")
    first_message(stage, address, RELAYED)
    consumer = Consumer(stage, address, RELAYED)
    producer = Producer(stage, address, RELAYED, count=RELAYED_MESSAGES)
    try:
        producer.wait(lambda rows: len(acknowledged_of(rows)) >= RELAYED_MESSAGES, "sending")
        ledger = producer.stop()
        came = {one[0] for one in consumer.wait_for(ledger)}
    finally:
        producer.end()
        consumer.stop()
    good = acknowledged_of(ledger)
    lost = good - came
    return [Row("remoting client through the proxy: lost", f"{len(lost)} of {len(good)}", not lost)]


def _under_kills(
    stage: Stage, cluster: LocalCluster, proxy: JavaProxy, words: list[str]
) -> list[Row]:
    home = stage.work / "clients"
    out, pushed, ready = home / "grpc-popped.csv", home / "grpc-pushed.csv", home / "grpc-ready"
    options = {"mode": "follow", "endpoints": proxy.address, "topic": LOADED, "popped": out}
    more = {"pushed": pushed, "ready": ready, "invisibleMs": INVISIBLE_MS}
    with _client(words, out, {**options, **more}) as runs:
        _until(runs, ready.exists, STARTED_WITHIN_S)
        if not ready.exists():
            raise Problem("the gRPC consumers got nothing", "\n".join(_last(out)))
        ledger, blows = _sent_under_kills(stage, cluster, proxy, words)
        wanted = acknowledged_of(ledger)
        _until(runs, lambda: wanted <= _acknowledged(out), RECEIVED_WITHIN_S)
        _until(runs, lambda: wanted <= set(_numbers(pushed)), RECEIVED_WITHIN_S)
        time.sleep(QUIET_S)
    return [*_popped(ledger, out, blows), *_pushed(ledger, pushed)]


def _sent_under_kills(
    stage: Stage, cluster: LocalCluster, proxy: JavaProxy, words: list[str]
) -> tuple[list[LedgerRow], list[Blow]]:
    producer = Producer(
        stage,
        cluster.name_servers[0],
        LOADED,
        settings={},
        rate=RATE_PER_S,
        count=MESSAGES,
        options={"endpoints": proxy.address},
        words=lambda _: words,
    )
    try:
        blows = masters_killed(stage, cluster, producer, MESSAGES, KILL_AT)
        return producer.stop(), blows
    finally:
        producer.end()


def _acknowledged(popped: Path) -> set[int]:
    given, _ = read_popped(popped)
    return {number for number, times in given.items() if any(one.answered_ms for one in times)}


def _numbers(pushed: Path) -> list[int]:
    return [int(line.split(",")[0]) for line in whole_lines(pushed)]


def _popped(ledger: list[LedgerRow], popped: Path, blows: list[Blow]) -> list[Row]:
    given, unanswered = read_popped(popped)
    counts = Counts("pops")
    judge_pops(counts, sent_of(ledger), given, unanswered, blows)
    oldest = max(counts.twice_ms, default=0)
    return [
        *rows_of(counts, "simple gRPC consumer, two masters killed"),
        Row(
            "acknowledged and back: popped before the kill by at most",
            f"{oldest} ms",
            oldest <= TWICE_WITHIN_MS,
        ),
    ]


def _pushed(ledger: list[LedgerRow], pushed: Path) -> list[Row]:
    good, came = acknowledged_of(ledger), Counter(_numbers(pushed))
    lost = good - came.keys()
    calls = Counter(row.sequence for row in ledger)
    again = [one for one in good if came[one] > calls[one]]
    failed = sum(row.outcome != "SEND_OK" for row in ledger)
    gap = max(row.end_ms - row.start_ms for row in ledger)
    return [
        Row(
            "push gRPC consumer, two masters killed: lost",
            f"{len(lost)} of {len(good)}, {len(again)} came again",
            bool(good) and not lost,
        ),
        Row("gRPC sends meanwhile", f"{failed} failed calls, the longest took {gap} ms"),
    ]


def _what_it_says(proxy: JavaProxy) -> Row:
    """Nothing that it asked for was unknown to a broker or a name server."""
    unknown = proxy.log_lines(r"not supported|CODE: 3 ")
    return Row(
        "requests of the proxy that nobody knows", f"{len(unknown)} {unknown[:2]}", not unknown
    )
