"""How long a start takes after a loss of power, with many queues and with a large log; Java's on
copies of the same folder.

Each start gets a copy of its own, with nothing of it in memory. Beside it what cannot be done
without: each queue file opened and one page of it read, and the part of the log read that the start
read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from infra.problems import Problem
from tests.bench import lost_power
from tests.bench.apart import apart
from tests.bench.figure import Bound, Figure, at_most
from tests.bench.java_brokers import JVM_NAMED
from tests.bench.lost_power import AtLeast, Opened
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.bench.stored_broker import OneSet, fill, until_listening
from tests.interop.java_rocketmq import JavaWorld
from tests.interop.program import Replica

GIB = 1 << 30
FILE_BYTES = GIB
SPARE_BYTES = 64 << 20
STARTS = 3
PEER, FLOOR = "Java broker, same folder", "queue files and log read alone"
GOALS_S = {10_000: 3.0, 100_000: 30.0}
# With more, Java takes minutes.
JAVA_QUEUES_MAX = 2_000


@dataclass(slots=True)
class Starts:
    """Seconds until a broker listens, of each start; the store alone, and what it cannot do
    without.
    """

    ours: list[float] = field(default_factory=list)
    java: list[float] = field(default_factory=list)
    alone: list[Opened] = field(default_factory=list)
    floors: list[AtLeast] = field(default_factory=list)


class Folder:
    """A store that was laid once, and the place where copies of it are opened."""

    def __init__(self, laid: Path, place: Path, *, checkpoint: bool = True) -> None:
        self._laid, self.place, self._checkpoint = laid, place, checkpoint

    def fresh(self) -> Path:
        lost_power.without_power(self._laid, self.place, checkpoint=self._checkpoint)
        return self.place

    def start(self, broker: Replica) -> float:
        """Seconds until it listens, which is after recovery. It is killed then."""
        self.fresh()
        broker.start(wait=False)
        try:
            return until_listening(broker)
        finally:
            broker.kill()


def started(folder: Folder, ours: Replica, java: Replica | None, times: int) -> Starts:
    """All that open the folder, in turn; Java's broker once."""
    found = Starts()
    for number in range(times):
        found.ours.append(folder.start(ours))
        alone = apart(lost_power.open_store, folder.fresh(), FILE_BYTES)
        found.alone.append(alone)
        found.floors.append(apart(lost_power.read_at_least, folder.fresh(), alone.read_from))
        if java is not None and not number:  # half a minute with 1,000 queues already
            found.java.append(folder.start(java))
    return found


def _measure(
    bench: Bench,
    row: str,
    filling: Callable[..., object],
    arguments: tuple[object, ...],
    *,
    beside_java: bool = True,
    times: int = STARTS,
    checkpoints: tuple[bool, ...] = (True,),
) -> list[Starts]:
    """The starts of a folder laid by `filling`; with and without its checkpoint, as `checkpoints`
    says.
    """
    cluster = bench.broker_cluster()
    home = bench.folder(row)
    with ExitStack() as stack:
        one = OneSet(cluster, home, row, FILE_BYTES)
        stack.callback(one.end)
        bench.say("writing the store")
        laid, place = one.filled_by(filling, *arguments), home / "opened"
        java = _java(bench, stack, one, home, place) if beside_java else None
        ours = one.ours(f"{row}-ours", place)
        bench.say("opened in turn")
        found = [
            started(Folder(laid, place, checkpoint=has), ours, java, times) for has in checkpoints
        ]
    shutil.rmtree(home)
    return found


def _java(bench: Bench, stack: ExitStack, one: OneSet, home: Path, place: Path) -> Replica | None:
    try:
        world = stack.enter_context(JavaWorld(home / "java", bench.say))
    except Problem as problem:
        bench.say(f"no Java beside: {problem}")
        return None
    return one.java(world, "java", place)


def figures(
    row: str, what: str, found: Starts, goal: Bound | None = None, more: str = ""
) -> list[Figure]:
    """A broker's start beside Java's, and the store alone beside what it cannot do without."""
    java, floor, alone = (
        median(found.java) if found.java else None,
        found.floors[-1],
        found.alone[-1],
    )
    floor_s = median([one.seconds for one in found.floors])
    note = (
        "from the start of the process until it listens, which is after recovery; median of "
        f"{len(found.ours)}, Java's of {len(found.java)} ({JVM_NAMED}); at least: {floor_s:.2f} s "
        f"for a page of {floor.queue_files} queue files and {floor.log_bytes / GIB:.2f} GiB of "
        f"log; another boot id, no end in order, nothing in memory{more}"
    )
    alone_note = (
        f"{alone.messages} messages in {(alone.end - alone.read_from) / GIB:.2f} GiB read of a log "
        f"of {alone.end / GIB:.2f} GiB"
    )
    return [
        Figure(
            row,
            f"start after a loss of power, {what}",
            "s",
            median(found.ours),
            PEER if java else "no Java beside",
            java,
            goal=goal,
            samples=_rounded(found.ours),
            details={"peer_samples": _rounded(found.java)},
            note=note,
        ),
        Figure(
            row,
            f"of that the store alone, {what}",
            "s",
            median([one.seconds for one in found.alone]),
            FLOOR,
            floor_s,
            samples=_rounded([one.seconds for one in found.alone]),
            note=alone_note,
            details={
                "peer_samples": _rounded([one.seconds for one in found.floors]),
                "queues_s": floor.queues_s,
                "log_s": floor.log_s,
            },
        ),
    ]


def _rounded(samples: list[float]) -> list[float]:
    return [round(one, 3) for one in samples]


def _of_queues(bench: Bench, row: str, queues: int, rounds: int, times: int) -> list[Figure]:
    arguments = (queues, rounds, FILE_BYTES)
    beside = queues <= JAVA_QUEUES_MAX
    (found,) = _measure(
        bench, f"{row}-{queues}", lost_power.fill_queues, arguments, beside_java=beside, times=times
    )
    goal = at_most(GOALS_S[queues]) if queues in GOALS_S else None
    more = f"; {rounds} entries in each queue before the last checkpoint, one behind it"
    return figures(row, f"{queues:,} queues", found, goal, more)


def measure_queues(bench: Bench) -> list[Figure]:
    return [
        figure
        for queues in (1_000, 10_000)
        for figure in _of_queues(bench, "power-loss-queues", queues, 10, STARTS)
    ]


def measure_queues_long(bench: Bench) -> list[Figure]:
    return _of_queues(bench, "power-loss-queues-long", 100_000, 3, 1)


def _of_bytes(bench: Bench, row: str, gib: int, times: int) -> list[Figure]:
    kept, without = _measure(
        bench,
        row,
        fill,
        (gib * GIB - SPARE_BYTES, FILE_BYTES),
        times=times,
        checkpoints=(True, False),
    )
    without_it = f"{gib} GiB without a checkpoint"
    return [
        *figures(row, f"{gib} GiB", kept, more="; checkpoints as a broker writes them"),
        *figures(row, without_it, without, more="; so that all of the log is read"),
        Figure(
            row,
            f"a GiB read, {without_it}",
            "s/GiB",
            median(without.ours) / gib,
            PEER if without.java else "no Java beside",
            median(without.java) / gib if without.java else None,
        ),
    ]


def measure_bytes(bench: Bench) -> list[Figure]:
    return _of_bytes(bench, "power-loss", 1, STARTS)


def measure_bytes_long(bench: Bench) -> list[Figure]:
    return _of_bytes(bench, "power-loss-long", 10, 1)
