"""What a slave copies beside the log, among brokers of both kinds: topics, groups, consumer
offsets, delay offsets, timers, modes.

Responsible for: tables made on a Java master found at brokers of Regent and the reverse, served by
whoever leads next, no error of Java's slave synchronisation, delayed messages delivered once.
Refuses to know: how often either kind copies.
"""

from __future__ import annotations

import struct
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import call
from infra.problems import Problem
from tests.interop.both_kinds import broker_set, equal_logs, java, make_master, ours
from tests.interop.java_set import JavaSet
from tests.interop.program import Replica
from tests.interop.stage import Row, Stage

COPIED_WITHIN_S = 60.0
DELIVERED_WITHIN_S = 60.0
ROUNDS = 3
DELAYED_QUEUE, PLAIN_QUEUE, TIMER_QUEUE = 0, 1, 2
# What Java's SlaveSynchronize logs at level ERROR
SYNC_ERROR = r" ERROR .*([Ss]ync\w+ Exception|SlaveSynchronize|Persist file Exception)"
TABLES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: "topicConfigTable",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroupTable",
    RequestCode.GET_ALL_CONSUMER_OFFSET: "offsetTable",
    RequestCode.GET_ALL_DELAY_OFFSET: "offsetTable",
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: "messageRequestModeMap",
    RequestCode.GET_TIMER_METRICS: "timingCount",
}


def run(stage: Stage) -> list[Row]:
    """Made under a Java master, then under one of ours that took over by a kill, then the Java
    broker leads again.
    """
    with broker_set(stage, "tables", [java("java"), ours("ours-1"), ours("ours-2")]) as brokers:
        javas = brokers.brokers[0]
        make_master(brokers, javas)
        _make(stage, brokers, javas, "MadeByJava", "group-java")
        _delayed(stage, javas, "MadeByJava", first=True)
        _call(
            javas,
            RequestCode.SET_MESSAGE_REQUEST_MODE,
            body={
                "consumerGroup": "group-java",
                "mode": "POP",
                "popShareQueueNum": 0,
                "topic": "MadeByJava",
            },
        )
        rows = _copied(stage, brokers, javas)
        known = _tables(javas)
        rows += _killed(stage, brokers, javas, known)
        rows += _copied(stage, brokers, brokers.master())
        rows.append(_no_errors(stage, javas))
        rows += _leads_again(stage, brokers, javas)
        return [*rows, equal_logs(brokers)]


def _killed(stage: Stage, brokers: JavaSet, javas: Replica, known: dict[int, Any]) -> list[Row]:
    """The Java master dies: one of ours has its tables, and more is made there before it
    returns.
    """
    before = brokers.whole()
    stage.say(f"kill -9 {javas.name}")
    javas.kill()
    brokers.new_master(javas.broker_id, before.master_epoch)
    master = brokers.master()
    differ = _differences(known, _tables(master))
    brokers.whole()
    _make(stage, brokers, master, "MadeByOurs", "group-ours")
    # what it says from now on, it says as a slave of ours
    (javas.home / "logs" / "rocketmq.log").unlink()
    javas.start(wait=False)
    brokers.whole()
    return [
        Row(
            f"{javas.name} killed: {master.name} serves its tables",
            differ or f"{len(known)} tables, the same",
            not differ,
        )
    ]


def _leads_again(stage: Stage, brokers: JavaSet, javas: Replica) -> list[Row]:
    """Our master dies, the Java broker leads: it has what was made at ours, and delivers nothing
    twice.
    """
    before, master = brokers.whole(), brokers.master()
    known = _tables(master)
    stage.say(f"kill -9 {master.name}")
    master.kill()
    brokers.new_master(master.broker_id, before.master_epoch)
    make_master(brokers, javas)
    differ = _differences(known, _tables(javas))
    counts = _delayed(stage, javas, "MadeByJava", first=False)
    master.start(wait=False)
    brokers.whole()
    return [
        Row(
            f"{master.name} killed, {javas.name} leads: it serves the tables",
            differ or f"{len(known)} tables, the same",
            not differ,
        ),
        Row("delayed and timed messages delivered", f"{counts} of (3, 2)", counts == (3, 2)),
    ]


# -- what is made ----------------------------------------------------------------------------------


