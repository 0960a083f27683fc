"""Every feature that an application written in Go uses, with rocketmq-client-go in its default
settings: one program, a topic for each feature, the master killed between two halves.

Responsible for: one cluster through the `regent` command line, what each consumer must get, and how
the rows are judged. Refuses to know: how a feature works, in the client or at a broker.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.interop.go_client import go, version
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import Row, Stage
from tests.interop.two_halves import TwoHalves
from tests.support.local_cluster import LocalCluster

COUNT = 40
"""Messages of each feature."""
FIRST_HALF_WITHIN_S, WITHIN_S = 240.0, 300.0
STOP_S = 20.0
DELAYS_MS = {"delayed": 5_000, "timed": 4_000}
LARGE = "bytes=20000"
RETRIES = 2


@dataclass(slots=True)
class Said:
    """The program's lines, by what they say."""

    sent: dict[str, dict[int, int]] = field(default_factory=dict)
    """Feature -> number -> when its send began, Unix ms."""
    got: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    """Consumer -> number, when, and a word more, as they came."""
    asked: set[int] = field(default_factory=set)
    replied: set[int] = field(default_factory=set)
    admin: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    state: str = ""

    def numbers(self, who: str) -> list[int]:
        """What a consumer got, as it came."""
        return [number for number, _, _ in self.got.get(who, [])]


def read(lines: Iterable[str]) -> Said:
    """What whole lines say; the client's own log lines are passed over."""
    said = Said()
    for line in lines:
        match line.split(" "):
            case ["sent", feature, number, at]:
                said.sent.setdefault(feature, {})[int(number)] = int(at)
            case ["got", who, number, at, more]:
                said.got.setdefault(who, []).append((int(number), int(at), more))
            case ["asked", number]:
                said.asked.add(int(number))
            case ["replied", number]:
                said.replied.add(int(number))
            case ["admin", what, found]:
                said.admin[what] = found
            case ["failed", *words]:
                said.failed.append(" ".join(words))
            case ["waits" | "done" as state]:
                said.state = state
    return said


def is_committed(number: int) -> bool:
    """What the program's listener decides, at once or when it is asked."""
    return number % 3 != 1


def is_dead(number: int) -> bool:
    """What its consumer asks for again until it is a dead letter."""
    return number % 4 == 3


WANTED: dict[str, tuple[str, Callable[[int], bool]]] = {
    "plain": ("plain", lambda _: True),
    "tags": ("plain", lambda number: number % 3 != 2),
    "sql": ("plain", lambda number: number > 5 and number % 2 == 0),
    "broadcast-1": ("plain", lambda _: True),
    "broadcast-2": ("plain", lambda _: True),
    "orderly": ("orderly", lambda _: True),
    "delayed": ("delayed", lambda _: True),
    "timed": ("timed", lambda _: True),
    "transactions": ("transactions", is_committed),
    "batch": ("batch", lambda _: True),
    "async": ("async", lambda _: True),
    "retry": ("retry", lambda _: True),
    "dead": ("retry", is_dead),
}
"""Consumer -> the feature whose messages it reads, and which of them are for it."""


def run(stage: Stage) -> list[Row]:
    """Half of the messages, the consumers, a kill of the master, the other half."""
    go(stage)  # what needs a compiler is said before anything starts
    with own_cluster(stage, folder="cluster-go-features", java_client=False) as cluster:
        said = _played(stage, cluster)
    return judged(said)


def _played(stage: Stage, cluster: LocalCluster) -> Said:
    view = cluster.set_view("a master", lambda one: one.master_address is not None)
    halves = TwoHalves(
        read=read,
        waits=lambda said: said.state == "waits",
        done=lambda said: said.state == "done" and not missing(said),
        first_within_s=FIRST_HALF_WITHIN_S,
        within_s=WITHIN_S,
        stop_s=STOP_S,
    )
    words = [
        *go(stage),
        "mode=features",
        f"namesrv={cluster.name_servers[0]}",
        f"broker={view.master_address}",
        f"count={COUNT}",
    ]
    # where consumers that broadcast keep their offsets
    environ = {**os.environ, "HOME": str(stage.work)}
    return halves.play(stage, cluster, words, stage.work / "go-features.out", environ)


