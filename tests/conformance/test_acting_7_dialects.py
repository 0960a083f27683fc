"""Slave acting master, section 7: name servers that know 901 and 904, and those that do not."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.messages import (
    CouldNotAnswer,
    Members,
    Place,
    heartbeat,
    members_request,
    read_members,
)
from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.tables.data_version import DataVersion
from tests.conformance.rows import Row, Shown, Table
from tests.support.acting_rig import ADDRESSES, NAME_SERVER, ActingRig, group, of

PLACE = Place("c1", "broker-a", 1, ADDRESSES[1])
DIALECT = Table("7")
DIALECT.row("heartbeat", shipped=[(322, 2, True), (904, 2, False)])(
    lambda: [
        (one.code, one.flag, bool(one.body))
        for one in (heartbeat(PLACE, DataVersion(), compat=way) for way in (True, False))
    ]
)
DIALECT.row("member-group", shipped=[(105, "rmq_sys_SYNC_BROKER_MEMBER_broker-a"), (901, None)])(
    lambda: [
        (one.code, one.ext.get("topic"))
        for one in (members_request(PLACE, compat=way) for way in (True, False))
    ]
)


def route(*brokers: dict[str, object]) -> RemotingCommand:
    body = fastjson.dumps({"brokerDatas": list(brokers), "queueDatas": []})
    return RemotingCommand(0, body=body)


def data(name: str, cluster: str, **addresses: str) -> dict[str, object]:
    return {
        "brokerName": name,
        "cluster": cluster,
        "brokerAddrs": {key[1:]: value for key, value in addresses.items()},
    }


def by_route(answer: RemotingCommand) -> object:
    found = read_members(answer, PLACE, compat=True)
    return dict(found.addresses) if isinstance(found, Members) else type(found)


DIALECT.row("name-and-cluster-match", shipped={1: "a:1"})(
    lambda: by_route(
        route(
            data("broker-a", "c2", _0="x:1"),
            data("broker-b", "c1", _0="y:1"),
            data("broker-a", "c1", _1="a:1"),
        )
    )
)
DIALECT.row("unquoted-ids", shipped={0: "a:0", 1: "a:1"})(
    lambda: by_route(
        RemotingCommand(
            0,
            body=(
                b'{"brokerDatas":[{"brokerAddrs":{0:"a:0",1:"a:1"},"brokerName":"broker-a",'
                b'"cluster":"c1"}]}'
            ),
        )
    )
)
DIALECT.row("no-route", shipped={})(lambda: by_route(RemotingCommand(17)))
DIALECT.row(
    "another-answer",
    shipped={},
    ours=CouldNotAnswer,
    because="4.3 step 2: what cannot answer says nothing",
)(lambda: by_route(RemotingCommand(1, remark="name server not ready")))


@DIALECT.row(
    "not-compat-against-an-old-name-server",
    shipped="an empty group, online at once",
    ours=[True, {NAME_SERVER: True}],
    because="4.3 step 2: it is asked by route then",
)
def _() -> list[object]:
    rig = ActingRig(0, compat=False)
    rig.start()
    old = read_members(RemotingCommand(3, remark="not supported"), PLACE, compat=False)
    rig.hear(old)
    (*_, ask) = of(rig.tick(1_000), fx.AskMembers)
    return [rig.core.isolated, dict(ask.compat)]


@DIALECT.row("an-old-name-server-and-slaves-that-act-all-the-same", shipped=True)
def _() -> bool:
    rig = ActingRig(1).online(0)
    rig.hear(group(1))
    return rig.core.acts


@DIALECT.row("a-heartbeat-in-the-way-of-each-name-server", shipped={"n1": True, "n2": False})
def _() -> object:
    rig = ActingRig(0, ("n1", "n2"), compat=False, total_replicas=1)
    rig.start()
    rig.hear(CouldNotAnswer("not supported", old=True), "n1")
    (beat,) = of(rig.tick(1_000), fx.SendHeartbeat)
    return dict(beat.compat)


@pytest.mark.parametrize("row", DIALECT.rows)
def test_row(row: Row | Shown) -> None:
    row.check()
