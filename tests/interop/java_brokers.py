"""Java brokers on Regent's controllers: ids, joining, a frozen slave, restarts, a wiped disk,
another address.

Responsible for: one function per scenario, each under a stock producer where messages could be
lost.
Refuses to know: controllers' lives (`java_controllers`) and failover figures (`java_failover`).
"""

from __future__ import annotations

import shutil
import time

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from infra.controllers.admin import ControllerAdmin
from infra.problems import Problem
from tests.interop.java_set import JavaSet, equal_row, loss_row, on_regent
from tests.interop.stage import Row, Stage

SHRINK_WITHIN_S = 30.0
ROUTE_WITHIN_S = 40.0
FOUND_OUT_WITHIN_S = 90.0


def join(stage: Stage) -> list[Row]:
    """Ids 1 to 3, a master, all in sync, and the same route at both name servers."""
    java = on_regent(stage)
    view = java.whole()
    rows = [
        Row("ids given", f"{view.ids}", view.ids == [1, 2, 3]),
        Row("set grown to three", str(view), view.in_sync == [1, 2, 3]),
        Row(
            "alive, all three",
            f"{[one.broker_id for one in view.replicas if one.alive]}",
            all(one.alive for one in view.replicas),
        ),
    ]
    epochs = {one.name: [epoch for epoch, _ in one.epochs()] for one in java.brokers}
    rows.append(
        Row(
            "epoch files agree with the log",
            f"{epochs}",
            all(found and found[-1] <= view.master_epoch for found in epochs.values()),
        )
    )
    return [*rows, _same_route(java)]


def _same_route(java: JavaSet) -> Row:
    """Both name servers name every broker, the master as id 0."""
    assert java.regent is not None
    places = [java.regent.name_servers[0], java.java_name_server.address]

    def routes() -> list[dict[int, str]]:
        return [_addresses(place, java.name) for place in places]

    try:
        java.world.wait_until(
            lambda: routes()[0] == routes()[1] and len(routes()[0]) == len(java.brokers),
            "both name servers agree",
            ROUTE_WITHIN_S,
        )
    except Problem:
        pass
    ours, theirs = routes()
    master = java.master()
    right = ours == theirs and len(ours) == len(java.brokers) and ours.get(0) == master.address
    return Row(
        "Regent's and Java's name server agree",
        f"{ours}" if ours == theirs else f"ours {ours}, Java's {theirs}",
        right,
    )


def _addresses(name_server: str, broker_set: str) -> dict[int, str]:
    answer = ControllerAdmin([name_server]).ask(name_server, RequestCode.GET_BROKER_CLUSTER_INFO)
    table = fastjson.loads(answer.body)["brokerAddrTable"]
    return {
        int(broker_id): address
        for broker_id, address in table.get(broker_set, {}).get("brokerAddrs", {}).items()
    }


def freeze(stage: Stage) -> list[Row]:
    """A frozen slave leaves the set, writes go on; woken, it comes back."""
    java = on_regent(stage)
    java.whole()
    producer = java.producer(stage, "Freeze")
    try:
        producer.flows()
        victim = java.slaves()[0]
        stage.say(f"SIGSTOP {victim.name}")
        victim.pause()
        try:
            shrunk = java.wait(
                "the frozen slave is out of the set",
                lambda view: victim.broker_id not in view.in_sync,
                SHRINK_WITHIN_S,
            )
            producer.flows(limit_s=SHRINK_WITHIN_S)
        finally:
            victim.resume()
        grown = java.whole()
        producer.flows()
        rows = [
            Row(
                "slave frozen: the set shrinks",
                str(shrunk),
                len(shrunk.in_sync) == 2 and shrunk.has_master,
            ),
            Row(
                "slave woken: the set grows",
                str(grown),
                len(grown.in_sync) == 3 and grown.master_epoch == shrunk.master_epoch,
            ),
            loss_row(stage, java, producer),
        ]
    finally:
        producer.end()
    return [*rows, equal_row(java)]


def restart(stage: Stage) -> list[Row]:
    """All brokers are killed and started again; the set is whole, in a higher epoch, and has
    everything.
    """
    java = on_regent(stage)
    before = java.whole()
    producer = java.producer(stage, "Restart")
    try:
        producer.flows()
        stage.say("kill -9 of all three Java brokers, then start them")
        for one in java.brokers:
            one.kill()
        for one in java.brokers:
            one.start(wait=False)
        after = java.wait(
            "the set is whole again",
            lambda view: (
                view.has_master
                and view.in_sync == before.in_sync
                and view.master_epoch > before.master_epoch
            ),
            90,
        )
        producer.flows()
        rows = [
            Row("all brokers restarted: whole again", str(after), after.ids == before.ids),
            loss_row(stage, java, producer),
        ]
    finally:
        producer.end()
    return [*rows, equal_row(java)]