def wanted_of(said: Said, who: str) -> set[int]:
    """What a consumer must get of what was answered with success."""
    feature, is_for_it = WANTED[who]
    return {number for number in said.sent.get(feature, {}) if is_for_it(number)}


def missing(said: Said) -> dict[str, set[int]]:
    """What each consumer lacks, by its name; nobody who has everything."""
    lacks = {who: wanted_of(said, who) - set(said.numbers(who)) for who in WANTED}
    return {who: numbers for who, numbers in lacks.items() if numbers}


def judged(said: Said) -> list[Row]:
    """A row for each consumer, and what its feature promises besides."""
    rows = [_consumer_row(said, who) for who in WANTED]
    rows += [_early_row(said, feature, delay) for feature, delay in DELAYS_MS.items()]
    rows += [_order_row(said), _retry_row(said), _large_row(said)]
    unsure = {number for number in range(COUNT) if number % 3 == 2}
    rows.append(
        Row(
            "transactions left open: asked about",
            f"{len(said.asked & unsure)} of {len(unsure)}",
            said.asked >= unsure,
        )
    )
    requests = set(range(COUNT // 2, COUNT))
    rows.append(
        Row(
            "requests with their reply",
            f"{len(said.replied)} of {len(requests)}",
            said.replied == requests,
        )
    )
    came, sent = set(said.numbers("oneway")), said.sent.get("oneway", {})
    rows.append(Row("sends without an answer that came", f"{len(came)} of {len(sent)}", bool(came)))
    expected = {"listed": "true", "queues": "3", "gone": "true"}
    rows.append(Row("the client's administrator", str(said.admin), said.admin == expected))
    rows.append(Row(f"calls of {version()} that failed", str(said.failed), not said.failed))
    return rows


def _consumer_row(said: Said, who: str) -> Row:
    feature, is_for_it = WANTED[who]
    wanted, came = wanted_of(said, who), said.numbers(who)
    lacks = len(wanted - set(came))
    strange = sorted({number for number in came if not is_for_it(number)})
    least = COUNT if feature != "async" else COUNT // 2
    enough = len(said.sent.get(feature, {})) >= least
    return Row(
        f"{who}: lost",
        f"{lacks} of {len(wanted)}; not for it: {strange or 'none'}; twice "
        f"{len(came) - len(set(came))}",
        enough and not lacks and not strange,
    )


def _early_row(said: Said, feature: str, delay_ms: int) -> Row:
    begun = said.sent.get(feature, {})
    waited = [at - begun[number] for number, at, _ in said.got.get(feature, []) if number in begun]
    early = [one for one in waited if one < delay_ms]
    return Row(
        f"{feature} by {delay_ms} ms: came earlier",
        f"{len(early)}; the shortest wait {min(waited, default=0)} ms",
        bool(waited) and not early,
    )


def _order_row(said: Said) -> Row:
    """By key, what came for the first time comes in the order of the sends."""
    first_time = list(dict.fromkeys(said.numbers("orderly")))
    keys = {number % 4 for number in first_time}
    wrong = [
        key
        for key in keys
        if (mine := [one for one in first_time if one % 4 == key]) != sorted(mine)
    ]
    return Row(
        "orderly: keys out of order", f"{len(wrong)} of {len(keys)}", bool(keys) and not wrong
    )


def _retry_row(said: Said) -> Row:
    """A message asked for once more comes at least twice, a dead one as often as the group allows
    and once; more is for a kill to explain.
    """
    times = Counter(said.numbers("retry"))
    least = {n: 1 + RETRIES if is_dead(n) else 2 if n % 4 == 1 else 1 for n in range(COUNT)}
    lacks = {number for number, one in least.items() if times[number] < one}
    return Row("retry: came less often than asked for", f"{sorted(lacks) or 'none'}", not lacks)


def _large_row(said: Said) -> Row:
    """Bodies that the client compresses come as they were."""
    large = [(number, more) for number, _, more in said.got.get("plain", []) if number % 10 == 0]
    wrong = [number for number, more in large if more != LARGE]
    return Row(
        "compressed bodies that changed", f"{len(wrong)} of {len(large)}", bool(large) and not wrong
    )
