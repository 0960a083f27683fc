"""Pulls that choose messages: by SQL92, by tags, and without a choice, at one broker's client
service, turn by turn in one run.

Of 1 KiB messages in one queue all, every second or every eighth one is wanted; both filters want
the same ones. A tag is in the queue's entry, a property is in the message: the fewer are wanted,
the more messages SQL92 reads for each one that it gives.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from brokers.remoting import codec
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.records import MessageFields
from brokers.store.store import StoreConfig
from tests.bench import pipelined
from tests.bench.apart import cpu_seconds, running
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, share_at_least
from tests.bench.replica_ends import message
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.support.brokers import pull_request
from tests.support.client_service import Desk

ROW = "filtered-pulls"
TOPIC = "bench"
MESSAGES, GROUP = 32_768, 256
KINDS = 8
GIVEN = 32
PULLS, WARM_UP, TURNS = 1_500, 200, 3
CONSUMERS = 8
UP_WITHIN_S = 120.0
GOAL = 1 / 3
WANTED = {8: "all", 4: "every second", 1: "every eighth"}
"""Kinds of messages that are wanted, of KINDS, and how the report says it."""


def expressions(wanted: int) -> dict[str, tuple[str, str]]:
    """(type, text) of each way to choose so many kinds."""
    chosen = range(0, KINDS, KINDS // wanted)
    tags = " || ".join(f"kind{number}" for number in chosen)
    numbers = ", ".join(f"'{number}'" for number in chosen)
    return {
        "tags": ("TAG", tags),
        "SQL92": ("SQL92", f"amount > 5 AND kind IN ({numbers})"),
        "none": ("TAG", "*"),
    }


def serve(folder: Path, ready: Path) -> None:
    """In a process of its own, until it is killed."""

    async def run() -> None:
        async with Desk(folder, sizes=StoreConfig()) as desk:
            desk.tables.topics.put([TopicConfig(TOPIC, 1, 1)], 0)
            for first in range(0, MESSAGES, GROUP):
                desk.store.put_many([(_stored(first + i),) for i in range(GROUP)], 1)
            desk.lead()
            desk.service.confirmed(desk.store.log_end)
            part = ready.with_suffix(".part")
            part.write_text(f"{os.getpid()} {desk.server.port}")
            part.rename(ready)
            await asyncio.Event().wait()

    asyncio.run(run())


def _stored(number: int) -> MessageFields:
    kind = number % KINDS
    properties = f"TAGS\x01kind{kind}\x02kind\x01{kind}\x02amount\x01{6 + number}\x02".encode()
    one = message(number)
    return replace(one, topic=TOPIC, queue_id=0, properties=properties + one.properties)


def frames(wanted: int, kind: str, text: str, count: int) -> list[bytes]:
    """Pulls all over the queue, each of which finds GIVEN messages."""
    stretch = GIVEN * (KINDS // wanted)
    places = range(0, MESSAGES - stretch + 1, stretch)
    found = []
    for number in range(count):
        request = pull_request(TOPIC, 0, places[number % len(places)], subscription=text)
        request.ext["expressionType"] = kind
        request.opaque = pipelined.FIRST_OPAQUE + number
        found.append(codec.encode(request))
    return found


@dataclass(slots=True)
class Turns:
    """Messages given, per core-second of the broker and per second, in each turn."""

    per_core_s: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)


def measure(bench: Bench) -> list[Figure]:
    home = bench.folder(ROW)
    ready = home / "ready"
    with running(serve, home / "store", ready):
        deadline = time.monotonic() + UP_WITHIN_S
        while not ready.exists():
            if time.monotonic() > deadline:
                raise BenchFailed("the broker of filtered pulls does not come up")
            time.sleep(0.05)
        pid, port = map(int, ready.read_text().split())
        bench.say(f"{TURNS} x {PULLS} pulls of {GIVEN} messages, three ways to choose them")
        found = {wanted: _turns(pid, port, wanted) for wanted in WANTED}
    shutil.rmtree(home)
    return [one for wanted, turns in found.items() for one in figures(WANTED[wanted], turns)]


def _turns(pid: int, port: int, wanted: int) -> dict[str, Turns]:
    ways = expressions(wanted)
    found = {way: Turns() for way in ways}
    for kind, text in ways.values():
        _pulled(port, frames(wanted, kind, text, WARM_UP))
    for _ in range(TURNS):
        for way, (kind, text) in ways.items():
            made = frames(wanted, kind, text, PULLS)
            before = cpu_seconds(pid)
            load = _pulled(port, made)
            found[way].per_core_s.append(PULLS * GIVEN / (cpu_seconds(pid) - before))
            found[way].per_s.append(PULLS * GIVEN / load.seconds)
    return found


def _pulled(port: int, made: list[bytes]) -> pipelined.Load:
    load = pipelined.producers(("127.0.0.1", port), made, CONSUMERS)
    if load.bad:
        raise BenchFailed(f"pulls were answered with other codes: {load.bad}")
    return load


def figures(said: str, turns: Mapping[str, Turns]) -> list[Figure]:
    """What stands beside tags, and beside no choice at all."""
    sql = turns["SQL92"].per_core_s
    return [
        Figure(
            ROW,
            f"messages by SQL92 per core-second, {said} wanted",
            "messages/core-s",
            median(sql),
            f"by {peer}" if peer == "tags" else "without a choice",
            median(turns[peer].per_core_s),
            goal=share_at_least(GOAL) if peer == "tags" else None,
            samples=[round(one) for one in sql],
            details={
                "peer_samples": [round(one) for one in turns[peer].per_core_s],
                "per_s": [round(one) for one in turns["SQL92"].per_s],
            },
            note=(
                f"median of {TURNS} turns of {PULLS} pulls of {GIVEN} messages of 1 KiB by "
                f"{CONSUMERS} consumers, amount > 5 AND kind IN (…); processor time of the "
                "process that serves them, as /proc/PID/stat has it"
            ),
        )
        for peer in ("tags", "none")
    ]
