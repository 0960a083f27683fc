"""Java brokers move between a Java controller and Regent, both ways, while a stock producer sends.

Responsible for: doing what `regent controller import` and `export` tell the operator, word by word,
and judging ids, epochs, failed sends and loss.
Refuses to know: how either way works inside.
"""

from __future__ import annotations

import itertools
import json
import shlex
import time
from contextlib import ExitStack
from typing import Any

from infra.controllers.admin import ControllerAdmin
from infra.problems import Problem
from tests.interop.java_client import PATIENT, Producer
from tests.interop.java_rocketmq import FAST_CONTROLLER_SETTINGS, JavaProcess
from tests.interop.java_set import (
    ASK_MS,
    BROKER_SET,
    JavaSet,
    SetView,
    equal_row,
    loss_row,
    on_regent,
    start_brokers,
)
from tests.interop.stage import Row, Stage
from tests.support.local_cluster import LocalCluster, regent

ARRIVE_WITHIN_S = 200.0
LEADS_WITHIN_S = 60.0


def controller_verb(*words: str) -> tuple[int, dict[str, Any]]:
    """One verb of `regent controller` with --json: exit code and document. Problem when it printed
    none.
    """
    done = regent("controller", *words, "--json")
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        raise Problem(
            f"regent controller {words[0]} ended with {done.returncode}", done.stdout + done.stderr
        ) from None


def way_in(stage: Stage) -> list[Row]:
    """A set of a Java controller, under load, is imported; its brokers are told, and Regent
    decides.
    """
    stage.drop_shared()
    with ExitStack() as stack:
        java, controller = _on_a_java_controller(stage, stack)
        cluster = _regent_beside(stage, stack)
        producer = Producer(stage, java.name_servers, "WayIn", settings=PATIENT)
        stack.callback(producer.end)
        producer.flows()
        where = (
            "--from",
            controller.address,
            "--sets",
            BROKER_SET,
            "--controller",
            ";".join(_controllers(cluster)),
        )
        rows = _changed_in_between(stage, java, controller, where)
        producer.flows()
        before, ids = java.whole(), {one.name: one.identity() for one in java.brokers}
        more, commands = _import(controller, where)
        rows += more
        java.admin = ControllerAdmin(_controllers(cluster), ASK_MS)
        rows.append(
            Row(
                "imported: master, epochs, members as they were",
                str(java.view()),
                _same(before, java.view()),
            )
        )
        struck_ms = _tell(stage, producer, commands)
        arrived = _arrived(stage, "import", where, len(java.brokers))
        after = java.whole()
        producer.flows()
        rows += [
            Row(
                "brokers told at run time: all arrive",
                f"after {arrived:.0f} s, nobody restarted",
                True,
            ),
            Row("same master in the same epoch, same members", str(after), _same(before, after)),
            Row(
                "ids on disk untouched",
                f"{sorted(found[2] for found in ids.values() if found)}",
                ids == {one.name: one.identity() for one in java.brokers},
            ),
            _failed_sends(producer, struck_ms, most=0),
            *_decided_here(stage, java, producer, "Regent", _controllers(cluster)),
            loss_row(stage, java, producer),
            equal_row(java),
        ]
    return rows


def way_back(stage: Stage) -> list[Row]:
    """The set leaves Regent for a fresh Java controller; Regent is stopped, the brokers are
    told.
    """
    java = on_regent(stage)
    assert java.regent is not None
    with ExitStack() as stack:
        controller = _java_controller(stage, stack, "fresh-controller")
        # Regent's name server goes away with it; a client that names the Java one does not notice.
        java.name_servers = java.java_name_server.address
        producer = Producer(stage, java.name_servers, "WayBack", settings=PATIENT)
        stack.callback(producer.end)
        producer.flows()
        before, ids = java.whole(), {one.name: one.identity() for one in java.brokers}
        where = (
            "--to",
            controller.address,
            "--sets",
            BROKER_SET,
            "--controller",
            ";".join(_controllers(java.regent)),
        )
        rows, commands = _export(stage, java.regent, where)
        java.admin = ControllerAdmin([controller.address], ASK_MS)
        struck_ms = _tell(stage, producer, commands)
        arrived = _arrived(stage, "export", where, len(java.brokers))
        after = java.whole()
        producer.flows()
        higher = (
            after.master_epoch > before.master_epoch
            and after.sync_state_set_epoch > before.sync_state_set_epoch
        )
        rows += [
            Row(
                "brokers told at run time: all arrive",
                f"after {arrived:.0f} s, nobody restarted",
                True,
            ),
            Row(
                "same master and ids, both epochs above ours",
                f"{before}; there {after}",
                higher and (after.master_id, after.ids) == (before.master_id, before.ids),
            ),
            Row(
                "ids on disk untouched",
                f"{sorted(found[2] for found in ids.values() if found)}",
                ids == {one.name: one.identity() for one in java.brokers},
            ),
            _failed_sends(producer, struck_ms, most=None),
            *_decided_here(stage, java, producer, "the Java controller", [controller.address]),
            loss_row(stage, java, producer),
            equal_row(java),
        ]
    stage.drop_shared()
    return rows


