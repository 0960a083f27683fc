"""Java brokers registered at a Java name server and at Regent's: clients get the same answer from
either.

Responsible for: asking both the same questions, before and after a failover, and comparing bodies
field by field.
Refuses to know: how either builds its answer.
"""

from __future__ import annotations

import json
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import call
from infra.problems import Problem
from tests.interop.java_client import Producer
from tests.interop.java_set import BROKER_SET, JavaSet, on_regent
from tests.interop.stage import Row, Stage

AGREE_WITHIN_S = 45.0
TOPICS = (
    "Beside",
    "BesideReadOnly",
    "TBW102",
    "SELF_TEST_TOPIC",
    BROKER_SET,
    "DefaultCluster",
    "NoSuchTopic",
)
Question = tuple[str, int, dict[str, str]]


def run(stage: Stage) -> list[Row]:
    """Routes of ordinary, read-only, system and unknown topics, cluster and member tables; again
    after a master died.
    """
    java = on_regent(stage)
    before = java.whole()
    producer = Producer(stage, java.name_servers, "Beside", count=20)
    try:
        producer.stop()
    finally:
        producer.end()
    _topic(stage, java, "BesideReadOnly", "-p", "4")
    rows = _compare(java, "all well")
    victim = java.master()
    stage.say(f"kill -9 {victim.name}")
    victim.kill()
    java.new_master(victim.broker_id, before.master_epoch)
    rows += _compare(java, "master dead")
    victim.start(wait=False)
    java.whole()
    return rows + _compare(java, "old master back")


def _topic(stage: Stage, java: JavaSet, name: str, *words: str) -> None:
    done = stage.java.mqadmin(
        "updateTopic",
        "-n",
        java.name_servers,
        "-b",
        java.master().address,
        "-t",
        name,
        "-r",
        "4",
        "-w",
        "4",
        *words,
    )
    if "success" not in done.text:
        raise Problem(f"topic {name} was not made", done.text[-300:])


def _questions() -> list[Question]:
    asked: list[Question] = [
        (f"route of {topic}", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        for topic in TOPICS
    ]
    asked.append(
        (
            "route, as old clients ask",
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": "Beside", "acceptStandardJsonOnly": "true"},
        )
    )
    asked.append(("clusters", RequestCode.GET_BROKER_CLUSTER_INFO, {}))
    asked.append(("topics", RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}))
    asked.append(
        (
            "members of the set",
            RequestCode.GET_BROKER_MEMBER_GROUP,
            {"clusterName": "DefaultCluster", "brokerName": BROKER_SET},
        )
    )
    return asked


def _compare(java: JavaSet, when: str) -> list[Row]:
    """One row; waits until registrations of the last change have reached both."""
    assert java.regent is not None
    ours, theirs = java.regent.name_servers[0], java.java_name_server.address
    differing: list[str] = []

    def agree() -> bool:
        differing[:] = [
            name
            for name, code, fields in _questions()
            if _answer(ours, code, fields) != _answer(theirs, code, fields)
        ]
        return not differing

    try:
        java.world.wait_until(agree, "both name servers agree", AGREE_WITHIN_S)
    except Problem:
        shown = [
            (f"{name}: ours {_answer(ours, code, fields)}, Java's {_answer(theirs, code, fields)}")
            for name, code, fields in _questions()
            if name in differing
        ]
        return [Row(f"{when}: both name servers", " | ".join(shown)[:1_500], ok=False)]
    return [Row(f"{when}: both name servers", f"{len(_questions())} questions, equal answers")]


def _answer(address: str, code: int, fields: dict[str, str]) -> tuple[int, str]:
    """Code and body of one answer, the body's lists in one order: neither side promises one."""
    answer = call(address, RemotingCommand.request(code, fields))
    body = fastjson.loads(answer.body) if answer.body else None
    return answer.code, json.dumps(_ordered(body), sort_keys=True)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted(
            (_ordered(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True)
        )
    return value
