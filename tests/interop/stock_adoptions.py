"""A set without controllers joins them and goes back, time and again, under the Java client with
its default settings: no send fails.

Responsible for: three brokers of Regent with fixed ids, a producer that runs through all of it, the
two verbs as they are typed, calls that failed and the longest call of each step.
Refuses to know: how a set changes over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from infra.problems import Problem
from tests.interop.fixed_sets import CLUSTER
from tests.interop.java_client import Producer, first_message, read_back
from tests.interop.ledger import LedgerRow
from tests.interop.own_cluster import own_cluster
from tests.interop.regent_broker import RegentBroker
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster, regent

NAME, TOPIC = "stock-moved", "stock-adoptions"
RATE_PER_S = 50
TIMES = 3
FLOW = 200
"""So many more are acknowledged before a step and behind it: four seconds."""
MOVES_WITHIN_S = 200.0
STANDS_WITHIN_S = 120.0
VERBS = ("adopt", "release")


def run(stage: Stage) -> list[Row]:
    """Both verbs in turn, as often as --times says."""
    times = int(stage.options.get("times") or TIMES)
    with (
        own_cluster(stage, "--replicas", "0", folder="cluster-adopts") as cluster,
        _brokers(stage, cluster),
    ):
        name_server = cluster.name_servers[0]
        first_message(stage, name_server, TOPIC)
        producer = Producer(stage, name_server, TOPIC, settings={}, rate=RATE_PER_S)
        steps: list[tuple[str, int, int]] = []
        try:
            for number in range(1, times + 1):
                for verb in VERBS:
                    steps.append(_step(stage, cluster, producer, verb, number))
            ledger = producer.stop()
        finally:
            producer.end()
        found = read_back(stage, name_server, TOPIC, ledger)
    rows = [judged_step(*step, ledger) for step in steps]
    return [*rows, Row("acknowledged lost", str(found), found.ok)]


@contextmanager
def _brokers(stage: Stage, cluster: LocalCluster) -> Iterator[None]:
    """A master and two slaves, as a file without `controllers` has them."""
    with ExitStack() as stack:
        for broker_id in range(3):
            one = RegentBroker(
                stage.java,
                f"{NAME}-{broker_id}",
                controllers=[],
                name_servers=cluster.name_servers,
                broker_set=NAME,
                cluster=CLUSTER,
                settings={"broker_id": broker_id},
            )
            stack.callback(one.end)
            one.start()
        stage.java.wait_until(
            lambda: bool(_asked(cluster, "adopt", "--dry-run").get("ready")),
            "the set could be adopted",
            STANDS_WITHIN_S,
        )
        yield


def _step(
    stage: Stage, cluster: LocalCluster, producer: Producer, verb: str, number: int
) -> tuple[str, int, int]:
    """(what, from, until) in ms of the wall clock: from the word for it until messages have flowed
    behind it.
    """
    producer.flows(FLOW)
    began_ms = time.time_ns() // 1_000_000
    document = _asked(cluster, verb, "--yes", "--wait", str(MOVES_WITHIN_S))
    if not document.get("done"):
        raise Problem(f"{verb} {number} did not come about", str(document)[:300])
    producer.flows(FLOW)
    ended_ms = time.time_ns() // 1_000_000
    what = f"regent controller {verb}, {number}"
    stage.say(judged_step(what, began_ms, ended_ms, producer.rows()).result)
    return what, began_ms, ended_ms


def _asked(cluster: LocalCluster, verb: str, *flags: str) -> dict[str, object]:
    """The document of the verb; what it says where it failed is one as well."""
    done = regent(*("controller", verb, NAME, "--json", *flags), "--dir", str(cluster.folder.root))
    found: dict[str, object] = json.loads(done.stdout)
    return found


def judged_step(what: str, began_ms: int, ended_ms: int, ledger: Sequence[LedgerRow]) -> Row:
    """Of the calls under way in that time: how many failed, and how long the longest took."""
    calls = [row for row in ledger if row.end_ms >= began_ms and row.start_ms <= ended_ms]
    failed = [row for row in calls if row.outcome != "SEND_OK"]
    longest_ms = max((row.end_ms - row.start_ms for row in calls), default=0)
    text = f"{len(calls)} calls, {len(failed)} failed, longest {longest_ms} ms"
    if failed:
        text += f"; first {failed[0].outcome}"
    return Row(f"{what}: no failed send", text, bool(calls) and not failed)
