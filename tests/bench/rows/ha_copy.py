"""HA copy: a slave with an empty disk takes the master's log over loopback, against sendfile ->
recv -> file write.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from infra.processes.ports import pick_block
from tests.bench import replica_ends as ends
from tests.bench.apart import apart, running
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, share_at_least
from tests.bench.run_context import Bench
from tests.bench.samples import median

COUNT = 1024 * 1024 * 1024
TURNS = 3
FILL_WITHIN_S = 120.0
MB = 1_000_000


def _wait_for(path: Path) -> int:
    deadline = time.monotonic() + FILL_WITHIN_S
    while not path.exists() or not path.read_text():
        if time.monotonic() > deadline:
            raise BenchFailed(f"the sending end was not ready within {FILL_WITHIN_S:.0f} s")
        time.sleep(0.02)
    return int(path.read_text())


def _one(function: object, folder: Path, port: int, count: int) -> ends.Copied:
    """One copy into a fresh folder, begun with nothing waiting to be written to the disk."""
    os.sync()
    folder.mkdir()
    try:
        return apart(function, folder, port, count)  # type: ignore[arg-type]
    finally:
        shutil.rmtree(folder)


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    home = bench.folder("ha-copy")
    port = pick_block(2)
    master, plain = home / "master", home / "plain"
    master.mkdir(), plain.mkdir()
    ours: list[ends.Copied] = []
    theirs: list[ends.Copied] = []
    bytes_only: list[ends.Copied] = []
    bench.say(f"writing a log of {COUNT // MB} MB, copying it {TURNS} times by each way")
    with running(ends.serve_log, master, port, COUNT):
        count = _wait_for(master / ends.READY_FILE)
        log = master / "commitlog"
        (plain / "commitlog").symlink_to(log)
        with running(ends.send_plain, plain / "commitlog", port + 1, count):
            _wait_for(plain / ends.READY_FILE)
            for turn in range(TURNS):
                theirs.append(_one(ends.receive_plain, home / f"plain-{turn}", port + 1, count))
                ours.append(_one(ends.copy_log, home / f"slave-{turn}", port, count))
                bytes_only.append(_one(ends.copy_log_only, home / f"bytes-{turn}", port, count))
    shutil.rmtree(home)
    return figures(ours, bytes_only, theirs)


def _rates(copies: list[ends.Copied]) -> list[float]:
    """Until every message can be read through its queue (the peer: until its file holds all)."""
    return [round(one.count / one.readable_s / MB, 1) for one in copies]


def figures(
    ours: list[ends.Copied], bytes_only: list[ends.Copied], theirs: list[ends.Copied]
) -> list[Figure]:
    """The figures of the row from the copies."""
    rates, bare = _rates(ours), _rates(theirs)
    peer = ("sendfile -> recv -> file write", median(bare))
    note = (
        f"median of {len(rates)} turns; {ours[0].count // MB} MB of 1 KiB messages, packets of "
        f"{ends.BATCH_BYTES // 1024} KiB, two driver processes, page cache warm, no fsync on "
        "either side; until every message is readable by queue, which is done beside the copying "
        "as in a broker (the key index follows later); processor time of the slave "
        f"{median([one.cpu_s for one in ours]):.2f} s, of the peer's receiver "
        f"{median([one.cpu_s for one in theirs]):.2f} s"
    )
    return [
        Figure(
            "ha-copy",
            "HA copy, empty slave",
            "MB/s",
            median(rates),
            *peer,
            floor=share_at_least(0.4),
            goal=share_at_least(0.7),
            note=note,
            samples=rates,
            details={"peer_samples": bare},
        ),
        Figure(
            "ha-copy",
            "the same, bytes only",
            "MB/s",
            median(_rates(bytes_only)),
            *peer,
            samples=_rates(bytes_only),
            note="the log alone, consume queues left for later: what the link itself gives",
        ),
    ]
