"""RULES 3: each request with all fields of its answer (fields of ours left out: Java
ignores them).
"""

import json
from typing import Any

import pytest

from events.properties import parse
from processors.controller import effects as fx
from tests.conformance.rows import Row, Shown, Table
from tests.support.controller_rig import CLUSTER, SET, Log, Rig

NAMES = {"clusterName": CLUSTER, "brokerName": SET}
Shape = tuple[int, dict[str, str], Any]
"""(code, header fields of RocketMQ, body)"""


def asked(
    rig: Rig, code: int, ext: dict[str, str] | None = None, body: bytes = b"", conn: int = 1
) -> Shape:
    answer = rig.request(code, ext or {}, body, conn=conn)
    assert answer is not None
    theirs = {name: value for name, value in answer.ext.items() if not name.startswith("regent")}
    return answer.code, theirs, json.loads(answer.body) if answer.body else None


def java(rig: Rig, broker: int) -> None:
    """A Java broker's way into the set: 1012, 1013, 1003, heartbeat."""
    asked(
        rig,
        1013,
        NAMES | {"appliedBrokerId": str(broker), "registerCheckCode": f"b{broker}:10911;{broker}"},
    )
    asked(
        rig,
        1003,
        NAMES | {"brokerId": str(broker), "brokerAddress": f"b{broker}:10911"},
        conn=broker,
    )
    beat = NAMES | {
        "brokerId": str(broker),
        "brokerAddr": f"b{broker}:10911",
        "maxOffset": "10",
        "epoch": "-1",
    }
    rig.request(904, beat, conn=broker, oneway=True)


def java_set(members: int = 2) -> Rig:
    rig = Rig().lead()
    for broker in range(1, members + 1):
        java(rig, broker)
        if broker == 1:
            elected = asked(rig, 1002, NAMES | {"brokerId": "1"})
            assert elected[0] == 0
    return rig


HEARTBEAT = Table("3.1")
BEAT = NAMES | {"brokerId": "1", "brokerAddr": "b1:10911"}


@HEARTBEAT.row("answer-when-asked-for", shipped=(0, {}, None))
def _() -> Shape:
    return asked(Rig().lead(), 904, BEAT)


@HEARTBEAT.row("on-a-non-leader-too", shipped=(0, {}, None))
def _() -> Shape:
    return asked(Rig("c2", Log(), {"c1": "c1:9878"}), 904, BEAT)


@HEARTBEAT.row("defaults", shipped=(-1, -1, -1, 10_000, 2_147_483_647))
def _() -> tuple[int, ...]:
    rig = Rig().lead()
    asked(rig, 904, BEAT)
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert pulse is not None
    return (
        pulse.epoch,
        pulse.max_offset,
        pulse.confirm_offset,
        pulse.timeout_ms,
        pulse.election_priority,
    )


HEARTBEAT.shown(
    "no-broker-id-is-2005",
    "tests/unit/processors/controller/test_heartbeats.py::test_a_904_that_cannot_be_read",
)

ALTER = Table("3.2")
BASE = {"brokerName": SET, "masterBrokerId": "1", "masterEpoch": "1", "invokeTime": "1"}


@ALTER.row(
    "accepted",
    shipped=(0, {"newSyncStateSetEpoch": "2"}, {"syncStateSet": [1, 2], "syncStateSetEpoch": 2}),
)
def _() -> Shape:
    return asked(java_set(), 1001, BASE, b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}')


@ALTER.row("refused", shipped=(2001, {"newSyncStateSetEpoch": "0"}, None))
def _() -> Shape:
    return asked(java_set(), 1001, BASE, b'{"syncStateSet":[1,2],"syncStateSetEpoch":0}')


@ALTER.row("without-invoke-time", shipped=0)
def _() -> int:
    ext = {name: value for name, value in BASE.items() if name != "invokeTime"}
    return asked(java_set(), 1001, ext, b'{"syncStateSet":[2,1],"syncStateSetEpoch":1}')[0]


@ALTER.row("missing-body-or-epoch", shipped=[1, 1])
def _() -> list[int]:
    without = {name: value for name, value in BASE.items() if name != "masterEpoch"}
    return [
        asked(java_set(), 1001, BASE)[0],
        asked(java_set(), 1001, without, b'{"syncStateSet":[1],"syncStateSetEpoch":1}')[0],
    ]


ELECT = Table("3.3")
MASTER = {
    "masterBrokerId": "1",
    "masterAddress": "b1:10911",
    "masterEpoch": "1",
    "syncStateSetEpoch": "1",
}
GROUP = {"brokerAddrs": {"1": "b1:10911"}, "brokerName": SET, "cluster": CLUSTER}


