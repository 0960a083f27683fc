"""A stock client as processes, and what its files say: acknowledged, received, lost, outages.

Responsible for: starting the Java client's program (InteropClient), or another language's with the
same lines, in its two roles; judging loss and outages from files alone.
Refuses to know: who is killed, and what stands behind the name server's address.
"""

from __future__ import annotations

import bisect
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from infra.problems import Problem
from infra.processes import children
from tests.interop.ledger import (
    LedgerRow,
    Received,
    acknowledged_of,
    disorder,
    places_of,
    read_ledger,
    read_received,
)
from tests.interop.stage import Stage

CLIENT_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC")
FIRST_WITHIN_S = 120.0
SEND_WITHIN_S = 300.0
STOP_WITHIN_S = 150.0
CONSUME_WITHIN_S = 90.0
POLL_S = 0.05
RATE_PER_S = 200
FIRST_SEQUENCE = -1
"""Of the message that makes the topic: those of a ledger begin at 0, and none counts as stored
twice."""
TUNED = {"pollMs": "200", "timeoutMs": "500"}
"""Client settings of someone who wants to see a failover quickly."""
PATIENT = {"pollMs": "200", "timeoutMs": "3000"}
"""The client's default timeout: a busy machine alone must not fail a send."""


@dataclass(frozen=True, slots=True)
class Outage:
    """From the invocation of the first failed call to the response of the first successful one
    begun after it.
    """

    killed: str
    rto_ms: int
    failed_calls: int
    first_failure: str
    longest_gap_ms: int


def outage_after(
    rows: Sequence[LedgerRow], name: str, begun_ms: int, ended_ms: int, gone_ms: int | None = None
) -> Outage:
    """The outage that a blow between the two times caused; rto 0 when no call failed.

    `gone_ms`: when the process was gone; what was begun before could still have been answered by
    the dying one.
    """
    window = [row for row in rows if begun_ms - 2_000 <= row[1] < ended_ms]
    failed = sorted(row[1:] for row in window if row[3] != "SEND_OK" and row[2] >= begun_ms)
    answers = sorted(row[2] for row in window if row[3] == "SEND_OK" and row[2] >= begun_ms - 500)
    gap = max((b - a for a, b in itertools.pairwise(answers)), default=0)
    if not failed:
        return Outage(name, 0, 0, "", gap)
    first = failed[0][0]
    successes = sorted(
        (row[1], row[2])
        for row in rows
        if row[3] == "SEND_OK" and row[1] >= max(first, gone_ms or 0)
    )
    rto = min((end for _, end in successes), default=first) - first
    return Outage(name, rto, len(failed), failed[0][2], gap)


Words = Callable[[Stage], list[str]]
"""The words that start a client's program; settings and files follow as key=value."""


def java(stage: Stage) -> list[str]:
    """The Java client's program."""
    return ["java", *CLIENT_JVM, "-cp", stage.client_class_path, "InteropClient"]


