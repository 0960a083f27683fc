"""A broker that has no room for a while, on its disk or among its descriptors: what senders are
told, that reads go on, that it passes by itself.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import damage
from tests.chaos.armed import Armed
from tests.chaos.broker_stage import BrokerStage
from tests.chaos.brokers_planned import done
from tests.chaos.damage_lines import SET, served_by
from tests.chaos.hits import NotAsItShouldBe, NotPossible
from tests.chaos.line import Line
from tests.support.local_cluster import wait_until
from tests.support.small_disk import SmallDisk, small_disk

FULL_S, USED_UP_S = 30.0, 60.0
ROOM_BYTES = 32 << 20
SMALL_FILES = {"commit_log_file_bytes": 1 << 20}
"""What is set aside already for the newest file of the log must not last long."""
REFUSED = "code 14"


@contextmanager
def on_small_disk(armed: Armed, name: str) -> Iterator[SmallDisk]:
    """Its data folder lies on a disk of its own with little room; the broker is restarted for it,
    and again at the end.
    """
    store = armed.store(name)
    size = sum(path.stat().st_blocks * 512 for path in store.rglob("*")) + ROOM_BYTES
    disk = small_disk(store, size)
    with armed.killed(name):
        _copy(store, aside := store.with_name(f"{name}.aside"))
        try:
            small = disk.__enter__()
        except pytest.skip.Exception as error:
            raise NotPossible(str(error)) from None
        _copy(aside, store)
    armed.stage.cluster.whole()
    try:
        yield small
    finally:
        with armed.killed(name):
            shutil.rmtree(aside)
            _copy(store, aside)
            disk.__exit__(None, None, None)
            shutil.rmtree(store)
            _copy(aside, store)
            shutil.rmtree(aside)


def _copy(source: Path, target: Path) -> None:
    """With the holes of its files."""
    target.mkdir(exist_ok=True)
    subprocess.run(
        ["cp", "-a", "--sparse=always", f"{source}/.", str(target)], check=True, capture_output=True
    )


def disk_full(of_master: bool, stage: BrokerStage) -> str:
    armed = Armed(stage)
    victim = stage.slaves()[0]
    with on_small_disk(armed, victim) as disk:
        if of_master:
            lead(stage, victim)
        stage.flows(20)
        pid = armed.pid(victim)
        disk.fill()
        if of_master:
            _refuses(stage, victim)
        else:
            _left_out(stage, victim)
        stage.wait_for(FULL_S)
        served = served_by(stage, victim)
        disk.free()
        stage.cluster.whole()
        stage.flows()
        if armed.pid(victim) != pid:
            raise NotAsItShouldBe(f"{victim} did not get over it without a restart")
    told = f"senders were told {REFUSED}" if of_master else "it left the set and came back"
    return (
        f"{victim} had no room for {FULL_S:.0f} s: {told}, {served} messages were read from it "
        "meanwhile"
    )


def descriptors_used_up(of_master: bool, stage: BrokerStage) -> str:
    """It can open nothing more, no file and no connection, while its log goes on into new files."""
    armed = Armed(stage)
    victim = stage.master() if of_master else stage.slaves()[0]
    pid = armed.pid(victim)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    files = len(damage.log_files(armed.store(victim)))
    with _no_more_descriptors(pid, limits):
        stage.wait_for(USED_UP_S)
    stage.cluster.whole()
    stage.flows()
    if armed.pid(victim) != pid:
        raise NotAsItShouldBe(f"{victim} did not get over it without a restart")
    wait_until(
        lambda: len(damage.log_files(armed.store(victim))) > files,
        f"{victim} has begun another file of its log",
    )
    return f"{victim} could open nothing for {USED_UP_S:.0f} s, and went on by itself"


@contextmanager
def _no_more_descriptors(pid: int, limits: tuple[int, int]) -> Iterator[None]:
    resource.prlimit(
        pid, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{pid}/fd").iterdir())), limits[1])
    )
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def lead(stage: BrokerStage, name: str) -> None:
    """The mastership is handed over to that member."""
    done(stage, "controller", "transfer", SET, str(_status(stage, name)["broker_id"]))
    wait_until(lambda: stage.master() == name, f"{name} leads")


def _status(stage: BrokerStage, name: str) -> dict[str, Any]:
    return stage.cluster.view.broker_status(stage.cluster.process(name)["address"]) or {}


def _refuses(stage: BrokerStage, victim: str) -> None:
    def told() -> str:
        return str(stage.load.figures().get("last_error", ""))

    wait_until(
        lambda: bool(stage.load.figures().get("outage")) and REFUSED in told(),
        f"{victim} answers {REFUSED}",
    )


def _left_out(stage: BrokerStage, victim: str) -> None:
    mine = _status(stage, victim)["broker_id"]
    stage.cluster.set_view(f"{victim} left the set", lambda view: mine not in view.in_sync)


LINES = (
    Line(
        "disk-full-master",
        "the master's disk is full for 30 s",
        partial(disk_full, True),
        armed=True,
        settings=SMALL_FILES,
    ),
    Line(
        "descriptors-master",
        "the master can open neither file nor connection for a minute",
        partial(descriptors_used_up, True),
        armed=True,
        settings=SMALL_FILES,
    ),
    Line(
        "descriptors-slave",
        "a slave can open neither file nor connection for a minute",
        partial(descriptors_used_up, False),
        armed=True,
        settings=SMALL_FILES,
    ),
    Line(
        "disk-full-slave",
        "a slave's disk is full for 30 s",
        partial(disk_full, False),
        armed=True,
        settings=SMALL_FILES,
    ),
)
