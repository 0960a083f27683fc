"""Answers to reads, rows of RULES 3.5, 3.7 and 3.11."""

import json

import pytest

from brokers.remoting.command import RemotingCommand
from processors.fold.state import ControllerState
from processors.wire import answers
from tests.support.controller_rig import SET, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig().lead().three()


def test_replica_info_always_has_the_master_epoch(rig: Rig) -> None:
    rig.request(
        1013,
        {
            "clusterName": "C",
            "brokerName": "b",
            "appliedBrokerId": "1",
            "registerCheckCode": "h:1;1",
        },
    )
    fresh = rig.request(1004, {"brokerName": "b"})
    assert fresh is not None and fresh.code == 0
    assert fresh.ext["masterEpoch"] == "0" and "masterBrokerId" not in fresh.ext
    assert json.loads(fresh.body) == {"syncStateSet": [], "syncStateSetEpoch": 0}
    unknown = rig.request(1004, {"brokerName": "nosuch"})
    assert unknown is not None and unknown.code == 2008


def test_a_start_that_a_late_registration_of_the_former_one_has_replaced_is_told_to_register(
    rig: Rig,
) -> None:
    def ask(incarnation: str) -> int:
        answer = rig.request(
            1004, {"brokerName": SET, "regentBrokerId": "2", "regentIncarnation": incarnation}
        )
        assert answer is not None
        return answer.code

    assert ask("life-2") == 0
    rig.register(2, "the next life")
    assert (ask("the next life"), ask("life-2")) == (0, 2010)
    java = rig.request(1004, {"brokerName": SET})
    assert java is not None and java.code == 0


def test_a_broker_id_of_thousands_of_digits_is_nobodys(rig: Rig) -> None:
    """Python refuses to read it, and an error while a record is applied would end the
    controller.
    """
    answer = rig.request(1004, {"brokerName": SET, "regentBrokerId": "9" * 5_000})
    assert answer is not None and answer.code == 0


def test_sync_state_data_lists_replicas_inside_and_outside_the_set(rig: Rig) -> None:
    rig.alter("1,2", 2)
    answer = rig.request(1006, body=b'["a","nosuch"]')
    assert answer is not None and answer.ext == {}
    table = json.loads(answer.body)["replicasInfoTable"]
    assert list(table) == ["a"]
    assert [row["brokerId"] for row in table["a"]["inSyncReplicas"]] == [1, 2]
    assert table["a"]["notInSyncReplicas"] == [
        {"alive": True, "brokerAddress": "b3:10911", "brokerId": 3, "brokerName": "a"}
    ]
    assert (table["a"]["masterAddress"], table["a"]["masterBrokerId"]) == ("b1:10911", 1)


def test_the_next_id_of_an_unknown_set_is_1() -> None:
    request = RemotingCommand.request(1012, {"clusterName": "C", "brokerName": "x"})
    answer = answers.next_broker_id(request, ControllerState())
    assert answer.ext == {"clusterName": "C", "brokerName": "x", "nextBrokerId": "1"}