def _make(stage: Stage, brokers: JavaSet, master: Replica, topic: str, group: str) -> None:
    """A topic and a group by stock mqadmin, messages, and offsets of the group."""
    for words in (
        ("updateTopic", "-t", topic, "-r", "3", "-w", "3"),
        ("updateSubGroup", "-g", group),
    ):
        said = stage.java.mqadmin(*words, "-b", master.address).text
        if "success" not in said:
            raise Problem(f"mqadmin {words[0]} at {master.name}", said[-400:])
    for _ in range(4):
        _send(stage, master, topic, PLAIN_QUEUE)
    ext = {"consumerGroup": group, "topic": topic, "queueId": str(PLAIN_QUEUE), "commitOffset": "3"}
    _call(master, RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def _delayed(stage: Stage, master: Replica, topic: str, *, first: bool) -> tuple[int, int]:
    """Send delayed and timed messages and wait until the last of each is delivered; how many there
    are in all.
    """
    for _ in range(2 if first else 1):
        _send(stage, master, topic, DELAYED_QUEUE, "DELAY\x011\x02")
    _send(stage, master, topic, TIMER_QUEUE, "TIMER_DELAY_SEC\x011\x02")
    wanted = (2, 1) if first else (3, 2)

    def counts() -> tuple[int, int]:
        return _end(master, topic, DELAYED_QUEUE), _end(master, topic, TIMER_QUEUE)

    stage.java.wait_until(
        lambda: counts()[0] >= wanted[0] and counts()[1] >= wanted[1],
        "delayed messages are delivered",
        DELIVERED_WITHIN_S,
    )
    return counts()


def _send(stage: Stage, master: Replica, topic: str, queue: int, properties: str = "") -> None:
    ext = {
        "a": "tables",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": f"WAIT\x01true\x02{properties}",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    request = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, ext, b"x")
    stage.java.wait_until(
        lambda: call(master.address, request).code == ResponseCode.SUCCESS,
        f"{master.name} stores a message",
        DELIVERED_WITHIN_S,
    )


def _end(master: Replica, topic: str, queue: int) -> int:
    return int(
        _call(master, RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)}).ext[
            "offset"
        ]
    )


# -- what is compared ------------------------------------------------------------------------------


def _copied(stage: Stage, brokers: JavaSet, master: Replica) -> list[Row]:
    """Every other running broker has the master's tables, in memory and on its disk."""
    rows = []
    for one in (other for other in brokers.brokers if other is not master):
        try:
            took = stage.java.wait_until(
                lambda one=one: not _not_copied(master, one),
                f"{one.name} has the tables",
                COPIED_WITHIN_S,
            )  # type: ignore[misc]
        except Problem:
            rows.append(
                Row(f"{one.name} copies from {master.name}", _not_copied(master, one), ok=False)
            )
        else:
            rows.append(
                Row(
                    f"{one.name} copies from {master.name}",
                    f"{len(TABLES)} tables, timer check point, files; {took:.1f} s later",
                )
            )
    return rows


def _not_copied(master: Replica, slave: Replica) -> str:
    theirs = _tables(master)
    return (
        _differences(theirs, _tables(slave))
        or _differences(theirs, _files(slave), "in its files ")
        or _behind(master, slave)
    )


def _tables(one: Replica) -> dict[int, Any]:
    return {code: _plain(_call(one, code).body, key) for code, key in TABLES.items()}


def _files(one: Replica) -> dict[int, Any]:
    names = (
        "topics.json",
        "subscriptionGroup.json",
        "consumerOffset.json",
        "delayOffset.json",
        "messageRequestMode.json",
        "timermetrics",
    )
    paths = [one.store / "config" / name for name in names]
    return {
        code: _plain(path.read_bytes(), key) if path.exists() else {}
        for (code, key), path in zip(TABLES.items(), paths, strict=True)
    }


def _plain(body: bytes, key: str) -> Any:
    document = fastjson.loads(body)
    return document.get(key) if isinstance(document, dict) else None


def _differences(master: dict[int, Any], slave: dict[int, Any], where: str = "") -> str:
    """The first table that differs, and how; '' when none does."""
    for code, table in master.items():
        other = slave[code]
        if table != other:
            keys = [key for key in {*table, *other} if table.get(key) != other.get(key)]
            shown = {key: (table.get(key), other.get(key)) for key in keys[:2]}
            return f"{where}table {code}: {shown}"[:600]
    return ""


def _behind(master: Replica, slave: Replica) -> str:
    """The timer check point: the master's place in the timer queue, and a time that was read up
    to.
    """
    theirs, own = (
        struct.unpack(">7q", _call(one, RequestCode.GET_TIMER_CHECK_POINT).body)
        for one in (master, slave)
    )
    return "" if own[3] == theirs[3] and own[0] > 0 else f"timer check point {own} beside {theirs}"


def _no_errors(stage: Stage, javas: Replica) -> Row:
    """Whole rounds of Java's copying from one of ours, and nothing that it calls an error."""
    rounds = r"Update slave Message Request Mode from master"
    stage.java.wait_until(
        lambda: len(javas.log_lines(rounds)) >= ROUNDS,
        f"{javas.name} has copied all tables {ROUNDS} times",
        COPIED_WITHIN_S,
    )
    errors = javas.log_lines(SYNC_ERROR)
    shown = errors[0][:300] if errors else f"none in {len(javas.log_lines(rounds))} rounds"
    return Row(f"errors of {javas.name}'s slave synchronisation", shown, not errors)


def _call(
    one: Replica, code: int, ext: dict[str, str] | None = None, body: object = None
) -> RemotingCommand:
    answer = call(
        one.address,
        RemotingCommand.request(code, ext, b"" if body is None else fastjson.dumps(body)),
    )
    if answer.code != ResponseCode.SUCCESS:
        raise Problem(f"{one.name} answers {code} with {answer.code}", answer.remark or "")
    return answer