class Producer:
    """A sending client. Without `count` it sends until `stop`."""

    def __init__(
        self,
        stage: Stage,
        name_servers: str,
        topic: str,
        *,
        settings: Mapping[str, str] = TUNED,
        rate: float = RATE_PER_S,
        count: int | None = None,
        name: str = "",
        options: Mapping[str, str] | None = None,
        words: Words = java,
    ) -> None:
        """`options`: more of InteropClient's, `first`, `batch` or `delayLevel` for instance."""
        home = stage.work / "clients"
        home.mkdir(parents=True, exist_ok=True)
        self.topic, self.ledger, self._output = (
            topic,
            home / f"{name or topic}-ledger.csv",
            home / f"{name or topic}-producer.out",
        )
        extra = [f"{key}={value}" for key, value in {**settings, **(options or {})}.items()]
        limit = ["untilInputEnds=true"] if count is None else [f"count={count}"]
        command = [
            *words(stage),
            "mode=produce",
            f"namesrv={name_servers}",
            f"topic={topic}",
            f"rate={rate}",
            f"ledger={self.ledger}",
            *limit,
            *extra,
        ]
        self._process = children.spawn(command, self._output, cwd=home, wants_input=True)
        self._stage = stage

    def rows(self) -> list[LedgerRow]:
        return read_ledger(self.ledger)

    def wait(
        self,
        condition: Callable[[list[LedgerRow]], bool],
        what: str,
        limit_s: float = SEND_WITHIN_S,
    ) -> None:
        """Until the ledger meets the condition. Problem when the client ends before."""
        deadline = time.monotonic() + limit_s
        while True:
            # Asked first: what it wrote last is in the ledger then.
            ended = self._process.poll() is not None
            if condition(self.rows()):
                return
            if ended:
                raise Problem(
                    f"the producer ended early while {what}",
                    " ".join(children.last_lines(self._output, 3)),
                )
            if time.monotonic() > deadline:
                raise Problem(
                    f"waited in vain for {limit_s:.0f} s: {what}", f"last: {self.rows()[-3:]}"
                )
            time.sleep(POLL_S)

    def flows(self, messages: int = 200, limit_s: float = SEND_WITHIN_S) -> None:
        """Until so many more calls have succeeded."""
        began = len(acknowledged_of(self.rows()))
        self.wait(
            lambda rows: len(acknowledged_of(rows)) >= began + messages,
            f"{messages} more messages are acknowledged",
            limit_s,
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP for the time of the block: nothing is sent."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> list[LedgerRow]:
        """End it in order: calls under way come to their end. Gives the whole ledger."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.end()
                raise Problem(
                    "the producer does not end", " ".join(children.last_lines(self._output, 3))
                ) from None
        return self.rows()

    def end(self) -> None:
        """The hard end."""
        children.stop(self._process, 0.0)

    def said(self) -> list[str]:
        """Its settings, as the library has them."""
        return [
            line for line in children.last_lines(self._output, 20) if line.startswith("settings")
        ]


class Consumer:
    """A push consumer from the first message on; with another `mode`, whoever writes the same
    lines. `options`: more of its program's.
    """

    def __init__(
        self,
        stage: Stage,
        name_servers: str,
        topic: str,
        *,
        settings: Mapping[str, str] = TUNED,
        name: str = "",
        group: str = "",
        mode: str = "consume",
        options: Mapping[str, str] | None = None,
        words: Words = java,
    ) -> None:
        home = stage.work / "clients"
        home.mkdir(parents=True, exist_ok=True)
        self.received, self._output = (
            home / f"{name or topic}-received.csv",
            home / f"{name or topic}-consumer.out",
        )
        poll = [f"{key}={value}" for key, value in settings.items() if key == "pollMs"]
        command = [
            *words(stage),
            f"mode={mode}",
            f"namesrv={name_servers}",
            f"topic={topic}",
            f"group={group or f'interop-{name or topic}'}",
            f"received={self.received}",
            *poll,
            *(f"{key}={value}" for key, value in (options or {}).items()),
        ]
        self._process = children.spawn(command, self._output, cwd=home, wants_input=True)

    def wait_for(
        self, ledger: Sequence[LedgerRow], limit_s: float = CONSUME_WITHIN_S
    ) -> list[Received]:
        """Everything received, once all that was acknowledged has come from its place or time is
        up.
        """
        wanted = places_of(ledger)
        deadline = time.monotonic() + limit_s
        while True:
            rows = read_received(self.received)
            if wanted <= set(rows) or time.monotonic() > deadline:
                return rows
            time.sleep(POLL_S)

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
        children.stop(self._process, 10.0)

    def said(self) -> list[str]:
        return [
            line for line in children.last_lines(self._output, 20) if line.startswith("settings")
        ]


def first_message(stage: Stage, name_servers: str, topic: str, words: Words = java) -> None:
    """Send one message, which creates the topic: consumers then find a route at once."""
    producer = Producer(
        stage,
        name_servers,
        topic,
        settings={},
        count=1,
        name=f"{topic}-first",
        options={"first": str(FIRST_SEQUENCE)},
        words=words,
    )
    try:
        producer.wait(
            lambda rows: bool(acknowledged_of(rows)),
            f"the first message of {topic}",
            FIRST_WITHIN_S,
        )
        producer.stop()
    finally:
        producer.end()


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What a fresh consumer group found of a topic. `disorder`: one line for each breach of the
    queues' order.
    """

    acknowledged: int
    lost: set[int]
    disorder: list[str]

    @property
    def ok(self) -> bool:
        return bool(self.acknowledged) and not self.lost and not self.disorder

    def __str__(self) -> str:
        order = (
            (f"; OUT OF ORDER: {'; '.join(self.disorder[:3])} ({len(self.disorder)} in all)")
            if self.disorder
            else ", in order per queue"
        )
        return f"{len(self.lost)} of {self.acknowledged}{order}"


def read_back(
    stage: Stage,
    name_servers: str,
    topic: str,
    rows: Sequence[LedgerRow],
    *,
    name: str = "",
    limit_s: float = CONSUME_WITHIN_S,
) -> ReadBack:
    """Read the whole topic with a fresh consumer group and lay it beside the ledger."""
    return read_back_all(
        stage, name_servers, {topic: rows}, name=name or f"{topic}-read-back", limit_s=limit_s
    )[topic]


def read_back_all(
    stage: Stage,
    name_servers: str,
    ledgers: Mapping[str, Sequence[LedgerRow]],
    *,
    name: str,
    limit_s: float = CONSUME_WITHIN_S,
) -> dict[str, ReadBack]:
    """The same for several topics at once, each with a consumer of its own; `name` and a number
    name their groups.
    """
    names = [name, *(f"{name}-{number}" for number in range(2, len(ledgers) + 1))]
    consumers = {
        topic: Consumer(stage, name_servers, topic, name=own)
        for topic, own in zip(ledgers, names, strict=True)
    }
    found = {}
    try:
        for topic, rows in ledgers.items():
            got, acknowledged = consumers[topic].wait_for(rows, limit_s), acknowledged_of(rows)
            found[topic] = ReadBack(
                len(acknowledged), acknowledged - {row[0] for row in got}, disorder(rows, got)
            )
    finally:
        for consumer in consumers.values():
            consumer.stop()
    return found


def found_by_key(stage: Stage, name_servers: str, topic: str, keys: Sequence[int]) -> set[Received]:
    """The messages that the brokers find by these keys, each key asked for by itself."""
    home = stage.work / "clients"
    home.mkdir(parents=True, exist_ok=True)
    found, output = home / f"{topic}-found.csv", home / f"{topic}-query.out"
    command = [
        *java(stage),
        "mode=query",
        f"namesrv={name_servers}",
        f"topic={topic}",
        f"keys={','.join(map(str, keys))}",
        f"found={found}",
    ]
    with output.open("ab") as said:
        subprocess.run(
            command,
            cwd=home,
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            timeout=CONSUME_WITHIN_S,
            check=False,
        )
    return {
        (int(key), int(queue), int(offset))
        for key, queue, offset in (line.split(",") for line in found.read_text().splitlines())
    }


def verdict(
    label: str,
    rows: list[LedgerRow],
    got: list[Received],
    kills: list[tuple[str, int]],
    client: list[str],
) -> dict[str, Any]:
    """The figures of one run: calls, loss, repeats and the outage after each kill (name, wall clock
    in ms).
    """
    acknowledged = acknowledged_of(rows)
    ends = [*(at for _, at in kills[1:]), max(row[2] for row in rows) + 1]
    outages = [
        outage_after(rows, name, at, end) for (name, at), end in zip(kills, ends, strict=False)
    ]
    times = sorted(row[2] - row[1] for row in rows if row[3] == "SEND_OK")
    places = {(queue, offset) for _, queue, offset in got}
    breaches = disorder(rows, got)
    return {
        "settings": label,
        "client": client,
        "sent": len({row[0] for row in rows}),
        "acknowledged": len(acknowledged),
        "received": len({row[0] for row in got}),
        "lost": len(acknowledged - {row[0] for row in got}),
        "out_of_order": len(breaches),
        "first_disorder": breaches[:3],
        "stored_twice": len(places) - len({row[0] for row in got}),
        "call_p50_ms": times[len(times) // 2],
        "call_p99_ms": times[bisect.bisect(range(len(times)), int(len(times) * 0.99)) - 1],
        "outages": [asdict(outage) for outage in outages],
    }
