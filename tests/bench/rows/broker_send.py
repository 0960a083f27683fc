"""Broker send: 1 KiB messages, pipelined over one connection at one broker process that is its whole set.

Peers of the same run: the store alone (`put`, one core), and an echo server over the same remoting that answers what a
broker answers and stores nothing.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from brokers.log.store import MessageStore
from brokers.remoting import codec
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from infra.ports import pick_block, split_address
from infra.workload.message import body_of
from tests.bench import pipelined
from tests.bench.apart import apart, cpu_seconds, running
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, at_least
from tests.bench.own_set import own_set
from tests.bench.replica_ends import message
from tests.bench.run_context import Bench
from tests.bench.samples import median

MESSAGES = 50_000
WINDOW = 512
TURNS = 3
BODY_BYTES = 1024
TOPIC = "bench-send"
SET_NAME = "bench-send"
UP_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Turn:
    per_s: float
    cpu_s: float


def send_frame() -> bytes:
    """A 310 as a Java producer makes it, with FIRST_OPAQUE."""
    properties = "KEYS\x01bench\x02UNIQ_KEY\x017F0000010A2B18B4AAC2000000000000\x02WAIT\x01true\x02"
    ext = {
        "a": "bench", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": str(time.time_ns() // 1_000_000),
        "h": "0", "i": properties, "j": "0", "k": "false", "l": "0", "m": "false", "n": SET_NAME,
    }  # fmt: skip
    request = RemotingCommand.request(310, ext, body_of(1, BODY_BYTES))
    return codec.encode(request, opaque=pipelined.FIRST_OPAQUE)


def send_all(address: tuple[str, int], count: int, window: int) -> pipelined.Load:
    """In a process of its own: frames first, then the clock."""
    return pipelined.run(address, pipelined.repeated(send_frame(), count), window)


def send_alone(address: tuple[str, int], count: int) -> list[float]:
    return pipelined.one_by_one(address, pipelined.repeated(send_frame(), count))


def serve_echo(port: int) -> None:
    """Answers every request with what a stored send is answered with."""
    ext = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "123456", "MSG_REGION": "DefaultRegion",
           "TRACE_ON": "true", "transactionId": "7F0000010A2B18B4AAC2000000000000"}  # fmt: skip

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


def _turns(address: str, pid: int) -> list[Turn]:
    target = split_address(address)
    found = []
    for _ in range(TURNS):
        before = cpu_seconds(pid)
        load = apart(send_all, target, MESSAGES, WINDOW)
        if load.bad:
            raise BenchFailed(f"sends were answered with codes {load.bad}")
        found.append(Turn(load.per_s, cpu_seconds(pid) - before))
    return found


def _echo_turns() -> list[float]:
    port = pick_block(1)
    with running(serve_echo, port):
        _wait_listening(port)
        return [apart(send_all, ("127.0.0.1", port), MESSAGES, WINDOW).per_s for _ in range(TURNS)]


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


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.plain_cluster()
    home = bench.folder("broker-send")
    with own_set(cluster, home, SET_NAME, 1, "--min-in-sync-replicas", "1") as brokers:
        brokers.create_topic(TOPIC)
        address, child = brokers.members[0].address, brokers.members[0].child
        bench.say(f"{TURNS} x {MESSAGES} messages of 1 KiB at one broker, {WINDOW} under way")
        alone = apart(send_alone, split_address(address), 500)  # warms up too
        turns = _turns(address, child.pid)
    bench.say("the same at an echo server, and into the store alone")
    echo = _echo_turns()
    single, grouped = apart(put_alone, home / "put", MESSAGES)
    shutil.rmtree(home)
    rates = [turn.per_s for turn in turns]
    per_core = [MESSAGES / turn.cpu_s for turn in turns]
    note = (
        f"median of {TURNS} turns of {MESSAGES}, one connection, {WINDOW} under way, set of one (minInSyncReplicas 1), flush in the "
        f"background; one send alone {median(alone):.2f} ms; Java RocketMQ's broker is not run here, so the goal (ahead of it "
        "per broker core-second) is not judged"
    )
    samples = [round(one) for one in rates]
    return [
        Figure("broker-send", "send 1 KiB, one broker process", "messages/s", median(rates), "echo server, same remoting",
               median(echo), floor=at_least(12_000), note=note, samples=samples, details={"echo": [round(e) for e in echo]}),
        Figure("broker-send", "the same against the store", "messages/s", median(rates), "store.put alone, one core", single,
               note=f"puts of 64 at a time: {grouped:.0f}/s", samples=samples),
        Figure("broker-send", "messages per core-second", "messages/core-s", median(per_core),
               note="processor time of the broker process, user and system, all threads", samples=[round(p) for p in per_core]),
    ]  # fmt: skip
