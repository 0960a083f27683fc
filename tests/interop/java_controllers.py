"""Regent's controllers die while Java brokers serve: brokers and clients must not notice.

Responsible for: `kill -9` of the active controller and of all of them under a stock producer, and
that decisions go on after it: a slave that leaves and returns, a master that dies.
Refuses to know: how controllers agree on who leads.
"""

from __future__ import annotations

from infra.problems import Problem
from infra.processes import children
from infra.processes import status as process_status
from tests.interop.java_client import PATIENT, Producer
from tests.interop.java_set import JavaSet, equal_row, loss_row, on_regent
from tests.interop.ledger import LedgerRow
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster

LEADS_WITHIN_S = 60.0


def one(stage: Stage) -> list[Row]:
    """The active controller is killed; then a master dies, and the next controller decides."""
    java = on_regent(stage)
    return _under_load(stage, java, "OneController", lambda cluster: [_active(cluster)])


def every(stage: Stage) -> list[Row]:
    """All controllers are killed at once; the supervisor starts them again."""
    java = on_regent(stage)
    return _under_load(
        stage,
        java,
        "AllControllers",
        lambda cluster: [one["name"] for one in cluster.processes("controller")],
    )


def _under_load(stage: Stage, java: JavaSet, topic: str, victims) -> list[Row]:  # type: ignore[no-untyped-def]
    cluster = java.regent
    assert cluster is not None
    before = java.whole()
    producer = java.producer(stage, topic, PATIENT)
    try:
        producer.flows()
        names = victims(cluster)
        stage.say(f"kill -9 {', '.join(names)}")
        struck_ms = _now_ms(producer)
        pids = {name: cluster.kill(name) for name in names}
        producer.flows(400)
        java.world.wait_until(
            lambda: all(cluster.restarted(name, pid) for name, pid in pids.items()),
            "the controllers are back",
            LEADS_WITHIN_S,
        )
        after = java.whole()
        since = [row for row in producer.rows() if row[1] >= struck_ms]
        failed = [row for row in since if row[3] != "SEND_OK"]
        longest = max(row[2] - row[1] for row in since)
        rows = [
            Row(
                f"{len(names)} of {len(cluster.processes('controller'))} controllers killed: "
                "failed sends",
                f"{len(failed)} of {len(since)}, longest call {longest} ms",
                not failed,
            ),
            Row(
                "same master in the same epoch",
                str(after),
                (after.master_id, after.master_epoch) == (before.master_id, before.master_epoch),
            ),
        ]
        victim = java.master()
        stage.say(f"kill -9 {victim.name}: the controllers must decide")
        victim.kill()
        elected = java.new_master(victim.broker_id, after.master_epoch)
        rows.append(Row("then the master is killed: another one", str(elected), elected.has_master))
        victim.start(wait=False)
        java.whole()
        producer.flows()
        rows.append(loss_row(stage, java, producer))
    finally:
        producer.end()
    return [*rows, equal_row(java)]


def _now_ms(producer: Producer) -> int:
    rows: list[LedgerRow] = producer.rows()
    return max(row[2] for row in rows)


def _active(cluster: LocalCluster) -> str:
    """The name of the controller that leads."""
    for process in cluster.processes("controller"):
        status = (
            process_status.ask_once(process["status_address"])
            if children.is_alive(process["pid"])
            else None
        )
        if status and status.get("role") == "active":
            return str(process["name"])
    raise Problem("no controller leads", "look at 'regent status'")
