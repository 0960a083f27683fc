"""What rocketmq-dashboard and rocketmq-exporter ask for, asked by the stock admin client of a Java
cluster and of ours: every field that Java's answers have, ours have, of the same kind.

Responsible for: the same load on both sides, one program of questions played on both, and the
differences shown. Refuses to know: how either comes to its answer.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from brokers.remoting import fastjson
from tests.interop.java_client import Consumer, Producer, first_message
from tests.interop.java_rocketmq import TOOL_JVM, fetch_jars
from tests.interop.ledger import acknowledged_of
from tests.interop.own_cluster import own_cluster
from tests.interop.stage import HERE, Row, Stage, compiler

PROGRAM = HERE / "AdminClient.java"
CLUSTER, BROKER = "regent", "broker-a"
TOPIC, GROUP, PRODUCER_GROUP = "Seen", "interop-Seen", "interop-producer"
MESSAGES, RATE_PER_S = 400, 100
ASKED_WITHIN_S = 240
# A minute's figures are differences of samples that are taken every 10 s; a consumer tells its
# places every 5 s.
SAMPLED_S = 25.0
SHOWN = 4
ALONE = {
    "enableControllerMode": "false",
    "brokerId": "0",
    "allAckInSyncStateSet": "false",
    "minInSyncReplicas": "1",
    "inSyncReplicas": "1",
    "totalReplicas": "1",
}
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
_ADDRESS = re.compile(r"/?\d+\.\d+\.\d+\.\d+(:\d+)?")
_UNIQUE = re.compile(r"[0-9A-F]{32}")
_FOLDER = re.compile(r"_/\S+")
# Each kind has its own settings, and pages show whatever there is.
AT_SECOND_PORT = ", second port"
OF_ITS_OWN = {"26 settings", f"26 settings{AT_SECOND_PORT}"}
# Of a group that Java's 300 names and nobody made.
NOT_AT_OURS = {"/-/exceptionDesc"}
RUNTIME, OF_A_SLAVE = "28 runtime of the master", "28 runtime of a slave"

Fields = dict[str, str]


def run(stage: Stage) -> list[Row]:
    """Java first, alone on the machine; then ours."""
    theirs = _of_java(stage)
    ours = _of_ours(stage)
    return compared(theirs, ours)


def _of_java(stage: Stage) -> dict[str, str]:
    name_server = stage.java.name_server("seen-namesrv")
    broker = stage.java.broker(
        "seen-broker",
        controllers=(),
        name_servers=[name_server.address],
        broker_set=BROKER,
        cluster=CLUSTER,
        settings=ALONE,
    )
    try:
        return _asked(stage, name_server.address, "java")
    finally:
        broker.stop()
        name_server.stop()


def _of_ours(stage: Stage) -> dict[str, str]:
    with own_cluster(stage, folder="seen") as cluster:
        return _asked(stage, cluster.name_servers[0], "ours")


def _asked(stage: Stage, name_server: str, side: str) -> dict[str, str]:
    """Each question and its answer's text, while a producer and a consumer of ours live."""
    stage.say(f"asking {side}")
    first_message(stage, name_server, TOPIC)
    consumer = Consumer(stage, name_server, TOPIC, name=f"{TOPIC}-{side}", group=GROUP)
    producer = Producer(stage, name_server, TOPIC, rate=RATE_PER_S, name=f"{TOPIC}-{side}")
    try:
        producer.wait(lambda rows: len(acknowledged_of(rows)) >= MESSAGES, "sending")
        time.sleep(SAMPLED_S)
        # rocketmq-dashboard goes to the second port where nobody says otherwise
        found = read(_played(stage, name_server, side))
        second = read(_played(stage, name_server, side, vip="true"))
    finally:
        producer.stop()
        producer.end()
        consumer.stop()
    return {**found, **{f"{one}{AT_SECOND_PORT}": text for one, text in second.items()}}


def _played(stage: Stage, name_server: str, side: str, *, vip: str = "false") -> str:
    """What the program wrote."""
    out = stage.work / f"asked-{side}-{vip}.txt"
    jars = fetch_jars(stage.say)
    classes = stage.work / "admin-classes"
    classes.mkdir(exist_ok=True)
    words = [compiler(), "-cp", f"{jars}/*", "-d", str(classes), str(PROGRAM)]
    subprocess.run(words, check=True)
    path = f"{stage.java.class_path}:{classes}"
    home = stage.work / "admin-home"
    home.mkdir(exist_ok=True)
    command = ["java", *TOOL_JVM, f"-Duser.home={home}", "-cp", path, "AdminClient"]
    pairs = {"namesrv": name_server, "topic": TOPIC, "group": GROUP, "producer": PRODUCER_GROUP}
    pairs |= {"vip": vip, "out": str(out)}
    subprocess.run(
        [*command, *(f"{key}={value}" for key, value in pairs.items())],
        check=True,
        timeout=ASKED_WITHIN_S,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=home,
    )
    return out.read_text(encoding="utf-8")


def read(text: str) -> dict[str, str]:
    """Question to answer."""
    pairs = (line.partition("\t") for line in text.splitlines())
    return {question: answer for question, _, answer in pairs}


def compared(theirs: Mapping[str, str], ours: Mapping[str, str]) -> list[Row]:
    """One row per question. The Java broker is alone: a slave of ours has what its master has."""
    asked = [one for one in theirs if one not in OF_ITS_OWN]
    rows = [_row(one, theirs[one], ours.get(one, "! was not asked")) for one in asked]
    if RUNTIME in theirs:
        rows.append(_row(OF_A_SLAVE, theirs[RUNTIME], ours.get(OF_A_SLAVE, "! was not asked")))
    return rows


def _row(question: str, theirs: str, ours: str) -> Row:
    if theirs.startswith("!") or ours.startswith("!"):
        same = theirs.startswith("!") and ours.startswith("!") and _code(theirs) == _code(ours)
        text = f"Java's: {theirs[:200]}; ours: {ours[:200]}" if not same else ours[:100]
        return Row(question, text, same)
    wanted, found = fields_of(theirs), fields_of(ours)
    for path in NOT_AT_OURS:
        wanted.pop(path, None)
    missing = {path: kind for path, kind in wanted.items() if found.get(path) != kind}
    shown = [f"{path}: {kind}, ours {found.get(path)}" for path, kind in missing.items()]
    text = "; ".join(shown[:SHOWN]) if missing else f"{len(wanted)} fields"
    return Row(question, text, not missing)


def _code(failure: str) -> str:
    found = re.search(r"CODE: *(\d+)", failure)
    return found[1] if found else failure.split(":")[0]


def fields_of(answer: str) -> Fields:
    """Path of each field to what kind of value it has; addresses and identities are made equal."""
    found: Fields = {}
    _walk("", fastjson.loads(answer.encode()), found)
    return found


def _walk(path: str, value: Any, found: Fields) -> None:
    match value:
        case dict():
            for key, part in value.items():
                _walk(f"{path}/{_same(str(key))}", part, found)
        case list():
            for part in value:
                _walk(f"{path}/-", part, found)
        case _:
            found[path] = _kind(value)


def _same(key: str) -> str:
    return _FOLDER.sub("_FOLDER", _UNIQUE.sub("ID", _ADDRESS.sub("ADDRESS", key)))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        parts = value.split()
        if parts and all(_NUMBER.match(part) for part in parts):
            # a Java broker leaves out what it has not sampled yet, but for the blank before it
            return "numbers" if " " in value else "number in text"
        return "text" if value else "nothing"
    if isinstance(value, bool) or value is None:
        return "nothing" if value is None else "yes or no"
    return "number"