# -- the operator's steps --------------------------------------------------------------------------


def _import(controller: JavaProcess, where: tuple[str, ...]) -> tuple[list[Row], list[str]]:
    code, planned = controller_verb("import", *where, "--dry-run")
    first_code, first = controller_verb("import", *where)
    again_code, again = controller_verb("import", *where)
    too_early, _ = controller_verb("import", *where, "--check")
    controller.stop()
    checked, proof = _checked("import", where)
    results = [found["sets"][BROKER_SET]["result"] for found in (planned, first, again)]
    return [
        Row(
            "import: dry run, run, run again",
            f"{results}",
            (code, first_code, again_code, results)
            == (0, 0, 0, [None, "imported", "here already"]),
        ),
        Row(
            "the proof refuses while the Java controller lives", f"exit {too_early}", too_early == 1
        ),
        Row("the brokers prove that nothing changed", _said(proof), checked == 0),
    ], commands_of(first)


def _changed_in_between(
    stage: Stage, java: JavaSet, controller: JavaProcess, where: tuple[str, ...]
) -> list[Row]:
    """A slave dies after the set was read and before the Java controller stops: the proof must see
    it. Then all is put right.
    """
    java.whole()
    code, _ = controller_verb("import", *where)
    victim = java.slaves()[-1]
    stage.say(f"kill -9 {victim.name} after the import, and only then the Java controller stops")
    victim.kill()
    java.wait(
        "the dead slave is out of the set", lambda view: len(view.in_sync) == len(java.brokers) - 1
    )
    controller.stop()
    found, proof = _checked("import", where)
    controller.start()
    stage.java.wait_until(
        lambda: bool(_leader(java.admin)), "the Java controller leads again", LEADS_WITHIN_S
    )
    victim.start(wait=False)
    java.whole()
    return [
        Row(
            "a member lost between reading and stopping is found",
            _said(proof)[:300],
            (code, found) == (0, 1),
        )
    ]


def _export(
    stage: Stage, cluster: LocalCluster, where: tuple[str, ...]
) -> tuple[list[Row], list[str]]:
    code, planned = controller_verb("export", *where, "--dry-run")
    began = time.monotonic()
    first_code, first = controller_verb("export", *where)
    took = time.monotonic() - began
    again_code, again = controller_verb("export", *where)
    found = [one["sets"][BROKER_SET]["presence"] for one in (planned, first, again)]
    too_early, _ = controller_verb("export", *where, "--check")
    stage.say("stopping Regent: Kafka, controllers, name server")
    cluster.down()
    checked, proof = _checked("export", where)
    sent = first["sets"][BROKER_SET]["requests"]
    return [
        Row(
            "export: dry run, run, run again",
            f"{found}, {sent} requests in {took:.1f} s",
            (code, first_code, again_code, found) == (0, 0, 0, ["fresh", "fresh", "done"]),
        ),
        Row("the proof refuses while Regent lives", f"exit {too_early}", too_early == 1),
        Row("the brokers prove that nothing changed", _said(proof), checked == 0),
    ], commands_of(first)


def commands_of(document: dict[str, Any]) -> list[str]:
    """The mqadmin lines of a plan's steps."""
    return [
        line
        for step in document["steps"]
        for line in step["commands"]
        if line.startswith("mqadmin ")
    ]


