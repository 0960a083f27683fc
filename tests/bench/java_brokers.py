"""A set of Java 5.3.3 brokers as the peer of a set of ours: the same questions, on whatever
controllers and name servers it is given.

Responsible for: starting it with settings that are fair to Java, waiting until it is whole, finding
its master.
Refuses to know: what is measured at it.

A broker has RocketMQ's own defaults for everything that costs time on a send (files of 1 GiB, flush
in the background, index, thread pools), a heap of 1 GiB (a machine that carries six brokers has no
room for the 8 GiB of RocketMQ's own script) and the collector without threads of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.controllers.admin import ControllerAdmin
from infra.problems import Problem
from tests.bench.cluster import BenchCluster, BenchFailed
from tests.bench.own_set import create_topic
from tests.interop.java_rocketmq import (
    FAST_BROKER_SETTINGS,
    FAST_CONTROLLER_SETTINGS,
    JavaBroker,
    JavaWorld,
)
from tests.interop.java_set import STUCK_AFTER_S, SetView, view_of

ROLE_WITHIN_S = 60.0
WHOLE_WITHIN_S = 90.0
ASK_MS = 1_500
JVM = (
    "-Xms1g",
    "-Xmx1g",
    "-Xmn512m",
    "-XX:MaxDirectMemorySize=512m",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.97",
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.98",
)
RELEASED_SIZES = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "mappedFileSizeTimerLog": str(100 << 20),
}
JVM_NAMED = "heap 1 GiB, serial collector"


@dataclass(frozen=True, slots=True)
class JavaMember:
    """One broker of the set, seen as one of ours is."""

    name: str
    process: JavaBroker

    @property
    def address(self) -> str:
        return self.process.address

    @property
    def pid(self) -> int:
        return self.process.pid


class JavaBrokers:
    """Use as `with java_set(...) as brokers`."""

    def __init__(
        self, world: JavaWorld, admin: ControllerAdmin, name: str, name_servers: str
    ) -> None:
        self.world = world
        self.name = name
        self.name_servers = name_servers
        self.members: list[JavaMember] = []
        self.started_anew: list[str] = []
        self._admin = admin

    def start(self, broker: JavaBroker) -> None:
        """One more broker; returns when it has an id, so that ids follow the order of starts."""
        broker.start(wait=False)
        self.world.wait_until(
            lambda: broker.identity() is not None or not broker.is_running,
            f"{broker.name} has an id",
            ROLE_WITHIN_S,
        )
        if not broker.is_running:
            raise BenchFailed(f"{broker.name} ended at start: {' | '.join(broker.logs(4))}")
        self.members.append(JavaMember(broker.name, broker))

    def view(self) -> SetView | None:
        """The set as its controllers have it."""
        return view_of(self._admin, self.name)

    def wait_view(self, what: str, condition: object, limit_s: float = WHOLE_WITHIN_S) -> SetView:
        """The set once it meets the condition; Problem at the limit."""
        found: list[SetView] = []

        def met() -> bool:
            view = self.view()
            if view is not None and condition(view):  # type: ignore[operator]
                found.append(view)
            return bool(found)

        self.world.wait_until(met, what, limit_s)
        return found[0]

    def wait_whole(self) -> JavaMember:
        """Until every broker that runs is in the SyncStateSet of a living master; gives the master.
        A slave that stays on a former master, a defect of theirs (RULES 15), is started
        anew, and counted.
        """
        try:
            view = self.wait_view(f"{self.name} is whole", self._is_whole, STUCK_AFTER_S)
        except Problem:
            self._start_stuck_anew()
            view = self.wait_view(f"{self.name} is whole", self._is_whole, WHOLE_WITHIN_S)
        return self.member(view.master_id or 0)

    def _is_whole(self, view: SetView) -> bool:
        return view.has_master and view.in_sync == sorted(
            one.process.broker_id for one in self.members if one.process.is_running
        )

    def _start_stuck_anew(self) -> None:
        view = self.view()
        for one in self.members if view and view.has_master else []:
            if one.process.is_running and one.process.broker_id not in (
                view.master_id,
                *view.in_sync,
            ):  # type: ignore[union-attr]
                self.world.say(f"{one.name} stays on a former master: started anew")
                self.started_anew.append(one.name)
                one.process.kill()
                one.process.start(wait=False)

    def member(self, broker_id: int) -> JavaMember:
        return next(one for one in self.members if one.process.broker_id == broker_id)

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """At the master, once it takes one: it has been told of its role a little later than the
        controllers' view has it. Returns when every broker knows it: slaves copy the table at their
        own pace, and a set whose master dies before that forgets the topic.
        """
        master = self.wait_whole()
        refused: list[str] = []

        def made() -> bool:
            try:
                create_topic(master.address, topic, queues)
            except (BenchFailed, OSError) as error:
                refused[:] = [str(error)]
                return False
            return True

        self.world.wait_until(made, f"topic {topic} at {master.name}", ROLE_WITHIN_S)
        tables = [one.process.store / "config" / "topics.json" for one in self.members]
        known = f'"{topic}"'
        self.world.wait_until(
            lambda: all(path.exists() and known in path.read_text() for path in tables),
            f"all know topic {topic}",
            ROLE_WITHIN_S,
        )

    def stop(self) -> None:
        for one in self.members:
            one.process.end()


def settings_for(replicas: int, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """All-ack, two in sync where there are two, as ours."""
    needed = str(min(2, replicas))
    return {
        **FAST_BROKER_SETTINGS,
        **RELEASED_SIZES,
        "minInSyncReplicas": needed,
        "inSyncReplicas": needed,
        "totalReplicas": str(replicas),
        "autoCreateTopicEnable": "false",
        **(extra or {}),
    }


@contextmanager
def java_set(
    world: JavaWorld,
    controllers: Sequence[str],
    name_servers: Sequence[str],
    name: str,
    replicas: int,
    extra: Mapping[str, str] | None = None,
    *,
    jvm: Sequence[str] = JVM,
    environ: Mapping[str, str] | None = None,
) -> Iterator[JavaBrokers]:
    """A set of that many brokers, all of them in sync; ended at the end. Problem when there is no
    Java or a broker does not start.
    """
    brokers = JavaBrokers(
        world, ControllerAdmin(list(controllers), ASK_MS), name, ";".join(name_servers)
    )
    try:
        for number in range(1, replicas + 1):
            brokers.start(
                world.broker(
                    f"{name}-{number}",
                    controllers=controllers,
                    name_servers=name_servers,
                    broker_set=name,
                    jvm=jvm,
                    settings=settings_for(replicas, extra),
                    environ=environ,
                    start=False,
                )
            )
        brokers.wait_whole()
        yield brokers
    finally:
        brokers.stop()


@contextmanager
def beside(
    cluster: BenchCluster,
    folder: Path,
    name: str,
    replicas: int,
    extra: Mapping[str, str] | None = None,
    **options: Mapping[str, str],
) -> Iterator[JavaBrokers | None]:
    """A Java set on the controllers and the name server of a cluster of ours; None, and why, where
    there is no Java.
    """
    try:
        world = JavaWorld(folder, cluster.say)
    except Problem as problem:
        cluster.say(f"no Java beside: {problem}")
        yield None
        return
    with (
        world,
        java_set(
            world, cluster.controllers, [cluster.name_server], name, replicas, extra, **options
        ) as brokers,
    ):  # type: ignore[arg-type]
        yield brokers


@contextmanager
def all_java(
    world: JavaWorld,
    name: str,
    replicas: int,
    extra: Mapping[str, str] | None = None,
    controller_settings: Mapping[str, str] | None = None,
) -> Iterator[JavaBrokers]:
    """A Java set on a Java controller and a Java name server, fast timers unless others are
    given.
    """
    name_server = world.name_server(f"{name}-namesrv")
    controller = world.controller(
        f"{name}-controller", {**FAST_CONTROLLER_SETTINGS, **(controller_settings or {})}
    )
    try:
        with java_set(
            world, [controller.address], [name_server.address], name, replicas, extra
        ) as brokers:
            yield brokers
    finally:
        controller.end()
        name_server.end()
