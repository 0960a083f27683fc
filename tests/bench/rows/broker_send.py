"""Broker send: 1 KiB messages, pipelined over one connection, at a set of one broker and at a set
of three, all in sync.

Peers of the same run: a Java 5.3.3 set of the same size on the same controllers, turn by turn with
ours; for one broker also the store alone (`put`, one core), and an echo server over the same
remoting that answers what a broker answers and stores nothing.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from brokers.store.store import MessageStore
from infra.processes.ports import pick_block
from tests.bench import java_brokers, send_load
from tests.bench.apart import apart, running
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, at_least, share_at_least
from tests.bench.java_brokers import JavaBrokers
from tests.bench.own_set import OwnSet, own_set
from tests.bench.replica_ends import message
from tests.bench.run_context import Bench
from tests.bench.samples import median

MESSAGES = 50_000
WINDOW = 512
TURNS = 3
WARM_UP, JAVA_WARM_UP = 10_000, 50_000
PACED, PACED_PER_S = 6_000, 2_000.0
SET_NAME = "bench-send"
UP_WITHIN_S = 60.0
PEER = "Java broker"


@dataclass(slots=True)
class Sends:
    """What the turns at one set gave."""

    full: list[send_load.Turn] = field(default_factory=list)
    paced: list[send_load.Turn] = field(default_factory=list)

    def of(self, name: str, paced: bool = False) -> list[float]:
        """One number of each turn."""
        return [float(getattr(one, name)) for one in (self.paced if paced else self.full)]

    @property
    def refused(self) -> str:
        """How many sends were, and how many were made again."""
        turns = (*self.full, *self.paced)
        return (
            f"{sum(one.refused for one in turns)} refused, {sum(one.again for one in turns)} sent "
            "again because it was busy"
        )


def serve_echo(port: int) -> None:
    """Answers every request with what a stored send is answered with."""
    ext = {
        "msgId": "7F00000100002A9F0000000000000000",
        "queueId": "0",
        "queueOffset": "123456",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "transactionId": "7F0000010A2B18B4AAC2000000000000",
    }

    def answer(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.reply(0, ext)

    async def serve() -> None:
        await RemotingServer(answer, port=port).start()
        await asyncio.Event().wait()

    asyncio.run(serve())


def put_alone(root: Path, count: int) -> tuple[float, float]:
    """Messages/s of the store on one core: one `put` per message, and puts of 64 at a time."""
    store = MessageStore(root)
    now_ms = time.time_ns() // 1_000_000
    messages = [message(number) for number in range(count)]
    began = time.perf_counter()
    for one in messages:
        store.put(one, now_ms)
    single = count / (time.perf_counter() - began)
    groups = [[(one,) for one in messages[at : at + 64]] for at in range(0, count, 64)]
    began = time.perf_counter()
    for group in groups:
        store.put_many(group, now_ms)
    grouped = count / (time.perf_counter() - began)
    store.close(clean=False)
    return single, grouped


def echo_turns() -> list[float]:
    """Messages/s of the echo server."""
    port = pick_block(1)
    with running(serve_echo, port):
        _wait_listening(port)
        return [
            apart(send_load.send_all, ("127.0.0.1", port), MESSAGES, WINDOW).per_s
            for _ in range(TURNS)
        ]


def _wait_listening(port: int) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise BenchFailed("the echo server does not listen") from None
            time.sleep(0.02)


def turns(sets: Sequence[OwnSet | JavaBrokers], say: object) -> list[Sends]:
    """Each set is warmed up (Java compiles while it runs), then they are measured turn by turn."""
    found = [Sends() for _ in sets]
    for brokers in sets:
        brokers.create_topic(send_load.TOPIC)
        count = JAVA_WARM_UP if isinstance(brokers, JavaBrokers) else WARM_UP
        warm = send_load.warmed_up(
            brokers.wait_whole(), brokers.members, send_load.send_all, count, WINDOW
        )
        say(f"{brokers.name} warmed up with {warm} messages")  # type: ignore[operator]
    for _ in range(TURNS):
        for brokers, sends in zip(sets, found, strict=True):
            master = brokers.wait_whole()
            sends.full.append(
                send_load.turn(master, brokers.members, send_load.send_all, MESSAGES, WINDOW)
            )
            sends.paced.append(
                send_load.turn(master, brokers.members, send_load.send_paced, PACED, PACED_PER_S)
            )
    return found


def both(bench: Bench, replicas: int) -> tuple[Sends, Sends | None]:
    """Ours and Java's, on one cluster's controllers; Java's is None where there is no Java."""
    cluster = bench.broker_cluster()
    home = bench.folder(f"broker-send-{replicas}")
    name = f"{SET_NAME}-{replicas}"
    needed = ("--min-in-sync-replicas", str(min(2, replicas)))
    with (
        own_set(cluster, home, name, replicas, *needed) as ours,
        java_brokers.beside(cluster, home / "java", f"{name}-java", replicas) as java,
    ):
        bench.say(f"{replicas} broker(s): warmed up, then {TURNS} x {MESSAGES}, {WINDOW} under way")
        found = turns([ours, java] if java else [ours], bench.say)
    shutil.rmtree(home)
    return found[0], found[1] if java else None


