"""Answers as RocketMQ 5.3.3 gave them: a recorded life is replayed against the core, and rows of
RULES 3.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.remoting import fastjson
from brokers.remoting.codec import FrameDecoder
from brokers.remoting.command import RemotingCommand
from processors.wire import answers
from tests.support.controller_rig import SET, Rig

GOLDEN = Path(__file__).parents[3] / "golden" / "wire"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def frame(line: dict[str, Any]) -> RemotingCommand:
    (command,) = FrameDecoder().feed(bytes.fromhex(line["raw_hex"]))
    return command


def first_life() -> list[dict[str, Any]]:
    """The conversation up to the operator's election, which Regent decides by rules of its own
    (design S7).
    """
    return lines("../controller/broker-life.jsonl")


def test_a_recorded_life_of_java_brokers_is_answered_alike() -> None:
    rig = Rig().lead()
    waiting: dict[tuple[int, int], RemotingCommand | None] = {}
    compared: dict[int, int] = {}
    for line in first_life():
        rig.now_ms = max(rig.now_ms, 10_000 + int(line["t"] * 1000))
        command = frame(line)
        key = (line["conn"], command.opaque)
        if not command.is_response:
            # Repeats of the same shape were dropped from the recording: beat in between.
            for broker in range(3):
                if rig.state.sets.get("g") and rig.state.sets["g"].replica(broker + 1):
                    beat(rig, broker)
            waiting[key] = (command, ask(rig, line["conn"], command))  # type: ignore[assignment]
            continue
        if key not in waiting:
            continue
        request, ours = waiting.pop(key)  # type: ignore[misc]
        if request.code == 1005:
            continue  # Names of the recorded controller.
        assert ours is not None, line
        assert ours.code == command.code, (line, ours)
        assert command.ext.items() <= ours.ext.items(), (line, ours.ext)
        assert set(ours.ext) - set(command.ext) <= regent_fields(ours), line
        theirs = fastjson.loads(command.body) if command.body else None
        assert without_mqadmins_copy(fastjson.loads(ours.body) if ours.body else None) == theirs, (
            line
        )
        compared[request.code] = compared.get(request.code, 0) + 1
    assert set(compared) >= {1001, 1002, 1003, 1004, 1012, 1013}, compared


def without_mqadmins_copy(body: Any) -> Any:
    """The member group stands once more at the top, where mqadmin looks for it (RULES
    12).
    """
    if not isinstance(body, dict) or "brokerMemberGroup" not in body:
        return body
    group = body["brokerMemberGroup"]
    assert {key: body[key] for key in group} == group
    return {key: value for key, value in body.items() if key not in group}


def beat(rig: Rig, broker: int) -> None:
    address = f"127.0.0.1:{25911 + 10 * broker}"
    ext = {
        "clusterName": "DefaultCluster",
        "brokerName": "g",
        "brokerId": str(broker + 1),
        "brokerAddr": address,
        "epoch": "-1",
        "maxOffset": "0",
        "heartbeatTimeoutMills": "1000000",
    }
    rig.request(904, ext, conn=1000 + broker, oneway=True)


def ask(rig: Rig, conn: int, command: RemotingCommand) -> RemotingCommand | None:
    # The recording proxy gave every broker an address of its own; brokers sent what they listen on.
    ext = {
        name: value.replace("127.0.0.1:209", "127.0.0.1:259") for name, value in command.ext.items()
    }
    return rig.request(
        command.code, ext, command.body, conn=conn, oneway=command.is_oneway, host="127.0.0.1"
    )


def regent_fields(response: RemotingCommand) -> set[str]:
    return {name for name in response.ext if name.startswith("regent")}


def test_a_follower_answers_as_recorded_when_it_knows_no_leader() -> None:
    refused = next(line for line in lines("follower-controller.jsonl") if line["code"] == 2007)
    theirs = frame(refused)
    ours = answers.not_leader(RemotingCommand.request(1004))
    assert (ours.code, ours.remark, ours.ext, ours.body) == (
        theirs.code,
        theirs.remark,
        theirs.ext,
        theirs.body,
    )


def test_the_role_notice_has_the_recorded_fields() -> None:
    recorded = frame(lines("controller-broker.jsonl")[0])
    rig = Rig().lead().three()
    ours = answers.role_notice(rig.state, rig.state.sets[SET], at_risk=False)
    assert ours.is_oneway and ours.code == recorded.code == 1008
    assert set(ours.ext) - regent_fields(ours) == set(recorded.ext)
    assert set(fastjson.loads(ours.body)) == set(fastjson.loads(recorded.body))  # type: ignore[arg-type]


@pytest.fixture
def rig() -> Rig:
    return Rig().lead().three()


def test_an_election_that_keeps_the_master_has_header_and_body(rig: Rig) -> None:
    answer = rig.elect(2)
    assert answer.code == 2011
    assert answer.ext["masterBrokerId"] == "1" and answer.ext["masterAddress"] == "b1:10911"
    assert json.loads(answer.body) == {"syncStateSet": [1, 2, 3]}


def test_an_election_answers_with_the_member_group(rig: Rig) -> None:
    answer = rig.elect(2, designate=True)
    assert answer.code == 0, answer.remark
    body = json.loads(answer.body)
    assert body["brokerMemberGroup"] == {
        "brokerAddrs": {"1": "b1:10911", "2": "b2:10911", "3": "b3:10911"},
        "brokerName": "a",
        "cluster": "C",
    }
    assert answer.ext["masterBrokerId"] == "2"


def test_an_election_in_an_unknown_set_has_an_empty_header() -> None:
    answer = Rig().lead().elect(1)
    assert (answer.code, answer.ext, answer.body) == (2010, {}, b"")


@pytest.mark.parametrize(
    ("members", "base", "master", "epoch", "code"),
    [
        ("1,2,3", 0, 1, None, 2013),  # nothing to alter comes before every fence
        ("1,2", 2, 2, None, 2002),
        ("1,2", 2, 1, 99, 2000),
        ("1,2", 99, 1, None, 2001),
        ("1,2,9", 2, 1, None, 2003),
        ("2,3", 2, 1, None, 2013),
    ],
)
def test_a_refused_alter_says_epoch_0_and_has_no_body(
    rig: Rig, members: str, base: int, master: int, epoch: int | None, code: int
) -> None:
    answer = rig.alter(members, base, master, epoch)
    assert (answer.code, answer.ext["newSyncStateSetEpoch"], answer.body) == (code, "0", b"")
    assert answer.remark and answer.ext["regentSyncStateSet"] == "1,2,3"


def test_an_accepted_alter_has_the_new_epoch_in_header_and_body(rig: Rig) -> None:
    answer = rig.alter("1,3", 2)
    assert answer.code == 0 and answer.ext["newSyncStateSetEpoch"] == "3"
    assert json.loads(answer.body) == {"syncStateSet": [1, 3], "syncStateSetEpoch": 3}


def test_a_member_whose_connection_closed_is_not_alive(rig: Rig) -> None:
    rig.alter("1,3", 2)
    rig.close_connection(2)
    assert rig.alter("1,2,3", 3).code == 2006


def test_a_refused_id_echoes_the_names_and_not_the_next_id(rig: Rig) -> None:
    ext = {
        "clusterName": "C",
        "brokerName": "a",
        "appliedBrokerId": "1",
        "registerCheckCode": "other:1;1",
    }
    answer = rig.request(1013, ext)
    assert answer is not None
    assert (answer.code, answer.ext) == (2014, {"clusterName": "C", "brokerName": "a"})


def test_a_registration_of_an_unknown_set_echoes_the_names_without_a_body(rig: Rig) -> None:
    ext = {"clusterName": "C", "brokerName": "new", "brokerId": "1", "brokerAddress": "h:1"}
    answer = rig.request(1003, ext)
    assert answer is not None
    assert (answer.code, answer.ext, answer.body) == (
        2010,
        {"clusterName": "C", "brokerName": "new"},
        b"",
    )


def test_a_registration_names_no_master_that_is_dead(rig: Rig) -> None:
    rig.alter("1", 2)
    rig.close_connection(1)
    answer = rig.register(2)
    assert answer.code == 0 and "masterBrokerId" not in answer.ext
    assert json.loads(answer.body)["syncStateSet"] == [1]


def test_cleaning_has_code_and_remark_only(rig: Rig) -> None:
    refused = rig.request(1011, {"clusterName": "C", "brokerName": "a"})
    assert refused is not None and (refused.code, refused.ext, refused.body) == (2009, {}, b"")
    nonsense = rig.request(
        1011, {"clusterName": "C", "brokerName": "a", "brokerControllerIdsToClean": "1;x"}
    )
    assert nonsense is not None and nonsense.code == 2009


def test_metadata_is_served_by_every_node() -> None:
    leader = Rig("c1", None, {"c2": "c2:9878"}).lead()
    answer = leader.request(1005)
    assert answer is not None
    assert answer.ext == {
        "group": "cluster",
        "isLeader": "true",
        "controllerLeaderId": "c1",
        "controllerLeaderAddress": "c1:9878",
        "peers": "c1:c1:9878;c2:c2:9878;",
    }
    standby = Rig("c2", None, {"c1": "c1:9878"})
    lonely = standby.request(1005)
    assert lonely is not None and lonely.ext["isLeader"] == "false"
    assert "controllerLeaderAddress" not in lonely.ext


def test_a_registration_under_another_cluster_name_looks_for_the_master_there(rig: Rig) -> None:
    ext = {"clusterName": "Other", "brokerName": SET, "brokerId": "2", "brokerAddress": "b2:10911"}
    answer = rig.request(1003, ext, conn=2)
    assert answer is not None and answer.code == 0
    assert (answer.ext["clusterName"], answer.ext.get("masterBrokerId")) == ("Other", None)
    assert json.loads(answer.body)["syncStateSet"] == [1, 2, 3]
