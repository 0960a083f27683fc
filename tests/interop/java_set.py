"""A broker set of three Java brokers, and the controllers that decide about it, as scenarios see
them.

Responsible for: starting the set on Regent's controllers or on Java's, asking RocketMQ's own
requests (1005, 1006) who is master and who is in sync, waiting, and finding the process behind an
id.
Refuses to know: which scenario does what and why.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from infra.controllers.admin import ControllerAdmin
from infra.problems import Problem
from tests.interop.java_client import RATE_PER_S, TUNED, Producer, read_back
from tests.interop.java_rocketmq import (
    BROKER_SETTINGS,
    FAST_BROKER_SETTINGS,
    FAST_CONTROLLER_SETTINGS,
    JavaBroker,
    JavaProcess,
    JavaWorld,
)
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

BROKER_SET = "java-a"
BROKERS = 3
CONTROLLERS = 3
ROLE_WITHIN_S = 60.0
WHOLE_WITHIN_S = 90.0
FIRST_WHOLE_WITHIN_S = 180.0
# A Java slave registers at its name servers every 10 s and more: twice that, and it will not come
# by itself.
STUCK_AFTER_S = 45.0
TOPIC_WITHIN_S = 60.0
ASK_MS = 1_500
PIECE = 1 << 20
SHOWN = (
    "allAckInSyncStateSet",
    "minInSyncReplicas",
    "mappedFileSizeCommitLog",
    "haMaxTimeSlaveNotCatchup",
    *FAST_BROKER_SETTINGS,
)


@dataclass(frozen=True, slots=True)
class Replica:
    broker_id: int
    address: str
    alive: bool
    in_sync: bool


@dataclass(frozen=True, slots=True)
class SetView:
    """A broker set as its controllers have it (1006)."""

    master_id: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set_epoch: int
    replicas: tuple[Replica, ...]

    @property
    def in_sync(self) -> list[int]:
        return sorted(one.broker_id for one in self.replicas if one.in_sync)

    @property
    def ids(self) -> list[int]:
        return sorted(one.broker_id for one in self.replicas)

    @property
    def has_master(self) -> bool:
        return self.master_id is not None and bool(self.master_address)

    def replica(self, broker_id: int) -> Replica | None:
        return next((one for one in self.replicas if one.broker_id == broker_id), None)

    def __str__(self) -> str:
        return (
            f"master {self.master_id} epoch {self.master_epoch}, in sync {self.in_sync} (epoch "
            f"{self.sync_state_set_epoch}), ids {self.ids}"
        )


def view_of(admin: ControllerAdmin, name: str) -> SetView | None:
    """The set now; None while no controller answers or none knows the set."""
    try:
        found = admin.sync_state_data([name]).get(name)
    except Problem:
        return None
    if found is None:
        return None
    rows = [(row, True) for row in found["inSyncReplicas"]] + [
        (row, False) for row in found["notInSyncReplicas"]
    ]
    replicas = tuple(
        Replica(row["brokerId"], row["brokerAddress"], bool(row["alive"]), inside)
        for row, inside in rows
    )
    return SetView(
        found.get("masterBrokerId"),
        found.get("masterAddress"),
        found["masterEpoch"],
        found["syncStateSetEpoch"],
        replicas,
    )


@dataclass(slots=True)
class JavaSet:
    """The processes and questions of one set. `name_servers` is what clients use, all of them what
    brokers register at.
    """

    world: JavaWorld
    admin: ControllerAdmin
    name: str
    name_servers: str
    brokers: list[JavaBroker]
    java_name_server: JavaProcess
    regent: LocalCluster | None = None
    last: SetView | None = field(default=None)
    started_anew: list[str] = field(default_factory=list)
    """Java slaves that stayed on a broker that is no longer master, a defect of theirs
    (RULES 15).
    """

    def view(self) -> SetView | None:
        self.last = view_of(self.admin, self.name) or self.last
        return self.last

    def wait(
        self, what: str, condition: Callable[[SetView], bool], limit_s: float = ROLE_WITHIN_S
    ) -> SetView:
        """The set once it meets the condition. Problem, with the last view, at the limit."""
        found: list[SetView] = []

        def met() -> bool:
            view = view_of(self.admin, self.name)
            self.last = view or self.last
            if view is not None and condition(view):
                found.append(view)
            return bool(found)

        try:
            self.world.wait_until(met, what, limit_s)
        except Problem as problem:
            raise Problem(f"{problem.what}; last seen: {self.last}", problem.way_out) from None
        return found[0]

    def whole(self, limit_s: float = WHOLE_WITHIN_S) -> SetView:
        """The set once every running broker is in sync under a living master; a stuck slave is
        started anew, and counted.
        """
        try:
            return self.wait(
                "every running broker is in sync", self._is_whole, min(STUCK_AFTER_S, limit_s)
            )
        except Problem:
            for one in self._stuck_slaves():
                self.world.say(f"{one.name} stays on a former master: started anew")
                self.started_anew.append(one.name)
                one.kill()
                one.start(wait=False)
            return self.wait("every running broker is in sync", self._is_whole, limit_s)

    def _is_whole(self, view: SetView) -> bool:
        return view.has_master and view.in_sync == sorted(
            one.broker_id for one in self.brokers if one.is_running
        )

    def _stuck_slaves(self) -> list[JavaBroker]:
        view = self.view()
        if view is None or not view.has_master:
            return []
        return [
            one
            for one in self.brokers
            if one.is_running and one.broker_id not in (view.master_id, *view.in_sync)
        ]

    def master(self) -> JavaBroker:
        view = self.wait("a master", lambda one: one.has_master)
        return self.broker(view.master_id or 0)

    def slaves(self) -> list[JavaBroker]:
        master = self.master()
        return [one for one in self.brokers if one is not master]

    def broker(self, broker_id: int) -> JavaBroker:
        for one in self.brokers:
            found = one.identity()
            if found is not None and found[2] == broker_id:
                return one
        raise Problem(f"no broker process has id {broker_id}", "")

    def new_master(self, old: int, epoch: int) -> SetView:
        """The set once another one is master under a higher epoch."""
        return self.wait(
            "another master",
            lambda view: view.has_master and view.master_id != old and view.master_epoch > epoch,
        )

    def producer(
        self,
        stage: Stage,
        topic: str,
        settings: Mapping[str, str] = TUNED,
        *,
        rate: float = RATE_PER_S,
    ) -> Producer:
        """A producer of a topic that every broker knows. A Java slave copies the topic table every
        few seconds only: with a master that dies before that, a Java set forgets the topic, and a
        stock client then finds no route for ever.
        """
        producer = Producer(stage, self.name_servers, topic, settings=settings, rate=rate)
        try:
            producer.flows(20)
            self.all_know(topic)
        except BaseException:
            producer.end()
            raise
        return producer

    def all_know(self, topic: str) -> None:
        """Wait until every broker has the topic on its disk."""
        known = f'"{topic}"'
        tables = [one.store / "config" / "topics.json" for one in self.brokers]
        self.world.wait_until(
            lambda: all(known in _text_of(path) for path in tables),
            f"every broker knows topic {topic}",
            TOPIC_WITHIN_S,
        )

    def logs_differ(self) -> str:
        """Where the running brokers' commit logs differ, '' when they are equal byte by byte."""
        return commit_logs_differ([one for one in self.brokers if one.is_running])


