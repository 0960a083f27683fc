"""Consumers of the stock Java client that filter, while the master is killed.

Responsible for: what each of them must get, and how it must be refused; one cluster through the
`regent` command line, a kill between two halves of the messages. Refuses to know: how filters work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.interop.two_halves import TwoHalves
from tests.support.local_cluster import LocalCluster

TOPIC = "Filtered"
MESSAGES = 200
WITHIN_S = 120.0
# What should not come is waited for so long after everything else came.
QUIET_S = 3.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One consumer: how it asks, and which messages are for it; or how its start is refused."""

    how: str
    wanted: Callable[[int], bool] = lambda _: False
    refused: str = ""


CONSUMERS = {
    "line-49-sql": Asked("sql:a > 5 AND b = 'x'", lambda i: i > 5 and i % 2 == 0),
    "line-49-absent": Asked(
        "sql:c NOT IN ('10', '15')", lambda i: i % 5 == 0 and i not in (10, 15)
    ),
    "line-50-null": Asked(
        "sql:c IS NULL AND a BETWEEN 10 AND 30", lambda i: i % 5 != 0 and 10 <= i <= 30
    ),
    "line-50-lite": Asked("lite:b = 'y' AND a ENDSWITH '7'", lambda i: i % 10 == 7),
    "line-52-text": Asked("sql:b > 5 OR c > 0"),
    "line-53-not": Asked("sql:NOT (a > 5)", lambda i: i <= 5),
    "line-47-tags": Asked("tags:T0 || T1", lambda i: i % 3 != 2),
    "line-47-all": Asked("tags:*", lambda i: True),
    "line-51-null": Asked(
        "sql:a = NULL",
        refused="23 CODE: 23 DESC: java.lang.RuntimeException: 'NULL' cannot be compared.",
    ),
    "line-51-between": Asked(
        "sql:a BETWEEN 5 AND 3",
        refused="23 CODE: 23 DESC: java.lang.RuntimeException: Illegal values of between, left "
        "value(5) must less than or equal to right value(3)",
    ),
    "line-53-refused": Asked(
        "sql:NOT a > 5",
        refused="23 CODE: 23 DESC: java.lang.RuntimeException: Value '(NOT a)' cannot be compared.",
    ),
}


@dataclass(slots=True)
class Said:
    """The client's lines, by what they say."""

    sent: set[int] = field(default_factory=set)
    received: dict[str, list[int]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    waits: bool = False


def read(lines: Sequence[str]) -> Said:
    """What whole lines say."""
    said = Said()
    for line in lines:
        what, _, rest = line.partition(" ")
        name, _, more = rest.partition(" ")
        match what:
            case "sent":
                said.sent.add(int(name))
            case "received":
                said.received.setdefault(name, []).append(int(more))
            case "refused":
                said.refused[name] = more
            case "waits":
                said.waits = True
    return said


def run(stage: Stage) -> list[Row]:
    """Half of the messages, the consumers, a kill of the master, the other half."""
    with own_cluster(stage) as cluster:
        out = stage.work / "filters.out"
        said = _played(stage, cluster, stage.client_class_path, out)
    return judged(said, MESSAGES)


def _played(stage: Stage, cluster: LocalCluster, class_path: str, out: Path) -> Said:
    asked = [f"{name}={one.how}" for name, one in CONSUMERS.items()]
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", class_path, "FilterClient"]
    server = f"namesrv={cluster.name_servers[0]}"
    halves = TwoHalves(
        read=read,
        waits=lambda said: said.waits,
        done=lambda said: len(said.sent) == MESSAGES and _has_all(said),
        first_within_s=WITHIN_S,
        within_s=WITHIN_S,
        quiet_s=QUIET_S,
    )
    words = [*command, server, f"topic={TOPIC}", f"count={MESSAGES}", *asked]
    return halves.play(stage, cluster, words, out)


def _has_all(said: Said) -> bool:
    return all(
        wanted_of(one, MESSAGES) <= set(said.received.get(name, ()))
        for name, one in CONSUMERS.items()
    )


def wanted_of(one: Asked, count: int) -> set[int]:
    return {number for number in range(count) if one.wanted(number)}


def judged(said: Said, count: int) -> list[Row]:
    """Every consumer has what is for it and nothing else; messages may come twice."""
    rows = [Row("messages sent", f"{len(said.sent)} of {count}", len(said.sent) == count)]
    for name, one in CONSUMERS.items():
        if one.refused:
            found = said.refused.get(name, "was not refused")
            rows.append(Row(f"{name}, {one.how}", found[:160], found.startswith(one.refused)))
            continue
        came, wanted = said.received.get(name, []), wanted_of(one, count)
        lacks, strange = len(wanted - set(came)), len(set(came) - wanted)
        rows.append(
            Row(
                f"{name}, {one.how}",
                said.refused.get(name)
                or f"{len(wanted)} wanted, {lacks} missing, {strange} too many, "
                f"{len(came) - len(set(came))} twice",
                not lacks and not strange and name not in said.refused,
            )
        )
    return rows
