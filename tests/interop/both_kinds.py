"""Broker sets of both kinds on Regent's controllers, every process in the scenario's own hands.

Responsible for: the shared controllers and name server, starting a set of Java brokers and brokers
of Regent, making one of them master, what their logs hold and where these differ.
Refuses to know: which scenario does what and why.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokers.store.log.records import Record
from brokers.store.log.scan import LogWalk
from infra.controllers.admin import ControllerAdmin
from infra.controllers.calls import Refused
from infra.problems import Problem
from tests.interop.java_rocketmq import BROKER_SETTINGS
from tests.interop.java_set import (
    ASK_MS,
    ROLE_WITHIN_S,
    JavaSet,
    SetView,
    commit_bytes_differ,
    start_brokers,
)
from tests.interop.program import Replica
from tests.interop.regent_broker import RegentBroker
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

CLUSTER = "DefaultCluster"
CONTROLLERS = 2
LEADS_WITHIN_S = 90.0
ELECT_AGAIN_S = 2.0
EQUAL_WITHIN_S = 20.0
FILE_BYTES = int(BROKER_SETTINGS["mappedFileSizeCommitLog"])


@dataclass(frozen=True, slots=True)
class Member:
    """A replica to be: its settings are those of its kind."""

    name: str
    is_java: bool
    settings: Mapping[str, Any]


def java(name: str, **settings: str) -> Member:
    return Member(name, True, settings)


def ours(name: str, **settings: Any) -> Member:
    return Member(name, False, settings)


def controllers(stage: Stage) -> LocalCluster:
    """Regent's controllers and name server for broker sets that scenarios bring. Shared."""
    return stage.shared("controllers of regent", lambda stack: _controllers(stage, stack))


def _controllers(stage: Stage, stack: ExitStack) -> LocalCluster:
    number = len(list(stage.work.glob("control-*"))) + 1
    found = LocalCluster(
        stage.work / f"control-{number}", "--controllers", str(CONTROLLERS), "--replicas", "0"
    )
    stack.callback(found.end)
    stage.say(f"starting Kafka, {CONTROLLERS} controllers and the name server of Regent")
    found.up()
    stack.callback(found.down)
    return found


@contextmanager
def broker_set(stage: Stage, name: str, members: Sequence[Member]) -> Iterator[JavaSet]:
    """A set of these members, ids in their order, whole; its processes end with the block."""
    cluster = controllers(stage)
    where = cluster.folder.running_cluster()["controllers"]
    with ExitStack() as stack:
        stage.say(f"starting set {name}: {', '.join(one.name for one in members)}")
        found: JavaSet = JavaSet(
            stage.java,
            ControllerAdmin(where, ASK_MS),
            name,
            cluster.name_servers[0],
            [],
            None,
            cluster,
        )  # type: ignore[arg-type]
        for one in members:
            add(stage, stack, found, one)
        found.whole()
        yield found


def add(stage: Stage, stack: ExitStack, brokers: JavaSet, member: Member) -> Replica:
    """One more member of the set, started; it has its id when this returns."""
    assert brokers.regent is not None
    where = brokers.regent.folder.running_cluster()["controllers"]
    if member.is_java:
        made: Replica = start_brokers(
            stage,
            "Regent's controllers, beside brokers of Regent",
            where,
            brokers.regent.name_servers,
            broker_set=brokers.name,
            cluster=CLUSTER,
            count=1,
            prefix=f"{member.name}-",
            settings=member.settings,
        )[0]
        made.name = member.name
    else:
        made = RegentBroker(
            stage.java,
            f"{brokers.name}-{member.name}",
            controllers=where,
            name_servers=brokers.regent.name_servers,
            broker_set=brokers.name,
            cluster=CLUSTER,
            settings=member.settings,
        )
        made.start(wait=False)
        stage.java.wait_until(
            lambda: made.identity() is not None or not made.is_running,
            f"{made.name} has an id",
            ROLE_WITHIN_S,
        )
        if not made.is_running:
            raise Problem(f"{made.name} ended at start", " | ".join(made.logs(4)))
    stack.callback(made.end)
    brokers.brokers.append(made)  # type: ignore[arg-type]
    return made