def commit_logs_differ(brokers: Sequence[JavaBroker]) -> str:
    """The first difference between the commit logs, '' when there is none. They must be at rest;
    files are zero behind the end.
    """
    return commit_bytes_differ({one.name: one.store / "commitlog" for one in brokers})


def commit_bytes_differ(folders: Mapping[str, Path]) -> str:
    """The same for folders of commit log files, by the name of their broker."""
    (first, one), *others = folders.items()
    for second, other in others:
        for name in sorted({path.name for folder in (one, other) for path in folder.glob("*")}):
            at = _first_difference(one / name, other / name)
            if at is not None:
                return f"{first} and {second} differ at {int(name) + at}"
    return ""


def _first_difference(one: Path, other: Path) -> int | None:
    """Piece by piece: files may be of a gigabyte, nearly all of it a hole. What is missing counts
    as zeros.
    """
    with ExitStack() as stack:
        files = [
            stack.enter_context(path.open("rb") if path.exists() else BytesIO())
            for path in (one, other)
        ]
        for start in itertools.count(0, PIECE):
            here, there = (file.read(PIECE) for file in files)
            size = max(len(here), len(there))
            if not size:
                return None
            here, there = here.ljust(size, b"\0"), there.ljust(size, b"\0")
            if here != there:
                return start + next(i for i in range(size) if here[i] != there[i])
    return None


def _text_of(path: Path) -> str:
    return _bytes_of(path).decode("utf-8", errors="replace")


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _configuration(kind: str, settings: Mapping[str, str]) -> str:
    return (f"Java 5.3.3 brokers on {kind}: ") + ", ".join(
        f"{key}={settings[key]}" for key in SHOWN if key in settings
    )


