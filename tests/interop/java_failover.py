"""`kill -9` of a Java master under a stock Java client: on Regent's controllers, and on the Java
controller beside it.

Responsible for: the same blow with the same settings on both, the outage as the client saw it,
nothing acknowledged lost, and an old master that returns with more than was acknowledged and is
cut.
Refuses to know: how either controller decides.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from infra.problems import Problem
from tests.interop.java_client import TUNED, Outage, ReadBack, outage_after, read_back
from tests.interop.java_set import JavaSet, equal_row, loss_row, on_java, on_regent
from tests.interop.stage import Row, Stage


@dataclass(frozen=True, slots=True)
class Blows:
    """What several kills did to one client."""

    outages: list[Outage]
    whole_again_s: list[float]
    found: ReadBack


def failover(stage: Stage) -> list[Row]:
    """Kills on the Java controller first, alone on the machine, then the same on Regent's."""
    kills = int(stage.options.get("kills") or 2)
    stage.drop_shared()
    with ExitStack() as stack:
        theirs = _blows(stage, on_java(stage, stack), "FailoverPeer", kills)
    java = on_regent(stage)
    ours = _blows(stage, java, "Failover", kills)
    stage.configured(
        f"Java 5.3.3 client: pollNameServerInterval={TUNED['pollMs']}, "
        f"sendMsgTimeout={TUNED['timeoutMs']}, one producer, 4 threads"
    )
    stage.documents["failover"] = {
        name: [one.rto_ms for one in blows.outages]
        for name, blows in (("regent", ours), ("java", theirs))
    }
    return [
        _rto_row("Regent's controllers", ours),
        _rto_row("the Java controller (peer)", theirs),
        Row("Regent: acknowledged lost", str(ours.found), ours.found.ok),
        Row("peer: acknowledged lost", str(theirs.found)),
        equal_row(java),
    ]


def _rto_row(what: str, blows: Blows) -> Row:
    times = [one.rto_ms for one in blows.outages]
    failed = sum(one.failed_calls for one in blows.outages)
    whole = ", ".join(f"{seconds:.0f}" for seconds in blows.whole_again_s)
    return Row(
        f"kill -9 of the master, {what}",
        f"RTO {times} ms, median {median(times):.0f} ms; {failed} failed calls; whole again after "
        f"{whole} s",
    )


def _blows(stage: Stage, java: JavaSet, topic: str, kills: int) -> Blows:
    java.whole()
    producer = java.producer(stage, topic)
    struck: list[tuple[str, int, int]] = []
    whole_again: list[float] = []
    try:
        for _ in range(kills):
            producer.flows(400)
            view, victim = java.whole(), java.master()
            stage.say(f"kill -9 {victim.name}, master in epoch {view.master_epoch}")
            struck.append((victim.name, victim.kill(), now_ms()))
            began = time.monotonic()
            after = java.new_master(victim.broker_id, view.master_epoch)
            stage.say(f"{after}")
            victim.start(wait=False)
            producer.flows(400)
            java.whole()
            whole_again.append(time.monotonic() - began)
        rows = producer.stop()
        found = read_back(stage, java.name_servers, topic, rows)
    finally:
        producer.end()
    ends = [at for _, at, _ in struck[1:]] + [max(row[2] for row in rows) + 1]
    outages = [
        outage_after(rows, name, at, end, gone)
        for (name, at, gone), end in zip(struck, ends, strict=True)
    ]
    return Blows(outages, whole_again, found)


def now_ms() -> int:
    """The wall clock, as the client's ledger has it."""
    return time.time_ns() // 1_000_000


def returns(stage: Stage) -> list[Row]:
    """A master dies with bytes that nobody else has; it comes back, is cut to what the new master
    has, and rejoins.
    """
    java = on_regent(stage)
    before = java.whole()
    producer = java.producer(stage, "Returns")
    try:
        producer.flows()
        victim, slaves = java.master(), java.slaves()
        stage.say(
            f"both slaves frozen until sends hang, then kill -9 {victim.name}, then the slaves go "
            "on"
        )
        # the slaves stop at the same byte: what is more on the master, nobody else has
        with producer.paused():
            java.world.wait_until(lambda: not java.logs_differ(), "the slaves have everything", 10)
            for one in slaves:
                one.pause()
        on_ms = now_ms()
        try:
            producer.wait(
                lambda rows: any(row[1] > on_ms and row[3] != "SEND_OK" for row in rows),
                "sends of that time fail",
                20,
            )
        finally:
            victim.kill()
            for one in slaves:
                one.resume()
        after = java.new_master(victim.broker_id, before.master_epoch)
        producer.flows(limit_s=60)
        victim.start(wait=False)
        whole = java.whole()
        producer.flows()
        cut = victim.log_lines(r"truncate dirty files to")
        rows = [
            Row("old master dead: another one", str(after), after.has_master),
            Row(
                "old master returned: in sync again",
                str(whole),
                len(whole.in_sync) == len(java.brokers),
            ),
            Row(
                "what only it had is cut",
                cut[-1] if cut else "no line about a cut in its log",
                bool(cut),
            ),
            loss_row(stage, java, producer),
        ]
    except Problem:
        for one in java.brokers:
            if one.is_running:
                one.resume()
        raise
    finally:
        producer.end()
    return [*rows, equal_row(java)]
