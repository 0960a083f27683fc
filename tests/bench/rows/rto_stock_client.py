"""RTO of the released Java client with its default settings (route read every 30 s, 3 s for a
call): at our brokers, and at a Java set.

The old process is started again at once, as a supervisor does: a client that knows no other address
waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.problems import Problem
from tests.bench import cluster
from tests.bench.figure import Figure, at_most, not_measured
from tests.bench.java_brokers import all_java
from tests.bench.own_set import create_topic
from tests.bench.rows.rto_beside_java import PEER, SMALL_FILES, Struck
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.interop.java_client import Outage, Producer, outage_after, read_back
from tests.interop.stage import Stage

ROW = "rto-stock-java"
KILLS, JAVA_KILLS = 5, 4
TOPIC = "bench-stock"
WHAT = "RTO, kill -9, stock Java client"
Strike = Callable[[], str]


def now_ms() -> int:
    """The wall clock, as the client's ledger has it."""
    return time.time_ns() // 1_000_000


def _struck(
    bench: Bench,
    stage: Stage,
    name_servers: str,
    label: str,
    count: int,
    strike: Strike,
    whole: Callable[[], object],
) -> Struck:
    """`strike` kills the master and gives its name; `whole` waits until the set is."""
    producer = Producer(stage, name_servers, TOPIC, settings={}, name=f"{TOPIC}-{label}")
    blows: list[tuple[str, int, int]] = []
    whole_s: list[float] = []
    try:
        for number in range(1, count + 1):
            producer.flows(400)
            whole()
            began_ms = now_ms()
            blows.append((strike(), began_ms, now_ms()))
            producer.flows(400)
            whole()
            whole_s.append((now_ms() - began_ms) / 1000)
            bench.say(f"{label}, kill {number}: whole again after {whole_s[-1]:.1f} s")
        producer.flows(400)
        rows = producer.stop()
    finally:
        producer.end()
    ends = [at for _, at, _ in blows[1:]] + [max(row[2] for row in rows) + 1]
    outages: list[Outage] = [
        outage_after(rows, name, at, end, gone)
        for (name, at, gone), end in zip(blows, ends, strict=True)
    ]
    found = read_back(stage, name_servers, TOPIC, rows, name=f"{TOPIC}-{label}-back")
    failed = sum(one.failed_calls for one in outages)
    return Struck(
        [one.rto_ms / 1000 for one in outages], whole_s, f"{failed} failed calls, lost {found}"
    )


def _ours(bench: Bench, stage: Stage) -> Struck:
    one = bench.plain_cluster()
    one.wait_whole()
    create_topic(one.master()[1]["address"], TOPIC)

    def strike() -> str:
        _, victim = one.master()
        cluster.kill(victim["pid"])
        one.wait_done(victim["pid"])
        return str(victim["name"])

    return _struck(
        bench, stage, one.name_server, "ours", bench.times(KILLS), strike, one.wait_whole
    )


def _java(bench: Bench, stage: Stage) -> Struck:
    with all_java(stage.java, f"{TOPIC}-java", 3, SMALL_FILES) as brokers:
        brokers.create_topic(TOPIC)

        def strike() -> str:
            master = brokers.wait_whole()
            master.process.kill()
            master.process.start(wait=False)
            return master.name

        return _struck(
            bench,
            stage,
            brokers.name_servers,
            "Java",
            bench.times(JAVA_KILLS),
            strike,
            brokers.wait_whole,
        )


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    stage = Stage(bench.folder(ROW))
    try:
        stage.client_class_path  # noqa: B018  what needs a compiler is said before anything starts
        ours = _ours(bench, stage)
        bench.quiet()
        java = _java(bench, stage)
    except Problem as problem:
        if problem.exit_code != 2:
            raise
        return [not_measured(ROW, WHAT, "s", str(problem))]
    finally:
        stage.end()
    return figures(ours, java)


def figures(ours: Struck, java: Struck) -> list[Figure]:
    note = (
        f"{len(ours.times)} kills, Java's {len(java.times)}; rocketmq-client 5.3.3, defaults "
        "(route every 30 s, 3 s a call, 2 retries), 200 messages/s; the killed process is started "
        f"again at once; Java's brokers and controller have fast timers; ours: {ours.said}, whole "
        f"again after {median(ours.whole_s):.1f} s; Java's: {java.said}, whole again after "
        f"{median(java.whole_s):.1f} s"
    )
    return [
        Figure(
            ROW,
            f"{WHAT}, median",
            "s",
            median(ours.times),
            PEER,
            median(java.times),
            goal=at_most(1.0),
            note=note,
            samples=ours.times,
            details={"peer_samples": java.times},
        ),
        Figure(
            ROW,
            f"{WHAT}, longest",
            "s",
            max(ours.times),
            PEER,
            max(java.times),
            floor=at_most(3.0),
            samples=ours.times,
        ),
    ]
