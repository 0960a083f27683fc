"""A broker of RocketMQ 5.3.3 in the set: it tells nobody that its machine lost its power."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from infra.cluster.plan import BROKER_SET, CLUSTER_NAME, COMMIT_LOG_FILE_BYTES
from infra.problems import Problem
from tests.chaos import damage
from tests.chaos.armed import Armed
from tests.chaos.broker_stage import BrokerStage
from tests.chaos.brokers_planned import done
from tests.chaos.hits import NotPossible
from tests.chaos.left_out_lines import without_risk
from tests.chaos.line import Line
from tests.chaos.loss_lines import wait_left
from tests.interop.java_rocketmq import FAST_BROKER_SETTINGS, JavaBroker, JavaWorld, fetch_jars

UNFLUSHED = 100
"""Messages of half a second, which is how long it leaves them to the kernel."""
JOINS_WITHIN_S = 60.0


def java_power(stage: BrokerStage) -> str:
    """A Java slave loses its power and comes back with less than it acknowledged; the master, alone
    with it, dies then.
    """
    armed = Armed(stage)
    with _java_member(stage) as javas, without_risk(stage):
        master, slaves = stage.master(), stage.slaves()
        with armed.killed(*slaves):
            epoch = stage.cluster.set_view(
                f"{', '.join(slaves)} left the set", lambda view: len(view.in_sync) == 2
            ).in_sync_epoch
            stage.flows()
            javas.kill()
            damage.zero_last(javas.store, UNFLUSHED)
            javas.start(wait=False)
            wait_left(stage, javas.broker_id, epoch)
            with armed.killed(master):
                stage.wait_for(1.0)
        stage.flows(20)
        return (
            f"replica {javas.broker_id}, of Java, lost {UNFLUSHED} messages with its power and had "
            f"to leave, {master} died then"
        )


@contextmanager
def _java_member(stage: BrokerStage) -> Iterator[JavaBroker]:
    """In sync beside the set's three; at the end it is gone and forgotten. NotPossible without Java
    or its jars.
    """
    host = stage.network.host if stage.network else "127.0.0.1"
    settings = {
        **FAST_BROKER_SETTINGS,
        "brokerIP1": host,
        "brokerIP2": host,
        "mappedFileSizeCommitLog": str(COMMIT_LOG_FILE_BYTES),
    }
    where = [one["address"] for one in stage.cluster.processes("controller")]
    try:
        world = JavaWorld(stage.home / f"java-{stage.number}")
    except Problem as problem:
        raise NotPossible(problem.what) from None
    with world:
        javas = world.broker(
            "java-1",
            controllers=where,
            name_servers=stage.cluster.name_servers,
            broker_set=BROKER_SET,
            cluster=CLUSTER_NAME,
            settings=settings,
            start=False,
        )
        _, port = javas.address.split(":")
        javas.address = f"{host}:{port}"
        javas.start()
        world.wait_until(
            lambda: javas.identity() is not None, "the Java broker has an id", JOINS_WITHIN_S
        )
        stage.cluster.set_view(
            "the Java slave is in sync", lambda view: javas.broker_id in view.in_sync
        )
        yield javas
        javas.kill()
        stage.cluster.set_view(
            "the Java slave left the set", lambda view: javas.broker_id not in view.in_sync
        )
        done(stage, "controller", "clean", BROKER_SET, str(javas.broker_id), "--yes", "--living")


def fetch(lines: Sequence[Line]) -> None:
    """The jars, where one of these lines needs them: a network that can be cut has no way out to
    fetch them later.
    """
    if any(one in LINES for one in lines):
        with suppress(Problem):  # the line says so
            fetch_jars(lambda _: None)


LINES = (
    Line(
        "java-power",
        "a Java slave loses its power beside a master of ours, comes back, and the master dies",
        java_power,
        runs=1,
        armed=True,
    ),
)