# -- masters ---------------------------------------------------------------------------------------


def make_master(brokers: JavaSet, one: Replica) -> SetView:
    """Elect it by name and wait until the running brokers are in sync behind it."""
    one.pid  # noqa: B018  a Problem when it has ended
    before = brokers.whole()
    brokers.world.say(f"{one.name} is made master")
    if before.master_id != one.broker_id:
        _elect(brokers, one, before)
    view = brokers.whole()
    if view.master_id != one.broker_id:
        raise Problem(f"{one.name} is not the master", str(view))
    return view


def _elect(brokers: JavaSet, one: Replica, before: SetView) -> None:
    asked = 0.0

    def leads() -> bool:
        nonlocal asked
        if time.monotonic() - asked > ELECT_AGAIN_S:
            asked = time.monotonic()
            with suppress(Refused):  # it has just come back, or was not heard for a moment
                brokers.admin.elect(CLUSTER, brokers.name, one.broker_id)
        view = brokers.view()
        return (
            view is not None
            and view.master_id == one.broker_id
            and view.master_epoch > before.master_epoch
        )

    brokers.world.wait_until(leads, f"{one.name} is master", LEADS_WITHIN_S)


@contextmanager
def paused(*replicas: Replica) -> Iterator[None]:
    """SIGSTOP for the time of the block, for those that still run at its end."""
    for one in replicas:
        one.pause()
    try:
        yield
    finally:
        for one in replicas:
            if one.is_running:
                one.resume()


def kill_together(*replicas: Replica) -> None:
    """`kill -9` of all in one moment, so that none sees another one go; returns when they are
    gone.
    """
    for pid in [one.pid for one in replicas]:
        os.kill(pid, signal.SIGKILL)
    for one in replicas:
        one.end()


def anew(brokers: JavaSet) -> Row:
    """Java brokers that stayed away had to be started anew, as defects of theirs want it; never one
    of ours.
    """
    own = {one.name for one in brokers.brokers if isinstance(one, RegentBroker)}
    return Row(
        "had to be started anew",
        ", ".join(brokers.started_anew) or "nobody",
        own.isdisjoint(brokers.started_anew),
    )


# -- logs ------------------------------------------------------------------------------------------


def records(replica: Replica, start: int = 0) -> list[Record]:
    """The complete messages of its commit log files from `start`, an offset of a record."""
    return list(_walk(replica, start))


def log_end(replica: Replica) -> int:
    """Where its last complete message ends, by its files alone."""
    walk = _walk(replica, 0)
    for _ in walk:
        pass
    return walk.end


def _walk(replica: Replica, start: int) -> LogWalk:
    folder = replica.store / "commitlog"
    names = sorted(path.name for path in folder.glob("*"))
    first = int(names[0]) if names else 0

    def read(offset: int, count: int) -> bytes:
        path = folder / f"{offset - offset % FILE_BYTES:020d}"
        if not path.exists():
            return b""
        with path.open("rb") as file:
            file.seek(offset % FILE_BYTES)
            return file.read(count)

    return LogWalk(
        read, max(start, first), first + len(names) * FILE_BYTES, FILE_BYTES, check_body=True
    )


def folders(replicas: Sequence[Replica]) -> dict[str, Path]:
    return {one.name: one.store / "commitlog" for one in replicas}


def at_rest(brokers: JavaSet) -> int:
    """Wait until nobody writes and the running brokers hold the same bytes; where their logs
    end.
    """
    running = [one for one in brokers.brokers if one.is_running]
    brokers.world.wait_until(
        lambda: not commit_bytes_differ(folders(running)),
        "the commit logs are equal",
        EQUAL_WITHIN_S,
    )
    return log_end(running[0])


def equal_logs(brokers: JavaSet) -> Row:
    """With everything at rest: the running brokers' logs are equal byte by byte, whatever lies
    behind their end included.
    """
    running = [one for one in brokers.brokers if one.is_running]
    try:
        end = at_rest(brokers)
    except Problem:
        return Row("commit logs equal", commit_bytes_differ(folders(running)), ok=False)
    return Row("commit logs equal", f"{len(running)} brokers, byte by byte, {end} bytes of log")