def older_store(stage: Stage) -> list[Row]:
    """A Java member's store goes back in time and it says nothing of it: its first heartbeat does,
    and it is unclean until it has copied all.
    """
    java = on_regent(stage)
    before = java.whole()
    producer = java.producer(stage, "Older")
    try:
        producer.flows()
        victim = java.slaves()[0]
        victim_id, copy = victim.broker_id, victim.store.with_name("older-store")
        shutil.copytree(victim.store, copy)
        producer.flows(200)
        time.sleep(2)  # a heartbeat tells the leader how far it is
        stage.say(
            f"kill -9 {victim.name} (id {victim_id}), an older copy of its store put back, "
            "started again"
        )
        victim.kill()
        shutil.rmtree(victim.store)
        copy.rename(victim.store)
        victim.start(wait=False)
        said = f"broker {victim_id} lost data"
        java.world.wait_until(
            lambda: said in _controllers_said(java),
            "the leader says that it lost data",
            FOUND_OUT_WITHIN_S,
        )
        after = java.whole()
        producer.flows()
        return [
            Row("found out by its first heartbeat", said, True),
            Row(
                "copied everything, is a member again",
                str(after),
                after.in_sync == before.in_sync and after.ids == before.ids,
            ),
            loss_row(stage, java, producer),
            equal_row(java),
        ]
    finally:
        producer.end()


def _controllers_said(java: JavaSet) -> str:
    assert java.regent is not None
    return "".join(
        path.read_text("utf-8", "replace") for path in java.regent.folder.logs.glob("controller*")
    )


def wipe(stage: Stage) -> list[Row]:
    """A broker with an empty disk gets a new id; the old one stays, dead, until it is cleaned
    away.
    """
    java = on_regent(stage)
    before = java.whole()
    producer = java.producer(stage, "Wipe")
    try:
        producer.flows()
        victim = java.slaves()[0]
        old_id = victim.broker_id
        stage.say(f"kill -9 {victim.name} (id {old_id}), its disk wiped, started again")
        victim.kill()
        victim.wipe()
        victim.start(wait=False)
        java.world.wait_until(lambda: victim.identity() is not None, f"{victim.name} has an id", 60)
        after = java.whole()
        producer.flows()
        old = after.replica(old_id)
        rows = [
            Row(
                "empty disk: a new id",
                f"was {old_id}, is {victim.broker_id}",
                victim.broker_id == max(before.ids) + 1,
            ),
            Row(
                "the old id is listed, dead, outside the set",
                str(old),
                old is not None and not old.alive and not old.in_sync,
            ),
            loss_row(stage, java, producer),
            equal_row(java),
        ]
    finally:
        producer.end()
    done = stage.java.mqadmin(
        "cleanBrokerMetadata",
        "-a",
        java.admin.addresses[0],
        "-c",
        "DefaultCluster",
        "-bn",
        java.name,
        "-b",
        str(old_id),
    )
    view = java.wait("the old id is gone", lambda one: old_id not in one.ids, 10)
    said = done.text.strip().splitlines()
    return [
        *rows,
        Row(
            "mqadmin cleanBrokerMetadata takes the old id away",
            f"{said[-1] if said else ''}; ids {view.ids}",
            old_id not in view.ids,
        ),
    ]


def move(stage: Stage) -> list[Row]:
    """A broker comes back with its store at another address: same id; first a slave, then the
    master.
    """
    java = on_regent(stage)
    before = java.whole()
    producer = java.producer(stage, "Move")
    rows = []
    try:
        producer.flows()
        for what, victim in (("slave", java.slaves()[0]), ("master", java.master())):
            old_id, old_address = victim.broker_id, victim.address
            stage.say(f"{what} {victim.name} moves")
            victim.kill()
            address = victim.move()
            victim.start(wait=False)
            after = java.wait(
                f"the {what} is in sync at its new address",
                lambda view, a=address: any(
                    one.address == a and one.in_sync for one in view.replicas
                ),
                90,
            )  # type: ignore[misc]
            whole = java.whole()
            producer.flows()
            found = whole.replica(old_id)
            rows.append(
                Row(
                    f"{what} at another address",
                    f"id {old_id}: {old_address} -> {found.address if found else None}; {whole}",
                    found is not None and found.address == address and after.ids == before.ids,
                )
            )
        rows.append(loss_row(stage, java, producer))
    finally:
        producer.end()
    return [*rows, equal_row(java)]
