"""One broker set of both kinds: two brokers of Regent and a Java broker 5.3.3 beside each other.

Responsible for: a Java slave behind a Regent master, Regent slaves behind a Java master, a kill of
each, nothing acknowledged lost, logs equal byte by byte.
Refuses to know: which kind should be master; it designates one and the other.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from infra.cluster.plan import BROKER_SET, CLUSTER_NAME, COMMIT_LOG_FILE_BYTES
from infra.controllers.admin import ControllerAdmin
from infra.problems import Problem
from infra.processes.ports import pick_block
from tests.interop.java_rocketmq import JavaBroker
from tests.interop.java_set import (
    ASK_MS,
    JavaSet,
    SetView,
    commit_bytes_differ,
    loss_row,
    start_brokers,
)
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

OURS = 2
EQUAL_WITHIN_S = 20.0
ALL = [1, 2, 3]
# a commit log file ends with a filler record: within a set all files must be of one size
SAME_FILES = {"mappedFileSizeCommitLog": str(COMMIT_LOG_FILE_BYTES)}


def run(stage: Stage) -> list[Row]:
    """A Java slave, then a Java master, then Regent's again."""
    stage.drop_shared()
    with ExitStack() as stack:
        java = _mixed(stage, stack)
        return _play(stage, java, java.brokers[0])


def _mixed(stage: Stage, stack: ExitStack) -> JavaSet:
    regent = LocalCluster(stage.work / "mixed", "--replicas", str(OURS))
    stack.callback(regent.end)
    stage.say(f"starting a cluster with {OURS} brokers of Regent, and a Java broker in their set")
    regent.up()
    stack.callback(regent.down)
    controllers = regent.folder.running_cluster()["controllers"]
    brokers = start_brokers(
        stage,
        "Regent's controllers, in a set with Regent's brokers",
        controllers,
        regent.name_servers,
        broker_set=BROKER_SET,
        cluster=CLUSTER_NAME,
        count=1,
        prefix="mixed-",
        # a port that no rule gives
        settings={**SAME_FILES, "haListenPort": str(pick_block(1))},
    )
    stack.callback(brokers[0].end)
    return JavaSet(
        stage.java,
        ControllerAdmin(controllers, ASK_MS),
        BROKER_SET,
        regent.name_servers[0],
        brokers,
        brokers[0],
        regent,
    )


def _play(stage: Stage, java: JavaSet, javas: JavaBroker) -> list[Row]:
    joined = java.wait("the Java slave is in sync behind a Regent master", _whole, 60)
    rows = [
        Row("Java slave behind a Regent master", str(joined), joined.master_id != javas.broker_id),
        _ha_status(java, joined),
    ]
    rows.append(_elected_again_while_empty(stage, java, joined, javas.broker_id))
    producer = java.producer(stage, "Mixed")
    try:
        producer.flows()
        stage.say("the Java broker is made master")
        java.admin.elect(CLUSTER_NAME, BROKER_SET, javas.broker_id)
        led = java.wait(
            "Regent's brokers are in sync behind the Java master",
            lambda view: _whole(view) and view.master_id == javas.broker_id,
            90,
        )
        producer.flows()
        rows.append(Row("Regent slaves behind a Java master", str(led), led.in_sync == ALL))
        stage.say("kill -9 of the Java master")
        javas.kill()
        ours = java.new_master(javas.broker_id, led.master_epoch)
        producer.flows()
        rows.append(
            Row("Java master killed: a Regent one", str(ours), ours.master_id != javas.broker_id)
        )
        javas.start(wait=False)
        back = java.wait("the Java broker is back in the set", _whole, 90)
        producer.flows()
        rows.append(Row("the Java broker returns, is in sync", str(back), back.in_sync == ALL))
        assert java.regent is not None
        name = java.regent.view.process_at(str(back.master_address))["name"]
        stage.say(f"kill -9 {name}")
        java.regent.kill(name)
        java.new_master(back.master_id or 0, back.master_epoch)
        producer.flows()
        last = java.wait("everybody is in sync again", _whole, 90)
        rows.append(
            Row("Regent master killed: another one, all in sync", str(last), last.in_sync == ALL)
        )
        rows.append(loss_row(stage, java, producer))
    finally:
        producer.end()
    return [*rows, _equal(java, javas)]


def _whole(view: SetView) -> bool:
    return view.has_master and view.in_sync == ALL


def _elected_again_while_empty(stage: Stage, java: JavaSet, first: SetView, java_id: int) -> Row:
    """Epochs without a byte begin at one offset; ours supersede each other, a Java slave has to
    follow.
    """
    stage.say("both brokers of Regent are made master in turn, before anything is written")
    view, began = first, first.master_epoch
    for _ in range(2):
        other = next(one for one in ALL if one not in (java_id, view.master_id))
        java.admin.elect(CLUSTER_NAME, BROKER_SET, other)
        view = java.wait(
            f"all are in sync behind {other}",
            lambda found, other=other: _whole(found) and found.master_id == other,
            60,
        )  # type: ignore[misc]
    return Row("masters changed before the first byte", str(view), view.master_epoch > began)


def _ha_status(java: JavaSet, view: SetView) -> Row:
    """Stock mqadmin reads the links of a Regent master, the one to the Java slave among them."""
    text = java.world.mqadmin("haStatus", "-b", str(view.master_address)).text
    links = [
        line.split()
        for line in text.splitlines()
        if line.rstrip().endswith(tuple("0123456789")) and " OK " in line
    ]
    return Row(
        "mqadmin haStatus",
        f"{len(links)} links in sync",
        "#InSyncSlaveNum\t2" in text and len(links) == len(ALL) - 1,
    )


def _equal(java: JavaSet, javas: JavaBroker) -> Row:
    assert java.regent is not None
    logs: dict[str, Path] = {javas.name: javas.store / "commitlog"}
    for process in java.regent.processes("broker"):
        logs[process["name"]] = java.regent.folder.data_of(process["name"]) / "commitlog"
    try:
        java.world.wait_until(
            lambda: not commit_bytes_differ(logs), "the commit logs are equal", EQUAL_WITHIN_S
        )
    except Problem:
        return Row("commit logs equal", commit_bytes_differ(logs), ok=False)
    return Row("commit logs equal", f"{len(logs)} brokers, byte by byte")
