from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.controller_document import broker_set, document, replica
from tests.support.scripted_leader import ScriptedLeader

ELECTED = {
    "masterBrokerId": "2",
    "masterAddress": "h:2",
    "masterEpoch": "5",
    "syncStateSetEpoch": "10",
}


@pytest.fixture
def leader() -> Iterator[ScriptedLeader]:
    with ScriptedLeader().serving() as one:
        one.answers[1002] = (0, ELECTED, "")
        yield one


def run(leader: ScriptedLeader, *words: str) -> int:
    return main.main(["controller", *words, "--controller", leader.address])


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_the_named_replica_becomes_master(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "elect", "broker-a", "2", "--json") == EXIT_DONE
    assert said(capsys) == {
        "set": "broker-a",
        "result": "elected",
        "master": 2,
        "master_epoch": 5,
        "master_address": "h:2",
        "sync_state_set_epoch": 10,
        "at_risk": False,
    }
    ext = leader.heard[0].ext
    assert (ext["clusterName"], ext["brokerId"], ext["designateElect"]) == ("regent", "2", "true")


def test_without_an_id_nobody_is_designated_and_a_living_master_is_kept(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.answers[1002] = (2011, ELECTED, "the current master is kept")
    assert run(leader, "elect", "broker-a") == EXIT_DONE
    text = capsys.readouterr().out
    assert text == (
        "set broker-a: replica 2 stays master at h:2, epoch 5; name an ID to move the mastership\n"
    )
    assert (leader.heard[0].ext["brokerId"], leader.heard[0].ext["designateElect"]) == (
        "-1",
        "false",
    )


def test_a_mastership_at_risk_is_said(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.answers[1002] = (0, {**ELECTED, "regentAtRisk": "true"}, "")
    assert run(leader, "elect", "broker-a", "2") == EXIT_DONE
    assert capsys.readouterr().out.endswith("AT RISK: acknowledged messages may be missing\n")


def test_a_refused_election_ends_with_1_and_the_reason(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.answers[1002] = (2012, {}, "NOTHING_ELECTABLE at offset 7")
    assert run(leader, "elect", "broker-a", "2") == EXIT_FAILED
    assert (
        "election of broker-a: NOTHING_ELECTABLE at offset 7 (code 2012"
    ) in capsys.readouterr().err


def test_a_replica_that_is_not_there_is_wrong_usage(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "elect", "broker-a", "9") == EXIT_USAGE
    assert "has no replica 9. It has 1,2,3;" in capsys.readouterr().err and leader.heard == []


def test_an_unclean_election_needs_a_yes(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "elect", "broker-a", "2", "--unclean") == EXIT_USAGE
    assert "--yes" in capsys.readouterr().err and leader.heard == []


def test_an_unclean_election_sets_the_setting_and_takes_it_back(leader: ScriptedLeader) -> None:
    assert run(leader, "elect", "broker-a", "2", "--unclean", "--yes") == EXIT_DONE
    assert leader.codes() == [19004, 1002, 19004]
    assert leader.bodies() == [
        {"settings": {"enableElectUncleanMaster": value}} for value in ("true", "false")
    ]


def test_the_setting_is_taken_back_when_the_election_is_refused(leader: ScriptedLeader) -> None:
    leader.answers[1002] = (2012, {}, "")
    assert run(leader, "elect", "broker-a", "2", "--unclean", "--yes") == EXIT_FAILED
    assert leader.codes() == [19004, 1002, 19004]


def test_a_setting_that_is_still_on_is_told_with_the_way_to_take_it_back(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.then[19004] = [(0, {}, ""), (1, {}, "no answer from the log")]
    assert run(leader, "elect", "broker-a", "2", "--unclean", "--yes") == EXIT_FAILED
    said = capsys.readouterr().err
    assert (
        "enableElectUncleanMaster is still true"
    ) in said and "'regent controller config set enableElectUncleanMaster=false'" in said


def test_an_unclean_election_is_refused_while_another_set_waits_for_a_master(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.shown["sets"]["broker-b"] = broker_set(master=None)
    assert run(leader, "elect", "broker-a", "2", "--unclean", "--yes") == EXIT_FAILED
    assert "broker-b have no living master" in capsys.readouterr().err and leader.heard == []


def test_a_controller_that_leads_already_is_left_alone(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "transfer", "c1") == EXIT_DONE
    assert capsys.readouterr().out == "c1 leads already, term 3\n" and leader.heard == []


def test_leadership_is_transferred_to_the_named_controller(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "transfer", "c2", "--json") == EXIT_DONE
    assert set(said(capsys)) == {"leader", "leader_address", "term", "previous", "result"}
    assert leader.codes() == [19008] and leader.heard[0].ext["controllerId"] == "c2"


def test_an_unknown_controller_is_wrong_usage(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "transfer", "c9") == EXIT_USAGE
    assert capsys.readouterr().err == "regent: no controller 'c9' is known. There are c1, c2.\n"


def test_living_replicas_are_not_cleaned_unawares(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "clean", "broker-a", "2", "--yes") == EXIT_FAILED
    assert (
        "replicas 2 of set broker-a are alive. Stop them first, or add --living."
    ) in capsys.readouterr().err
    assert run(leader, "clean", "broker-a", "2", "--yes", "--living") == EXIT_DONE
    assert leader.heard[0].ext["isCleanLivingBroker"] == "true"


def test_cleaning_needs_a_yes(leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(leader, "clean", "broker-a", "3") == EXIT_USAGE
    assert (
        "The controllers will forget replicas 3 of set broker-a: that needs a yes"
    ) in capsys.readouterr().err
    assert leader.heard == []


def test_unclaimed_ids_are_found_and_cleaned(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "clean", "broker-a", "--unclaimed", "--yes", "--json") == EXIT_DONE
    assert said(capsys) == {"set": "broker-a", "cleaned": [3]}
    assert leader.heard[0].ext["brokerControllerIdsToClean"] == "3"


def test_a_whole_set_is_cleaned_without_ids(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.shown = document(sets={"broker-a": broker_set(replicas=[replica(1, alive=False)])})
    assert run(leader, "clean", "broker-a", "--yes") == EXIT_DONE
    assert capsys.readouterr().out == (
        "the controllers have forgotten the whole set broker-a with 1 replicas\n"
    )
    assert "brokerControllerIdsToClean" not in leader.heard[0].ext


@pytest.mark.parametrize(
    "words", [("broker-a", "8"), ("broker-x",), ("broker-a", "3", "--unclaimed")]
)
def test_what_cannot_be_meant_is_wrong_usage(
    words: tuple[str, ...], leader: ScriptedLeader
) -> None:
    assert run(leader, "clean", *words, "--yes") == EXIT_USAGE
    assert leader.heard == []