@ELECT.row(
    "elected",
    shipped=(0, MASTER, {"brokerMemberGroup": GROUP, "syncStateSet": [1]}),
    ours=(0, MASTER, {"brokerMemberGroup": GROUP, "syncStateSet": [1], **GROUP}),
    because="section 12: mqadmin reads the group at the top",
)
def _() -> Shape:
    rig = Rig().lead()
    java(rig, 1)
    return asked(rig, 1002, NAMES | {"brokerId": "1", "designateElect": "false", "invokeTime": "1"})


@ELECT.row("kept", shipped=(2011, MASTER, {"syncStateSet": [1]}))
def _() -> Shape:
    return asked(java_set(), 1002, NAMES | {"brokerId": "2"})


@ELECT.row("failed-has-no-header", shipped=[(2010, {}, None), (2012, {}, None), (2004, {}, None)])
def _() -> list[Shape]:
    found = [asked(Rig().lead(), 1002, NAMES | {"brokerId": "1"})]
    for broker in ("2", "-1"):
        rig = java_set()
        rig.close_connection(1)
        rig.probe_result("b1:10911", "refused")
        found.append(asked(rig, 1002, NAMES | {"brokerId": broker}))
    return found


@ELECT.row("defaults-for-absent-fields", shipped=2010)
def _() -> int:
    return asked(Rig().lead(), 1002)[0]


REGISTER = Table("3.4")
ME = NAMES | {"brokerId": "2", "brokerAddress": "b2:10911", "invokeTime": "0"}


@REGISTER.row(
    "with-a-live-master", shipped=(0, NAMES | MASTER, {"syncStateSet": [1], "syncStateSetEpoch": 1})
)
def _() -> Shape:
    return asked(java_set(), 1003, ME, conn=2)


@REGISTER.row(
    "with-a-dead-master", shipped=(0, NAMES, {"syncStateSet": [1], "syncStateSetEpoch": 1})
)
def _() -> Shape:
    rig = java_set()
    rig.close_connection(1)
    return asked(rig, 1003, ME, conn=2)


@REGISTER.row("unknown-id-echoes-names", shipped=(2010, NAMES, None))
def _() -> Shape:
    return asked(java_set(), 1003, ME | {"brokerId": "7"})


REGISTER.shown(
    "another-cluster-name",
    "tests/unit/processors/wire/test_answers.py::"
    "test_a_registration_under_another_cluster_name_looks_for_the_master_there",
)

INFO = Table("3.5")


@INFO.row(
    "before-any-election",
    shipped=(0, {"masterEpoch": "0"}, {"syncStateSet": [], "syncStateSetEpoch": 0}),
)
def _() -> Shape:
    rig = Rig().lead()
    java(rig, 1)
    return asked(rig, 1004, {"brokerName": SET})


@INFO.row("a-dead-master-is-still-told", shipped="1")
def _() -> str:
    rig = java_set()
    rig.close_connection(1)
    return asked(rig, 1004, {"brokerName": SET})[1]["masterBrokerId"]


@INFO.row("unknown", shipped=(2008, {}, None))
def _() -> Shape:
    return asked(java_set(), 1004, {"brokerName": "nosuch"})


METADATA = Table("3.6")


def trio(name: str) -> Rig:
    return Rig(name, Log(), {one: f"{one}:9878" for one in ("c1", "c2", "c3")})


@METADATA.row(
    "leader",
    shipped=(
        0,
        {
            "group": "cluster",
            "controllerLeaderId": "c1",
            "controllerLeaderAddress": "c1:9878",
            "isLeader": "true",
            "peers": "c1:c1:9878;c2:c2:9878;c3:c3:9878;",
        },
        None,
    ),
)
def _() -> Shape:
    return asked(trio("c1").lead(), 1005)


@METADATA.row(
    "no-leader-known",
    shipped=(
        0,
        {"group": "cluster", "isLeader": "false", "peers": ("c1:c1:9878;c2:c2:9878;c3:c3:9878;")},
        None,
    ),
)
def _() -> Shape:
    return asked(trio("c2"), 1005)


METADATA.shown(
    "reachable-from-where-it-was-asked",
    "tests/unit/processors/controller/test_peers.py::test_1005_names_an_address_that_the_asker_can_reach",
)

SYNC = Table("3.7")


@SYNC.row(
    "known-and-unknown-names",
    shipped=(
        0,
        {},
        {
            "replicasInfoTable": {
                SET: {
                    "inSyncReplicas": [
                        {
                            "alive": True,
                            "brokerAddress": "b1:10911",
                            "brokerId": 1,
                            "brokerName": SET,
                        }
                    ],
                    "masterAddress": "b1:10911",
                    "masterBrokerId": 1,
                    "masterEpoch": 1,
                    "notInSyncReplicas": [
                        {
                            "alive": False,
                            "brokerAddress": "b2:10911",
                            "brokerId": 2,
                            "brokerName": SET,
                        }
                    ],
                    "syncStateSetEpoch": 1,
                }
            }
        },
    ),
)
def _() -> Shape:
    rig = java_set()
    rig.close_connection(2)
    rig.probe_result("b2:10911", "refused")
    return asked(rig, 1006, body=b'["nosuch","a"]')


