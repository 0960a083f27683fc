"""How long a broker takes to open a large store, after `kill -9` under load and after an orderly
end; Java's beside on the same folder.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from infra.problems import Problem
from tests.bench import send_load
from tests.bench.figure import Figure
from tests.bench.java_brokers import JVM_NAMED
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.bench.stored_broker import OneSet, until_listening, until_writable
from tests.interop.java_rocketmq import JavaWorld
from tests.interop.program import Replica

GIB = 1 << 30
FILE_BYTES = GIB
SPARE_BYTES = 64 << 20
"""Left free at the end of the last file, so that the sends of a turn stay within it."""
KILLS, ENDS = 1, 1
LOAD, WINDOW = 4_000, 64
PEER = "Java broker, same folder"


@dataclass(slots=True)
class Opened:
    """Seconds from the start of the process: until it listens (the store is open then), until it
    takes writes.
    """

    killed: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    writable: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)


def _start(broker: Replica) -> tuple[float, float]:
    broker.start(wait=False)
    listening = until_listening(broker)
    return listening, listening + until_writable(broker)


def opened(broker: Replica, broker_store: Path, empty: Replica) -> Opened:
    """As the folder was left, then kills under load, then orderly ends. The broker does not run in
    the end, and ended in order.
    """
    found = Opened()
    killed = (broker_store / "abort").exists()
    (found.killed if killed else found.ended).append(_start(broker)[0])
    for _ in range(KILLS):
        send_load.turn(broker, [broker], send_load.send_all, LOAD, WINDOW)  # type: ignore[arg-type, list-item]
        broker.kill()
        listening, writable = _start(broker)
        found.killed.append(listening)
        found.writable.append(writable)
    for _ in range(ENDS):
        broker.stop()
        found.ended.append(_start(broker)[0])
    broker.stop()
    for _ in range(ENDS):
        empty.start(wait=False)
        found.empty.append(until_listening(empty))
        empty.kill()
        shutil.rmtree(empty.store)
    return found


def _measure(bench: Bench, row: str, gib: int) -> list[Figure]:
    cluster = bench.broker_cluster()
    home = bench.folder(row)
    with ExitStack() as stack:
        one, other = (OneSet(cluster, home, name, FILE_BYTES) for name in (row, f"{row}-empty"))
        stack.callback(one.end)
        stack.callback(other.end)
        bench.say(f"writing a store of {gib} GiB")
        store = one.filled(gib * GIB - SPARE_BYTES)
        bench.say("opened by ours")
        ours = opened(one.ours(f"{row}-ours", store), store, other.ours(f"{row}-empty"))
        java = _java(bench, stack, one, other, home, store)
    shutil.rmtree(home)
    return figures(row, gib, ours, java)


def _java(
    bench: Bench, stack: ExitStack, one: OneSet, other: OneSet, home: Path, store: Path
) -> Opened | None:
    try:
        world = stack.enter_context(JavaWorld(home / "java", bench.say))
    except Problem as problem:
        bench.say(f"no Java beside: {problem}")
        return None
    bench.say("opened by Java")
    return opened(one.java(world, "java", store), store, other.java(world, "java-empty"))


def figures(row: str, gib: int, ours: Opened, java: Opened | None) -> list[Figure]:
    """The figures of one size of store."""

    def figure(what: str, name: str, note: str = "") -> Figure:
        samples = getattr(ours, name)
        peers = getattr(java, name) if java else []
        return Figure(
            row,
            f"{what}, {gib} GiB",
            "s",
            median(samples),
            PEER if java else "no Java here",
            median(peers) if java else None,
            samples=[round(one, 3) for one in samples],
            details={"peer_samples": [round(one, 3) for one in peers]},
            note=note,
        )

    empty = (f"an empty store: ours {median(ours.empty):.2f} s") + (
        f", Java's {median(java.empty):.2f} s ({JVM_NAMED})" if java else ""
    )
    note = (
        f"median of {len(ours.killed)}; from the start of the process until it listens, which is "
        f"after recovery; killed right after {LOAD} messages or while it was filled; files of 1 "
        f"GiB, index on, page cache warm as after a kill; {empty}"
    )
    return [
        figure("recovery after kill -9", "killed", note),
        figure(
            "the same until it takes writes",
            "writable",
            "set of one: its controller has to make it master again",
        ),
        figure("start after an orderly end", "ended"),
    ]


def measure(bench: Bench) -> list[Figure]:
    return _measure(bench, "recovery", 1)


def measure_long(bench: Bench) -> list[Figure]:
    return _measure(bench, "recovery-long", 10)