def _checked(verb: str, where: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
    return controller_verb(verb, *where, "--check")


def _said(proof: dict[str, Any]) -> str:
    checks = [*proof["checks"], *proof["sets"][BROKER_SET]["checks"]]
    bad = [one["what"] for one in checks if not one["ok"]]
    return "; ".join(bad) or f"{len(checks)} checks hold"


def _tell(stage: Stage, producer: Producer, commands: list[str]) -> int:
    """Type the mqadmin lines that the plan printed; the wall clock of the client's last answer
    before.
    """
    struck_ms = max(row[2] for row in producer.rows())
    for line in commands:
        done = stage.java.mqadmin(*shlex.split(line)[1:])
        if "update broker config success" not in done.text:
            raise Problem(f"{line}: {done.text[-300:]}", "")
    return struck_ms


def _arrived(stage: Stage, verb: str, where: tuple[str, ...], brokers: int) -> float:
    """Seconds until every broker is heard on the other side, with the proof still good there."""

    def met() -> bool:
        _, proof = _checked(verb, where)
        return len(proof["sets"][BROKER_SET]["arrived"]) == brokers

    return stage.java.wait_until(met, "every broker has arrived", ARRIVE_WITHIN_S)


# -- what is judged --------------------------------------------------------------------------------


def _same(before: SetView, after: SetView | None) -> bool:
    if after is None:
        return False
    parts = [
        (one.master_id, one.master_epoch, one.in_sync, one.sync_state_set_epoch, one.ids)
        for one in (before, after)
    ]
    return parts[0] == parts[1]


def _failed_sends(producer: Producer, since_ms: int, most: int | None) -> Row:
    rows = [row for row in producer.rows() if row[2] >= since_ms]
    failed = [row for row in rows if row[3] != "SEND_OK"]
    answers = sorted(row[2] for row in rows if row[3] == "SEND_OK")
    gap = max((b - a for a, b in itertools.pairwise(answers)), default=0)
    return Row(
        "sends while the brokers moved",
        f"{len(failed)} failed of {len(rows)}, longest gap {gap} ms",
        most is None or len(failed) <= most,
    )


def _decided_here(
    stage: Stage, java: JavaSet, producer: Producer, who: str, controllers: list[str]
) -> list[Row]:
    """A master dies: the new side decides. What deploys the brokers knows the new address by
    now.
    """
    kept = [
        f"controllerAddr={';'.join(controllers)}"
        in (one.home / ("process.properties")).read_text("utf-8").replace("\\", "")
        for one in java.brokers
    ]
    for one in java.brokers:
        one.settings["controllerAddr"] = ";".join(controllers)
    before, victim = java.whole(), java.master()
    stage.say(f"kill -9 {victim.name}: {who} must decide")
    victim.kill()
    elected = java.new_master(victim.broker_id, before.master_epoch)
    producer.flows()
    victim.start(wait=False)
    whole = java.whole()
    return [
        Row(
            "brokers keep the new address in their configuration",
            f"{sum(kept)} of {len(kept)}",
            all(kept),
        ),
        Row(
            f"then the master is killed: {who} elects, the old one returns",
            f"{elected}; {whole}",
            len(whole.in_sync) == len(java.brokers),
        ),
    ]


# -- the two sides ---------------------------------------------------------------------------------


def _controllers(cluster: LocalCluster) -> list[str]:
    return list(cluster.folder.running_cluster()["controllers"])


def _java_controller(stage: Stage, stack: ExitStack, name: str) -> JavaProcess:
    controller = stage.java.controller(name, FAST_CONTROLLER_SETTINGS)
    stack.callback(controller.end)
    admin = ControllerAdmin([controller.address], ASK_MS)
    stage.java.wait_until(lambda: bool(_leader(admin)), f"{name} leads", LEADS_WITHIN_S)
    return controller


def _leader(admin: ControllerAdmin) -> str:
    try:
        return admin.metadata().get("controllerLeaderAddress", "")
    except Problem:
        return ""


def _on_a_java_controller(stage: Stage, stack: ExitStack) -> tuple[JavaSet, JavaProcess]:
    stage.say("starting a Java controller, a Java name server and three Java brokers")
    name_server = stage.java.name_server("import-namesrv")
    stack.callback(name_server.end)
    controller = _java_controller(stage, stack, "import-controller")
    brokers = start_brokers(
        stage, "the Java controller", [controller.address], [name_server.address], prefix="import-"
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
    made.whole()
    return made, controller


def _regent_beside(stage: Stage, stack: ExitStack) -> LocalCluster:
    cluster = LocalCluster(stage.work / "import-regent", "--controllers", "2", "--replicas", "0")
    stack.callback(cluster.end)
    cluster.up()
    stack.callback(cluster.down)
    return cluster
