"""Slave acting master, section 10: what a name server and a peer of ours take from the brokers of
one Java container: several names, ids and ports on one host, over one connection (PROTOCOL 7.7).
"""

from __future__ import annotations

from typing import Any

import pytest

from brokers.acting import effects as fx
from brokers.acting.ha_links import HaLink, Sought, match
from brokers.acting.messages import HaInfo
from brokers.acting.targets import Route, fixed_target, read_route
from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.replica.fixed.ack_rule import FixedAckRule
from brokers.store.log.records import host_bytes
from tests.conformance.rows import Row, Shown, Table
from tests.support.acting_rig import ActingRig, group, of
from tests.support.fixed_pair import config, core
from tests.support.route_tables import RoutedSet

HOST, CONNECTION = "10.0.9.9", 700
NAMES = Table("10-name-server")
PEERS = Table("10-peers")


def at(port: int) -> str:
    return f"{HOST}:{port}"


def container() -> RoutedSet:
    """A slave of set a and the master of set b in one process; their others run elsewhere."""
    found = RoutedSet()
    found.register(0)
    found.register(1, at=at(6888), connection=CONNECTION)
    found.register(0, at=at(6898), broker_name="b", connection=CONNECTION)
    found.register(1, at="10.0.0.7:10911", broker_name="b", connection=107)
    found.told()
    return found


def members(found: RoutedSet) -> list[list[int]]:
    return [found.ids("a"), found.ids("b")]


@NAMES.row("each-has-its-place", shipped=[[0, 1], [0, 1]])
def _() -> object:
    return members(container())


@NAMES.row("one-removed-leaves-the-others", shipped=[[0, 1], [1]])
def _() -> object:
    """903 at the container: only that broker says goodbye, over the connection of all."""
    found = container()
    found.goodbye(0, at=at(6898), name="b", connection=CONNECTION)
    return members(found)


@NAMES.row("added-again", shipped=[[0, 1], [0, 1]])
def _() -> object:
    """902 for the one that was removed."""
    found = container()
    found.goodbye(0, at=at(6898), name="b", connection=CONNECTION)
    found.register(0, at=at(6898), broker_name="b", connection=CONNECTION)
    return members(found)


@NAMES.row(
    "the-process-is-killed",
    shipped=[[0], [0, 1]],
    ours=[[0], [1]],
    because="all brokers of a connection are gone together; RocketMQ's scan finds the rest",
)
def _() -> object:
    found = container()
    found.leave(CONNECTION - 100)
    return members(found)


@NAMES.row("each-is-heard-for-itself", shipped=[[0, 1], [1]])
def _() -> object:
    """Heartbeats of one inner broker do not keep another one, whose threads stand still."""
    found = RoutedSet()
    for name, port, broker_id in (("a", 6888, 1), ("b", 6898, 0)):
        found.register(
            broker_id, at=at(port), broker_name=name, connection=CONNECTION, timeout_ms=10_000
        )
    found.register(0, timeout_ms=60_000)
    found.register(1, at="10.0.0.7:10911", broker_name="b", connection=107, timeout_ms=60_000)
    found.table.heartbeat("C", at(6888), CONNECTION, 9_000)
    found.expire(12_000)
    return members(found)


@NAMES.row("one-port-with-another-role", shipped=[[0], [0, 1]])
def _() -> object:
    """The address of the slave of a is the master of b now: it is in one set."""
    found = container()
    found.goodbye(0, at=at(6898), name="b", connection=CONNECTION)
    found.register(0, at=at(6888), broker_name="b", connection=CONNECTION)
    return members(found)


@NAMES.row("its-slave-acts", shipped=[at(6888), 4])
def _() -> object:
    found = container()
    found.leave(0)
    route: Any = found.table.route("T", acting_masters=True)
    (data,) = [one for one in route["brokerDatas"] if one["brokerName"] == "a"]
    return [*data["brokerAddrs"].values(), found.perm()]


# -- peers -----------------------------------------------------------------------------------------


def links(*opened_ms: int) -> list[HaLink]:
    return [HaLink(number, HOST, at_ms, True, at_ms) for number, at_ms in enumerate(opened_ms)]


PEERS.row(
    "two-slaves-of-one-container-need-two-links",
    shipped=[2, 2],
    ours=[1, 2],
    because="4.7: by an address alone RocketMQ's master sees them as one",
)(
    lambda: [
        len(match([Sought(at(6888)), Sought(at(6898))], links(*opened)))
        for opened in ((5,), (5, 6))
    ]
)


@PEERS.row("links-go-where-a-master-says", shipped=at(6899))
def _() -> object:
    """listenPort + 1 in a container, but the answer to 906 counts."""
    rig = ActingRig(2, total_replicas=3).online(1)
    _, effects = rig.core.exchange(HaInfo(at(6899), 0, at(6898)), 0, rig.now_ms)
    return of(effects, fx.FollowMaster)[0].ha_address


@PEERS.row("the-smallest-that-lives-is-in-a-container", shipped=[at(6888), False])
def _() -> object:
    rig = ActingRig(2, total_replicas=3).online(0)
    rig.hear(group(2, _1=at(6888)))
    return [rig.core.min_address, rig.core.acts]


def route(*masters: tuple[str, int]) -> Route:
    body = {
        "brokerDatas": [
            {"brokerName": name, "cluster": "C", "brokerAddrs": {"0": at(port)}}
            for name, port in masters
        ],
        "queueDatas": [
            {"brokerName": name, "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}
            for name, _ in masters
        ],
    }
    answer = RemotingCommand(0, 1, 1, body=fastjson.dumps(body))
    return read_route(answer, "a")


PEERS.row("masters-of-one-host-are-told-apart-by-name", shipped=[("b", 2), ("c", 2)])(
    lambda: [(name, count) for name, _, count in route(("c", 6908), ("b", 6898)).masters]
)
PEERS.row("the-own-set-is-left-out-whatever-its-host", shipped=["b"])(
    lambda: [name for name, _, _ in route(("a", 6888), ("b", 6898)).masters]
)
PEERS.row("a-fixed-queue-is-one-brokers", shipped=1)(
    lambda: len({
        fixed_target(route(("b", 6898), ("c", 6908)), "rmq_sys_REVIVE_LOG_C",
                     host_bytes(HOST, 6888))
        for _ in range(3)
    })
)  # fmt: skip


@PEERS.row(
    "two-slaves-of-one-container-are-two-copies",
    shipped=[10],
    ours=[0, 10],
    because="2.12: the older link counts from its next report on, for it may be half open",
)
def _() -> object:
    master = core(config(ack_rule=FixedAckRule(in_sync=3)), 0, b"0" * 10)
    master.tick(0)
    report = (10).to_bytes(8, "big")
    for number in (1, 2):
        master.link_opened(number, outbound=False, now_ms=number, peer=f"{HOST}:{number}")
        master.link_data(number, report, number)
    before = master.acknowledged_offset
    master.link_data(1, report, 5_000)
    return [before, master.acknowledged_offset]


@pytest.mark.parametrize("row", NAMES.rows + PEERS.rows)
def test_row(row: Row | Shown) -> None:
    row.check()