@SYNC.row("nothing-asked", shipped=[1, 1, 1])
def _() -> list[int]:
    return [asked(java_set(), 1006, body=body)[0] for body in (b"", b"[]", b"{}")]


@SYNC.row("no-master-fields-are-absent", shipped=False)
def _() -> bool:
    rig = java_set(1)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    asked(rig, 1002, NAMES | {"brokerId": "-1"})
    table = asked(rig, 1006, body=b'["a"]')[2]["replicasInfoTable"][SET]
    return "masterAddress" in table or "masterBrokerId" in table


NOTICE = Table("3.8")


@NOTICE.row(
    "fields-body-one-way",
    shipped=(
        True,
        {
            "masterAddress": "b1:10911",
            "masterEpoch": "1",
            "syncStateSetEpoch": "1",
            "masterBrokerId": "1",
        },
        {"syncStateSet": [1], "syncStateSetEpoch": 1},
    ),
)
def _() -> tuple[bool, dict[str, str], Any]:
    rig = Rig().lead()
    java(rig, 1)
    asked(rig, 1002, NAMES | {"brokerId": "1"})
    command = rig.take(fx.NotifyRole)[0].command
    return (
        command.is_oneway,
        {name: one for name, one in command.ext.items() if not name.startswith("regent")},
        json.loads(command.body),
    )


CONFIG = Table("3.9")
CONFIG.shown(
    "1009-row-by-row", "tests/unit/processors/controller/test_operators.py::test_1009_row_by_row"
)
CONFIG.shown(
    "the-file-may-add-to-the-black-list",
    "tests/unit/processors/settings/test_rocketmq.py::"
    "test_the_black_list_always_holds_three_names_and_those_of_the_file",
)


@CONFIG.row("1010-sorted-properties", shipped=(True, "false"))
def _() -> tuple[bool, str]:
    answer = Rig().lead().request(1010)
    assert answer is not None and answer.code == 0 and answer.ext == {}
    found = parse(answer.body)
    return list(found) == sorted(found), found["enableElectUncleanMaster"]


CLEAN = Table("3.10")


@CLEAN.row("code-and-remark-only", shipped=[(2009, {}, None), (0, {}, None)])
def _() -> list[Shape]:
    rig = java_set()
    found = [asked(rig, 1011, NAMES | {"isCleanLivingBroker": "false", "invokeTime": "1"})]
    return [
        *found,
        asked(
            rig, 1011, NAMES | {"brokerControllerIdsToClean": "2", "isCleanLivingBroker": "true"}
        ),
    ]


@CLEAN.row("ids-that-are-no-numbers", shipped=2009)
def _() -> int:
    return asked(java_set(), 1011, NAMES | {"brokerControllerIdsToClean": "1;x"})[0]


IDS = Table("3.11-3.12")


@IDS.row(
    "next-id-never-refuses",
    shipped=[
        (0, NAMES | {"nextBrokerId": "3"}, None),
        (0, {"clusterName": CLUSTER, "brokerName": "new", "nextBrokerId": "1"}, None),
    ],
)
def _() -> list[Shape]:
    rig = java_set()
    return [asked(rig, 1012, NAMES), asked(rig, 1012, NAMES | {"brokerName": "new"})]


@IDS.row("apply-echoes-on-both-ends", shipped=[(0, NAMES, None), (2014, NAMES, None)])
def _() -> list[Shape]:
    rig = Rig().lead()
    apply = NAMES | {"appliedBrokerId": "1"}
    return [asked(rig, 1013, apply | {"registerCheckCode": code}) for code in ("h:1;1", "h:2;1")]


@IDS.row("the-address-is-the-first-part-of-the-code", shipped="h:1")
def _() -> str:
    rig = Rig().lead()
    asked(rig, 1013, NAMES | {"appliedBrokerId": "1", "registerCheckCode": "h:1;17;x"})
    return rig.state.sets[SET].replicas[0].address


@IDS.row("null-code-or-id", shipped=[1, 1])
def _() -> list[int]:
    rig = Rig().lead()
    return [
        asked(rig, 1013, NAMES | {"appliedBrokerId": "1"})[0],
        asked(rig, 1013, NAMES | {"registerCheckCode": "h:1;1"})[0],
    ]


TABLES = (HEARTBEAT, ALTER, ELECT, REGISTER, INFO, METADATA, SYNC, NOTICE, CONFIG, CLEAN, IDS)


@pytest.mark.parametrize("row", [row for table in TABLES for row in table.rows])
def test_requests(row: Row | Shown) -> None:
    row.check()