def start_brokers(
    stage: Stage,
    kind: str,
    controllers: Sequence[str],
    name_servers: Sequence[str],
    *,
    broker_set: str = BROKER_SET,
    cluster: str = "DefaultCluster",
    count: int = BROKERS,
    prefix: str = "",
    settings: Mapping[str, str] | None = None,
    fast: Mapping[str, str] = FAST_BROKER_SETTINGS,
) -> list[JavaBroker]:
    """The brokers of a set, started one after the other's identity so that ids follow names.
    `fast`: timers of theirs that are shorter than they come.
    """
    extra = {**fast, **(settings or {})}
    stage.configured(_configuration(kind, {**BROKER_SETTINGS, **extra}))
    brokers = [
        stage.java.broker(
            f"{prefix}{broker_set}-{i}",
            controllers=controllers,
            name_servers=name_servers,
            broker_set=broker_set,
            cluster=cluster,
            settings=extra,
            start=False,
        )
        for i in range(1, count + 1)
    ]
    for one in brokers:
        one.start(wait=False)
        stage.java.wait_until(
            lambda one=one: one.identity() is not None or not one.is_running,
            f"{one.name} has an id",
            ROLE_WITHIN_S,
        )  # type: ignore[misc]
        if not one.is_running:
            raise Problem(f"{one.name} ended at start", " | ".join(one.logs(4)))
    return brokers


def on_regent(stage: Stage) -> JavaSet:
    """Three Java brokers on three controllers of Regent; registered at Regent's name server and at
    a Java one. Shared.
    """
    return stage.shared("java brokers on regent", lambda stack: alone_on_regent(stage, stack))


def alone_on_regent(
    stage: Stage,
    stack: ExitStack,
    *,
    fast: Mapping[str, str] = FAST_BROKER_SETTINGS,
    settings: Mapping[str, str] | None = None,
) -> JavaSet:
    """The same, not shared: whatever is on the stack ends with it."""
    # made again after a failure: stores of its own
    number = len(list(stage.work.glob("regent-*"))) + 1
    regent = LocalCluster(
        stage.work / f"regent-{number}", "--controllers", str(CONTROLLERS), "--replicas", "0"
    )
    stack.callback(regent.end)
    stage.say(
        f"starting Kafka, {CONTROLLERS} controllers and the name server of Regent, a Java name "
        f"server, {BROKERS} Java brokers"
    )
    regent.up()
    stack.callback(regent.down)
    found = regent.folder.running_cluster()
    java_name_server = stage.java.name_server(f"java-namesrv-{number}")
    stack.callback(java_name_server.end)
    names = [*regent.name_servers, java_name_server.address]
    brokers = start_brokers(
        stage,
        "Regent's controllers",
        found["controllers"],
        names,
        prefix=f"{number}-",
        settings=settings,
        fast=fast,
    )
    for one in brokers:
        stack.callback(one.end)
    made = JavaSet(
        stage.java,
        ControllerAdmin(found["controllers"], ASK_MS),
        BROKER_SET,
        regent.name_servers[0],
        brokers,
        java_name_server,
        regent,
    )
    made.whole(FIRST_WHOLE_WITHIN_S)
    return made


def on_java(
    stage: Stage,
    stack: ExitStack,
    *,
    fast: Mapping[str, str] = FAST_BROKER_SETTINGS,
    settings: Mapping[str, str] | None = None,
) -> JavaSet:
    """The same on a Java controller and a Java name server: the peer. Not shared. Its controller is
    as fast as its brokers.
    """
    stage.say(
        f"starting a Java controller, a Java name server and {BROKERS} Java brokers: the peer"
    )
    name_server = stage.java.name_server("peer-namesrv")
    stack.callback(name_server.end)
    timers = FAST_CONTROLLER_SETTINGS if fast else {}
    controller = stage.java.controller("peer-controller", timers)
    stack.callback(controller.end)
    stage.configured(
        ("Java 5.3.3 controller (peer, DLedger, one node): ")
        + (", ".join(f"{k}={v}" for k, v in timers.items()) or "default timers")
    )
    brokers = start_brokers(
        stage,
        "the Java controller",
        [controller.address],
        [name_server.address],
        prefix="peer-",
        settings=settings,
        fast=fast,
    )
    for one in brokers:
        stack.callback(one.end)
    made = JavaSet(
        stage.java,
        ControllerAdmin([controller.address], ASK_MS),
        BROKER_SET,
        name_server.address,
        brokers,
        name_server,
    )
    made.whole(FIRST_WHOLE_WITHIN_S)
    return made


def loss_row(stage: Stage, java: JavaSet, producer: Producer) -> Row:
    """Stop the producer, read its topic back from the set: what was acknowledged is there, in order
    per queue.
    """
    found = read_back(stage, java.name_servers, producer.topic, producer.stop())
    return Row("acknowledged lost", str(found), found.ok)


def equal_row(java: JavaSet) -> Row:
    """With everything at rest: the brokers' commit logs are equal byte by byte."""
    java.whole()
    try:
        java.world.wait_until(lambda: not java.logs_differ(), "the commit logs are equal", 20.0)
    except Problem:
        return Row("commit logs equal", java.logs_differ(), ok=False)
    anew = (
        (f"; started anew because they stayed on a former master: {', '.join(java.started_anew)}")
        if java.started_anew
        else ""
    )
    return Row("commit logs equal", f"{len(java.brokers)} brokers, byte by byte{anew}")
