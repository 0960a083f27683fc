"""What brokers and controllers say to each other: Java's fields, ours beside them."""

import json
from dataclasses import replace

import pytest

from brokers.membership import controller_messages as messages
from brokers.membership.controller_messages import Introduction, LogPosition
from brokers.remoting.command import RemotingCommand
from processors.wire import requests
from tests.support.control_history import History

ME = Introduction("C", "b", "h:1", "h:2", "inc")


def test_a_heartbeat_has_javas_fields_and_is_oneway() -> None:
    command = messages.heartbeat(ME, 2, LogPosition(3, 100, 90), 10_000, 7)
    assert command.code == 904 and command.is_oneway
    assert command.ext == {
        "clusterName": "C",
        "brokerName": "b",
        "brokerAddr": "h:1",
        "brokerId": "2",
        "epoch": "3",
        "maxOffset": "100",
        "confirmOffset": "90",
        "heartbeatTimeoutMills": "10000",
        "electionPriority": "7",
        "regentIncarnation": "inc",
        "regentHaAddress": "h:2",
    }


def test_requests_carry_their_command_ids() -> None:
    made = [
        messages.apply_broker_id(ME, 2, "h:1;5", "id"),
        messages.register_broker(ME, 2, LogPosition(-1, 0, 0), False, "id", 9),
        messages.elect_master(ME, 2, "id", 9),
        messages.alter_sync_state_set(ME, 2, (3, 1), 4, 5, "id", 9),
    ]
    assert [each.code for each in made] == [1013, 1003, 1002, 1001] and {
        each.ext["regentCommandId"] for each in made
    } == {"id"}
    assert made[1].ext["regentClean"] == "false" and made[1].ext["regentLastEpoch"] == "-1"
    assert (
        json.loads(made[3].body) == {"syncStateSet": [1, 3], "syncStateSetEpoch": 4}
        and made[3].ext["masterEpoch"] == "5"
    )
    assert "regentLostMembers" not in made[3].ext
    lost = messages.alter_sync_state_set(ME, 2, (2,), 4, 5, "00" * 16, 9, (3, 1))
    assert lost.ext["regentLostMembers"] == "1,3"
    read = requests.alter_sync_state_set(lost, History().envelope(), lambda name, asker: ())
    assert (read.lost_members, read.new_sync_state_set, read.master_broker_id) == ((1, 3), (2,), 2)


def test_what_a_broker_says_of_itself_carries_its_check_code_once_it_has_one() -> None:
    position = LogPosition(3, 100, 90)
    for me, told in ((ME, None), (replace(ME, check_code="h:1;5;ab"), "h:1;5;ab")):
        made = [
            messages.heartbeat(me, 2, position, 1, 0),
            messages.register_broker(me, 2, position, True, "id", 9),
            messages.elect_master(me, 2, "id", 9),
            messages.alter_sync_state_set(me, 2, (1, 3), 4, 5, "id", 9),
        ]
        assert [request.ext.get("regentCheckCode") for request in made] == [told] * 4


def test_a_poll_says_which_start_asks() -> None:
    assert messages.replica_info(ME, 2).ext == {
        "brokerName": "b",
        "regentBrokerId": "2",
        "regentIncarnation": "inc",
    }


def test_a_notice_of_ours_is_read_whole() -> None:
    ext = {
        "masterBrokerId": "2",
        "masterAddress": "h:1",
        "masterEpoch": "5",
        "syncStateSetEpoch": "7",
        "regentMasterHaAddress": "h:9",
        "regentReplicas": "1=h:0;2=h:1",
        "regentMasterEpoch": "5",
        "regentAtRisk": "true",
    }
    notice = messages.role_notice(
        RemotingCommand.request(1008, ext, b'{"syncStateSet":[2,1],"syncStateSetEpoch":7}'),
        "notify",
    )
    assert notice is not None
    assert (
        notice.master_id,
        notice.master_address,
        notice.master_ha_address,
        notice.master_epoch,
    ) == (2, "h:1", "h:9", 5)
    assert (notice.members, notice.set_epoch, notice.replicas) == ((1, 2), 7, {1: "h:0", 2: "h:1"})
    assert notice.at_risk and notice.regent_master and notice.source == "notify"


