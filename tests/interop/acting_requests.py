"""The rules of slave acting master at a name server, one after the other at RocketMQ's and at
Regent's, played by scripted brokers: answers, routes, members and notices are compared.

Responsible for: the script, in the order of the rules (2.3 to 2.7 of the reference; PROTOCOL
4.20), and which differences are meant.
Refuses to know: how a scripted broker speaks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from tests.interop.regent_name_server import RegentNameServer
from tests.interop.scripted_brokers import TOPICS, Side
from tests.interop.stage import Row, Stage

SCAN_MS = 1_000
SETTLES_S = 0.4
"""A name server of RocketMQ removes brokers, and tells others of it, after it has answered."""
AGREE_WITHIN_S = 8.0
SETTINGS = {
    "supportActingMaster": "true",
    "notifyMinBrokerIdChanged": "true",
    "scanNotActiveBrokerInterval": str(SCAN_MS),
}
ASKED = (*TOPICS, "New", "rmq_sys_SYNC_BROKER_MEMBER_a")
SETS = ("a", "b", "unknown")
WITH_MEMBERS = {**TOPICS, "rmq_sys_SYNC_BROKER_MEMBER_a": 1}

Act = Callable[[Side], Awaitable[RemotingCommand | None]]


@dataclass(frozen=True, slots=True)
class Step:
    """`differs`: why the two are not equal after it, empty where they have to be."""

    rule: str
    act: Act
    differs: str = ""


def _cut(name: str) -> Act:
    async def act(side: Side) -> None:
        await (await side.broker(name)).cut()

    return act


def _pause(seconds: float) -> Act:
    async def act(side: Side) -> None:
        await asyncio.sleep(seconds)

    return act


def _register(name: str, broker_id: int, **said: Any) -> Act:
    return lambda side: side.register(name, broker_id, **({"topics": WITH_MEMBERS} | said))


def _goodbye(name: str, broker_id: int, broker_set: str = "") -> Act:
    return lambda side: side.unregister(name, broker_id, broker_set)


STEPS = (
    Step("2.3.9, 2.3.10 the first slave is prime: no writes", _register("a2", 2)),
    Step("2.3.4, 2.3.14 a smaller id: the others hear", _register("a1", 1)),
    Step("2.3.10 another slave adds no topics", _register("a3", 3, topics={"New": 6, "T": 6})),
    Step("2.3.8, 2.3.10 a master brings writes back", _register("a0", 0)),
    Step("2.3.13 a slave is told its master", _register("a1", 1)),
    Step("2.3.12 filter servers are taken", _register("a1", 1, filter_servers=["h:1", "h:2"])),
    Step("2.3.12 none named: they stay", _register("a1", 1, filter_servers=None)),
    Step("2.3.12 an empty list: they go", _register("a1", 1, filter_servers=[])),
    Step("2.4 904 of a known one", lambda side: side.beat("a1", 1)),
    Step("2.4 322 of a known one, same", lambda side: side.ask_version("a1", 1)),
    Step("2.4 322 of a known one, other", lambda side: side.ask_version("a1", 1, counter=2)),
    Step("2.4 322 of an unknown one", lambda side: side.ask_version("a9", 9)),
    Step("2.4 322 under another cluster", lambda side: side.ask_version("a1", 1, clusterName="D")),
    Step("2.5, 2.7 a cut master: read only, acting", _cut("a0")),
    Step("2.3.10 the same version again: nothing new", _register("a1", 1)),
    Step(
        "2.7 327 makes it writable, so not acting",
        lambda side: side.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="a"),
    ),
    Step("2.3.10 the same version: it stays writable", _register("a1", 1)),
    Step("2.3.10 another version: read only again", _register("a1", 1, counter=2)),
    Step(
        "217 of a slave",
        lambda side: side.add_topic("a1", "New", "a"),
        "stored without writes: at RocketMQ's nobody acts for this topic",
    ),
    Step("217 of a known topic", lambda side: side.add_topic("a1", "Seven", "a"), "as before"),
    Step("217 of an unknown broker", lambda side: side.add_topic("a1", "T", "nobody"), "as before"),
    Step(
        "216 forgets both",
        lambda side: side.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="Seven"),
        "as before",
    ),
    Step(
        "216 forgets both, then",
        lambda side: side.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="New"),
    ),
    Step("2.3.10 the same version: a missing topic is back", _register("a1", 1, counter=2)),
    Step("2.5 104 of the smallest: the next one acts", _goodbye("a1", 1)),
    Step("2.6 one that is alone comes back", _register("a1", 1)),
    Step("2.5 104 of one that is not the smallest", _goodbye("a3", 3)),
    Step("2.3.3 one with the option off turns the set off", _register("a2", 2, acting="false")),
    Step("2.5 off: the smallest leaves, no notice", _cut("a1")),
    Step("2.5 104 of the last: nothing is left", _goodbye("a2", 2)),
    Step("2.3.9 option off: prime, and writable", _register("a2", 2, acting="false")),
    Step("2.3.9 an old broker is not prime", _register("a1", 1, acting=None, counter=3)),
    Step("2.5 104 of both", _goodbye("a1", 1)),
    Step("2.5 104 of both, second", _goodbye("a2", 2)),
    Step(
        "2.3.7 one topic before the others",
        _register("b0", 0, topics={"T": 6}),
        "no empty set is left behind",
    ),
    Step("2.3.7 all topics", _register("b0", 0)),
    Step("2.3.7 one topic afterwards", _register("b0", 0, topics={"New": 6}, counter=2)),
    Step("2.3.6 an equal state version takes the place", _register("b0'", 0, counter=3)),
    Step("2.3.6 a larger one", _register("b0", 0, state_version=2)),
    Step("2.3.6 a smaller one is refused", _register("b0'", 0, state_version=1)),
    Step("2.3.5 another role of one address", _register("b2", 2, state_version=2)),
    Step("2.3.5 another role of one address, then", _register("b2", 0, state_version=3)),
    Step("2.3.3 a zone", _register("b2", 0, state_version=3, __ZONE_NAME="z")),
    Step("2.5 silent for longer than it said", _register("b2", 0, heartbeatTimeoutMillis="600")),
    Step("2.5 silent, gone", _pause(3 * SCAN_MS / 1000)),
    Step("2.4 904 does not bring it back", lambda side: side.beat("b2", 0)),
    Step("2.4 but a registration does", _register("b2", 0, __ZONE_NAME="z")),
    Step("2.7 a slave acts in its zone", _register("a1", 1, __ZONE_NAME="far")),
    Step(
        "2.7 zones are judged after the rewriting",
        lambda side: side.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T", __ZONE_MODE="true", __ZONE_NAME="z"
        ),
    ),
    Step(
        "205 takes writes away",
        lambda side: side.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="b"),
    ),
    Step("2.7 a master that nobody may write to stays", _register("b2", 0, __ZONE_NAME="z")),
)


def run(stage: Stage) -> list[Row]:
    """Every step at both, each compared."""
    java = stage.java.name_server("java-acting-requests", SETTINGS, start=False)
    ours = RegentNameServer(stage.java, "acting-requests", SETTINGS)
    stage.configured(f"name servers, both: {_text(SETTINGS)}")
    try:
        java.start()
        ours.start()
        return asyncio.run(_compared(Side(java.address), Side(ours.address)))
    finally:
        java.end()
        ours.end()


async def _compared(java: Side, ours: Side) -> list[Row]:
    rows = []
    try:
        for step in STEPS:
            answers = [side.told(await _done(side, step)) for side in (java, ours)]
            await asyncio.sleep(SETTLES_S)
            rows.append(_row(step, answers, await _settled(java, ours)))
    finally:
        await java.end()
        await ours.end()
    return [row for row in rows if not row.ok] + [_summary(rows)]


async def _done(side: Side, step: Step) -> RemotingCommand:
    answer = await step.act(side)
    return RemotingCommand.request(0) if answer is None else answer


async def _settled(java: Side, ours: Side) -> list[Any]:
    """What both show once it is equal, or for good."""
    loop = asyncio.get_running_loop()
    until = loop.time() + AGREE_WITHIN_S
    while True:
        found = [await side.seen(ASKED, SETS) for side in (java, ours)]
        if found[0] == found[1] or loop.time() > until:
            return found
        await asyncio.sleep(SETTLES_S)


def _row(step: Step, answers: list[Any], seen: list[Any]) -> Row:
    differing = [
        f"{name}: RocketMQ's {_text(seen[0].get(name))}, ours {_text(seen[1].get(name))}"
        for name in sorted(seen[0].keys() | seen[1].keys())
        if seen[0].get(name) != seen[1].get(name)
    ]
    if answers[0] != answers[1]:
        differing.insert(0, f"answer: RocketMQ's {_text(answers[0])}, ours {_text(answers[1])}")
    if step.differs:
        return Row(step.rule, f"differs, as meant: {step.differs}", bool(differing))
    return Row(step.rule, " | ".join(differing)[:1_500] or "equal", not differing)


def _summary(rows: list[Row]) -> Row:
    meant = [row for row in rows if row.result.startswith("differs")]
    text = f"{len(rows)} steps, {len(rows) - len(meant)} equal, {len(meant)} differ as meant"
    return Row("rules of a name server, step by step", text, all(row.ok for row in rows))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
