"""What a fault of the master costs a stock Java client: by the client's settings, the kind of the
brokers, and who controls them. Brokers have the timers that they have when nobody sets any.

Responsible for: the same blows at each set, two producers through all of them, one with default
settings and one that asks for its route every 0.5 s.
Refuses to know: why one takes longer than another.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from infra.problems import Problem
from tests.interop.java_client import Producer, first_message, outage_after, read_back
from tests.interop.java_set import JavaSet, alone_on_regent, on_java
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster, wait_until

RATE_PER_S = 100
CALM_S = 11
"""Between blows: a client has read its route, and a broker that hangs again is no longer new."""
PAUSED_S = 30.0
STOPPED_S = 2.0
HOLD_S = 120.0
SETTLED_WITHIN_S = 300.0
CLIENTS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "poll 0.5 s": {"pollMs": "500", "timeoutMs": "500"},
}
ALL_IN_SYNC = {"minInSyncReplicas": "2"}
ONE_IS_ENOUGH = {"minInSyncReplicas": "1"}


@dataclass(frozen=True, slots=True)
class Struck:
    """A set of brokers that can be hit. Each blow gives the wall clock (ms) just before it, and
    returns when the set is whole again.
    """

    name_servers: str
    settle: Callable[[], object]
    blows: Mapping[str, Callable[[], int]]


def run(stage: Stage) -> list[Row]:
    """Each set in turn, as often as --times says; --brokers names one of them. Problem when it
    names none.
    """
    times, only = int(stage.options.get("times") or 2), stage.options.get("brokers")
    if only not in (None, *SETS):
        raise Problem(f"no brokers {only}", f"there are: {'; '.join(SETS)}")
    stage.client_class_path  # noqa: B018  what needs a compiler is said before anything starts
    stage.drop_shared()
    rows: list[Row] = []
    table = stage.documents["outages"] = {}
    for kind, opened in SETS.items():
        if only in (None, kind):
            stage.say(kind)
            with ExitStack() as stack:
                found = _under_load(stage, stack.enter_context(opened(stage)), kind, times)
            table[kind] = found
            rows += _rows(kind, found)
    return rows


def _rows(kind: str, found: Mapping[str, Any]) -> list[Row]:
    def told(times_ms: list[int]) -> str:
        each = ", ".join(f"{one / 1000:.1f}" for one in times_ms)
        return f"{median(times_ms) / 1000:.1f} s ({each})"

    rows = []
    for blow, by_client in found["outages"].items():
        text = "; ".join(f"{client} {told(one)}" for client, one in by_client.items())
        rows.append(Row(f"{kind}, master {blow}", text))
    rows += [
        Row(f"{kind}, client {client}: acknowledged lost", str(one), not one.lost)
        for client, one in found["read"].items()
    ]
    return rows


def _under_load(stage: Stage, struck: Struck, kind: str, times: int) -> dict[str, Any]:
    struck.settle()
    producers: dict[str, Producer] = {}
    hit: list[tuple[str, int]] = []
    try:
        for number, (client, settings) in enumerate(CLIENTS.items()):
            topic = f"outages-{number}"
            first_message(stage, struck.name_servers, topic)
            producers[client] = Producer(
                stage,
                struck.name_servers,
                topic,
                settings=settings,
                rate=RATE_PER_S,
                name=f"{kind.replace(' ', '-').replace(',', '')}-{topic}",
            )
        for blow, strike in struck.blows.items():
            for number in range(1, times + 1):
                _flow(producers)
                hit.append((blow, strike()))
                stage.say(f"{blow}, {number} of {times}")
        _flow(producers)
        ledgers = {client: one.stop() for client, one in producers.items()}
    finally:
        for one in producers.values():
            one.end()
    ends = [at_ms for _, at_ms in hit[1:]]
    outages: dict[str, dict[str, list[int]]] = {
        blow: {client: [] for client in CLIENTS} for blow in struck.blows
    }
    for client, rows in ledgers.items():
        last = max(row.end_ms for row in rows) + 1
        for (blow, at_ms), end_ms in zip(hit, [*ends, last], strict=True):
            one = outage_after(rows, blow, at_ms, end_ms)
            outages[blow][client].append(max(one.rto_ms, one.longest_gap_ms))
    read = {
        client: read_back(stage, struck.name_servers, producers[client].topic, rows)
        for client, rows in ledgers.items()
    }
    return {"outages": outages, "read": read}


def _flow(producers: Mapping[str, Producer]) -> None:
    for one in producers.values():
        one.flows(RATE_PER_S * CALM_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# -- brokers of ours -------------------------------------------------------------------------------


@contextmanager
def _ours(stage: Stage) -> Iterator[Struck]:
    """As `regent up` starts them."""
    cluster = LocalCluster(stage.work / "outages-ours")

    def master() -> str:
        view = cluster.whole()
        return str(cluster.view.process_at(str(view.master_address))["name"])

    def hit(number: signal.Signals) -> int:
        name, at_ms = master(), _now_ms()
        pid = cluster.strike(name, number)
        wait_until(lambda: cluster.restarted(name, pid), f"{name} is there again")
        cluster.whole()
        return at_ms

    def stopped() -> int:
        name, at_ms = master(), _now_ms()
        cluster.folder.ask({"action": "hold", "name": name}, HOLD_S)
        time.sleep(STOPPED_S)
        cluster.folder.ask({"action": "start", "name": name}, HOLD_S)
        cluster.whole()
        return at_ms

    try:
        cluster.up()
        yield Struck(
            cluster.name_servers[0],
            cluster.whole,
            {
                "killed": lambda: hit(signal.SIGKILL),
                "stands still": lambda: hit(signal.SIGSTOP),
                "stopped and started": stopped,
            },
        )
        cluster.down()
    finally:
        cluster.end()


# -- Java's brokers --------------------------------------------------------------------------------


def _java(java: JavaSet) -> Struck:
    def settle() -> object:
        return java.whole(SETTLED_WITHIN_S)

    def killed() -> int:
        settle()
        victim = java.master()
        at_ms = victim.kill()
        victim.start(wait=False)
        settle()
        return at_ms

    def paused() -> int:
        view, victim = java.whole(SETTLED_WITHIN_S), java.master()
        at_ms = victim.pause()
        try:
            java.new_master(victim.broker_id, view.master_epoch)
            time.sleep(max(0.0, PAUSED_S - (_now_ms() - at_ms) / 1000))
        finally:
            victim.resume()
        settle()
        return at_ms

    def stopped() -> int:
        settle()
        victim, at_ms = java.master(), _now_ms()
        victim.stop()
        time.sleep(STOPPED_S)
        victim.start(wait=False)
        settle()
        return at_ms

    blows = {"killed": killed, "stands still": paused, "stopped and started": stopped}
    return Struck(java.name_servers, settle, blows)


@contextmanager
def _on_regent(stage: Stage, settings: Mapping[str, str]) -> Iterator[Struck]:
    with ExitStack() as stack:
        yield _java(alone_on_regent(stage, stack, fast={}, settings=settings))


@contextmanager
def _on_java(stage: Stage) -> Iterator[Struck]:
    with ExitStack() as stack:
        yield _java(on_java(stage, stack, fast={}, settings=ALL_IN_SYNC))


SETS: Mapping[str, Callable[[Stage], Any]] = {
    "Regent": _ours,
    "Java on Regent": lambda stage: _on_regent(stage, ALL_IN_SYNC),
    "Java on Regent, minInSyncReplicas=1": lambda stage: _on_regent(stage, ONE_IS_ENOUGH),
    "Java on Java": _on_java,
}
