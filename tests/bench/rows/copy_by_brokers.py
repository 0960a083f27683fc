"""HA copy between whole broker processes: a new slave with an empty disk takes 4 GiB from its
master, ours and Java's, against sendfile.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from brokers.remoting.calls import RemotingError
from infra.problems import Problem
from infra.processes.ports import pick_block
from tests.bench import memory, replica_ends
from tests.bench.apart import apart, cpu_seconds, running
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, share_at_least
from tests.bench.java_brokers import JVM_NAMED
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.bench.stored_broker import OneSet, ha_status, until_writable
from tests.interop.java_rocketmq import JavaWorld
from tests.interop.program import Replica

ROW = "copy-brokers"
COUNT = 4 << 30
FILE_BYTES = replica_ends.FILE_BYTES
MB = 1_000_000
POLL_S = 0.02
WITHIN_S = 300.0
TURNS = 2


@dataclass(frozen=True, slots=True)
class Copied:
    """One copy: MB/s between the first and the last acknowledgement seen, seconds from the start of
    the slave's process to the end, processor seconds of both, memory of the slave's own in MiB at
    the end.
    """

    mb_per_s: float
    seconds: float
    master_cpu_s: float
    slave_cpu_s: float
    slave_mib: float


def progress(body: bytes) -> tuple[int, int]:
    """(end of the master's log, what its one slave has acknowledged; 0 without a slave) of a 907's
    body.
    """
    found = json.loads(body)
    return int(found["masterCommitLogMaxOffset"]), max(
        (int(one["slaveAckOffset"]) for one in found["haConnectionInfo"]), default=0
    )


def _watched(master: Replica, slave: Replica) -> list[tuple[float, int]]:
    """(moment, acknowledged) from the slave's start until it has everything."""
    seen = [(time.perf_counter(), 0)]
    slave.start(wait=False)
    while True:
        try:
            end, acknowledged = progress(ha_status(master))
        except (RemotingError, OSError, ValueError):
            end, acknowledged = 1, 0
        now = time.perf_counter()
        seen.append((now, acknowledged))
        if acknowledged >= end:
            return seen
        if now - seen[0][0] > WITHIN_S or not slave.is_running:
            raise BenchFailed(
                f"{slave.name} has {acknowledged} of {end} bytes after {now - seen[0][0]:.0f} s: "
                f"{' | '.join(slave.logs(2))}"
            )
        time.sleep(POLL_S)


def rate(seen: list[tuple[float, int]]) -> float:
    """MB/s from the first moment with something acknowledged on; of the whole time when there was
    only one such moment.
    """
    moving = [one for one in seen if one[1] > 0]
    first = moving[0] if len(moving) > 1 else seen[0]
    last = moving[-1]
    return (last[1] - first[1]) / (last[0] - first[0]) / MB


def _copied(make: Callable[[str, Path | None], Replica], label: str, store: Path) -> Copied:
    """By a master on the store and a new slave; both are ended."""
    master, slave = make(f"{label}-master", store), make(f"{label}-slave", None)
    master.start(wait=False)
    until_writable(master)
    os.sync()
    before = cpu_seconds(master.pid)
    seen = _watched(master, slave)
    found = Copied(
        rate(seen),
        seen[-1][0] - seen[0][0],
        cpu_seconds(master.pid) - before,
        cpu_seconds(slave.pid),
        memory.resident(slave.pid).own,
    )
    slave.kill()
    master.stop()
    shutil.rmtree(slave.store)
    return found


def _plain(home: Path, store: Path) -> float:
    """MB/s of sendfile -> recv -> file write, over the same files."""
    sender, port = home / "sender", pick_block(1)
    sender.mkdir(parents=True)
    (sender / "commitlog").symlink_to(store / "commitlog")
    os.sync()
    with running(replica_ends.send_plain, sender / "commitlog", port, COUNT):
        while not (sender / replica_ends.READY_FILE).exists():
            time.sleep(POLL_S)
        target = home / "received"
        target.mkdir()
        copied = apart(replica_ends.receive_plain, target, port, COUNT)
    shutil.rmtree(target)
    return copied.count / copied.seconds / MB


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.broker_cluster()
    home = bench.folder(ROW)
    with ExitStack() as stack:
        one = OneSet(cluster, home, ROW, FILE_BYTES)
        stack.callback(one.end)
        bench.say(f"writing a log of {COUNT // MB} MB")
        store = one.filled(COUNT)
        plain, ours = [], []
        for turn in range(TURNS):
            plain.append(_plain(home / f"plain-{turn}", store))
            bench.say("copied from ours to ours")
            ours.append(_copied(one.ours, f"ours-{turn}", store))
        java = None
        try:
            world = stack.enter_context(JavaWorld(home / "java", bench.say))
            bench.say("copied from Java to Java")
            java = _copied(lambda label, path: one.java(world, label, path), "java", store)
        except Problem as problem:
            bench.say(f"no Java beside: {problem}")
    shutil.rmtree(home)
    return figures(ours, java, plain)


def figures(turns: list[Copied], java: Copied | None, plain: list[float]) -> list[Figure]:
    """The figures of the row; of ours the turn in the middle, or the slower one of those."""
    ours = sorted(turns, key=lambda one: one.mb_per_s)[(len(turns) - 1) // 2]
    peer = "Java to Java" if java else "no Java here"
    note = (
        f"{COUNT // MB} MB of 1 KiB messages; broker processes, from the first acknowledgement to "
        f"the last as the master tells (907), files of {FILE_BYTES >> 20} MiB, page cache warm; "
        f"processor time of ours: master {ours.master_cpu_s:.1f} s, slave {ours.slave_cpu_s:.1f} s"
    ) + (
        (f"; Java's: {java.master_cpu_s:.1f} s and {java.slave_cpu_s:.1f} s ({JVM_NAMED})")
        if java
        else ""
    )
    return [
        Figure(
            ROW,
            "HA copy of 4 GiB, brokers",
            "MB/s",
            round(ours.mb_per_s, 1),
            "sendfile -> recv -> file write",
            round(median(plain), 1),
            floor=share_at_least(0.4),
            goal=share_at_least(0.7),
            note=note,
            samples=[round(one.mb_per_s, 1) for one in turns],
            details={"peer_samples": [round(one, 1) for one in plain]},
        ),
        Figure(
            ROW,
            "the same beside Java",
            "MB/s",
            round(ours.mb_per_s, 1),
            peer,
            round(java.mb_per_s, 1) if java else None,
        ),
        Figure(
            ROW,
            "from the slave's start to the last byte",
            "s",
            round(ours.seconds, 2),
            peer,
            round(java.seconds, 2) if java else None,
        ),
        Figure(
            ROW,
            "the slave's own memory after it",
            "MiB",
            round(ours.slave_mib),
            peer,
            round(java.slave_mib) if java else None,
        ),
    ]