def test_a_java_controllers_notice_is_completed_by_custom() -> None:
    ext = {
        "masterBrokerId": "2",
        "masterAddress": "h:10911",
        "masterEpoch": "5",
        "syncStateSetEpoch": "7",
    }
    notice = messages.role_notice(
        RemotingCommand.request(1008, ext, b'{"syncStateSet":[2]}'), "notify"
    )
    assert notice is not None and notice.master_ha_address == "h:10912" and not notice.regent_master
    assert (notice.members, notice.set_epoch) == ((2,), 7)


@pytest.mark.parametrize("change", [{"masterAddress": ""}, {"masterBrokerId": ""}])
def test_a_master_without_id_or_address_is_none(change: dict[str, str]) -> None:
    ext = {"masterBrokerId": "2", "masterAddress": "h:1", "masterEpoch": "5"} | change
    notice = messages.role_notice(RemotingCommand.request(1008, ext), "poll")
    assert (
        notice is not None
        and notice.master_id is None
        and notice.master_epoch == 5
        and notice.members is None
    )


def test_an_answer_without_an_epoch_is_no_notice() -> None:
    assert messages.role_notice(RemotingCommand.request(1003).reply(), "register") is None


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"syncStateSet":["1"]}', b'{"syncStateSet":7}']
)
def test_a_broken_body_leaves_the_set_unknown(body: bytes) -> None:
    ext = {"masterEpoch": "5", "masterBrokerId": "2", "masterAddress": "h:1"}
    notice = messages.role_notice(RemotingCommand.request(1008, ext, body), "notify")
    assert notice is not None and notice.members is None and notice.set_epoch is None


def test_a_refused_proposal_tells_the_present_set() -> None:
    ext = {
        "newSyncStateSetEpoch": "0",
        "regentSyncStateSet": "1,3",
        "regentSyncStateSetEpoch": "9",
        "regentMasterEpoch": "4",
    }
    answer = messages.read_alter_answer(RemotingCommand.request(1001).reply(2001, ext))
    assert (answer.code, answer.members, answer.set_epoch, answer.master_epoch) == (
        2001,
        (1, 3),
        9,
        4,
    )


@pytest.mark.parametrize(
    ("address", "ha_address"), [("h:10911", "h:10912"), ("h:65535", None), ("nowhere", None)]
)
def test_the_usual_ha_port_is_the_next_one(address: str, ha_address: str | None) -> None:
    assert messages.usual_ha_address(address) == ha_address


def test_a_java_master_under_a_controller_of_ours_is_known_as_such() -> None:
    """Its epoch entries may lag behind the controller's epoch, so its slaves must not insist on
    that one.
    """
    ext = {
        "masterBrokerId": "2",
        "masterAddress": "h:10911",
        "masterEpoch": "5",
        "regentMasterEpoch": "5",
    }
    notice = messages.role_notice(RemotingCommand.request(1008, ext), "notify")
    assert notice is not None and notice.master_ha_address == "h:10912" and not notice.regent_master


@pytest.mark.parametrize(
    "change", [{"masterEpoch": str(2**31)}, {"masterEpoch": "-2"}, {"masterBrokerId": str(2**31)}]
)
def test_a_notice_with_a_number_that_cannot_be_is_none(change: dict[str, str]) -> None:
    ext = {"masterBrokerId": "2", "masterAddress": "h:1", "masterEpoch": "5"} | change
    assert messages.role_notice(RemotingCommand.request(1008, ext), "notify") is None


def test_our_controllers_hear_of_the_highest_epoch_seen_the_set_epoch_and_the_minimum() -> None:
    position = LogPosition(3, 100, 90, 5, 12)
    me = Introduction("C", "b", "h:1", "h:2", "inc", 2)
    beat, register = (
        messages.heartbeat(me, 2, position, 1, 0),
        messages.register_broker(me, 2, position, True, "id", 9),
    )
    for request in (beat, register):
        assert (request.ext["regentEpochSeen"], request.ext["regentSetEpoch"]) == ("5", "12")
    assert register.ext["regentMinInSync"] == "2"