def figures(row: str, replicas: int, ours: Sends, java: Sends | None) -> list[Figure]:
    """What stands beside Java's."""
    said = f"{replicas} broker{'s, all in sync' if replicas > 1 else ''}"

    def figure(what: str, unit: str, name: str, *, paced: bool = False, **more: object) -> Figure:
        samples = ours.of(name, paced)
        peers = java.of(name, paced) if java else []
        return Figure(
            row,
            f"{what}, {said}",
            unit,
            median(samples),
            PEER if java else "no Java here",
            median(peers) if java else None,
            samples=[round(one, 2) for one in samples],
            details={"peer_samples": [round(one, 2) for one in peers]},
            **more,
        )  # type: ignore[arg-type]

    found = [
        figure("send 1 KiB", "messages/s", "per_s", note=_note(replicas, ours, java)),
        figure(
            "messages per core-second",
            "messages/core-s",
            "per_core_s",
            goal=share_at_least(1.0) if java else None,
            note=(
                "processor time of the master's process, user and system, all threads, as "
                "/proc/PID/stat has it"
            ),
        ),
        figure(f"p99, {WINDOW} under way", "ms", "p99_ms"),
        figure(
            f"p99 at {PACED_PER_S:.0f} messages/s",
            "ms",
            "p99_ms",
            paced=True,
            note=(
                "sent at their times whatever is answered; a delay counts from the moment a "
                "message was due"
            ),
        ),
    ]
    found.append(
        figure("memory of the master's own", "MiB", "own_mib", note=_memory_note(ours, java))
    )
    if replicas > 1:
        found.insert(
            2,
            figure(
                "messages per core-second of the whole set", "messages/core-s", "per_set_core_s"
            ),
        )
    return found


def _note(replicas: int, ours: Sends, java: Sends | None) -> str:
    rules = "all-ack, minInSyncReplicas 2" if replicas > 1 else "minInSyncReplicas 1"
    beside = (
        (
            f"; Java's broker: {java_brokers.JVM_NAMED}, RocketMQ's own defaults elsewhere, "
            f"{java.refused}"
        )
        if java
        else ""
    )
    return (
        f"median of {TURNS} turns of {MESSAGES}, ours and Java's in turn on the same cores, each "
        f"warmed up until {JAVA_WARM_UP} more (ours {WARM_UP}) cost nearly what the last ones did; "
        f"own client in a process of its own, one connection, {WINDOW} under way, {rules}, flush "
        f"in the background; ours {ours.refused}{beside}"
    )


def _memory_note(ours: Sends, java: Sends | None) -> str:
    """What the kernel counts with files that are mapped."""
    mapped = f"with mapped files: ours {median(ours.of('all_mib')):.0f} MiB"
    beside = (
        (f", Java's {median(java.of('all_mib')):.0f} MiB; its heap is set to 1 GiB") if java else ""
    )
    return (
        "right after a turn at full load, heap and buffers without mapped files (RssAnon); "
        f"{mapped}{beside}"
    )


def measure(bench: Bench) -> list[Figure]:
    """A set of one."""
    ours, java = both(bench, 1)
    home = bench.folder("store-alone")
    bench.say("the same at an echo server, and into the store alone")
    echo = echo_turns()
    single, grouped = apart(put_alone, home / "put", MESSAGES)
    shutil.rmtree(home)
    rates = ours.of("per_s")
    return [
        Figure(
            "broker-send",
            "send 1 KiB, one broker process",
            "messages/s",
            median(rates),
            "echo server, same remoting",
            median(echo),
            floor=at_least(12_000),
            samples=[round(one) for one in rates],
            details={"echo": [round(e) for e in echo]},
        ),
        Figure(
            "broker-send",
            "the same against the store",
            "messages/s",
            median(rates),
            "store.put alone, one core",
            single,
            note=f"puts of 64 at a time: {grouped:.0f}/s",
        ),
        *figures("broker-send", 1, ours, java),
    ]


def measure_three(bench: Bench) -> list[Figure]:
    """A set of three."""
    return figures("broker-send-3", 3, *both(bench, 3))
