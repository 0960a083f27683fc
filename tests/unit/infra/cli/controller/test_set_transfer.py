"""`regent controller transfer SET [ID]`: the set's master is asked, and what came of it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.controller_document import broker_set, document, replica
from tests.support.scripted_leader import ScriptedLeader

DONE = {"masterBrokerId": "2", "masterAddress": "h:2", "masterEpoch": "5"}


@pytest.fixture
def leader() -> Iterator[ScriptedLeader]:
    """Controller and master in one: the set's master has the controller's address."""
    with ScriptedLeader().serving() as one:
        show(one, broker_set())
        one.answers[19012] = (0, DONE, "")
        yield one


def show(leader: ScriptedLeader, one: dict[str, Any]) -> None:
    one["replicas"] = [
        {**each, "address": leader.address} if each["id"] == 1 else each for each in one["replicas"]
    ]
    leader.shown = document(sets={"broker-a": one})


def run(leader: ScriptedLeader, *words: str) -> int:
    return main.main(["controller", "transfer", *words, "--controller", leader.address])


@pytest.mark.parametrize(("words", "ext"), [((), {}), (("2",), {"targetBrokerId": "2"})])
def test_the_master_of_the_set_is_asked_to_hand_over(
    leader: ScriptedLeader,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    ext: dict[str, str],
) -> None:
    assert run(leader, "broker-a", *words) == EXIT_DONE
    assert leader.codes() == [19012] and leader.heard[0].ext == ext
    assert capsys.readouterr().out == (
        "set broker-a: replica 2 is master at h:2, epoch 5 (before: replica 1)\n"
    )


def test_the_result_as_a_document(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "broker-a", "--json") == EXIT_DONE
    assert json.loads(capsys.readouterr().out) == {
        "set": "broker-a",
        "result": "handed over",
        "master": 2,
        "master_address": "h:2",
        "master_epoch": 5,
        "previous": 1,
    }


def test_who_is_master_already_stays(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(leader, "broker-a", "1") == EXIT_DONE
    assert (
        capsys.readouterr().out == ("set broker-a: replica 1 is master already, epoch 4\n")
        and leader.heard == []
    )


def test_a_refusal_ends_with_1_and_the_masters_reason(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.answers[19012] = (1, {}, "no other member is in sync")
    assert run(leader, "broker-a") == EXIT_FAILED
    assert "mastership not handed over: no other member is in sync" in capsys.readouterr().err


def test_a_master_of_another_kind_is_told_with_the_other_way(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str]
) -> None:
    leader.answers[19012] = (3, {}, "")
    assert run(leader, "broker-a") == EXIT_FAILED
    assert "'regent controller elect broker-a ID'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("broker-a", "9"), ("broker-x", "1"), ("broker-x",)])
def test_what_is_not_there_is_wrong_usage(leader: ScriptedLeader, words: tuple[str, ...]) -> None:
    assert run(leader, *words) == EXIT_USAGE and leader.heard == []


@pytest.mark.parametrize(
    "changed", [{"master": None}, {"replicas": [replica(1, alive=False), replica(2)]}]
)
def test_without_a_living_master_nobody_can_hand_over(
    leader: ScriptedLeader, capsys: pytest.CaptureFixture[str], changed: dict[str, Any]
) -> None:
    show(leader, broker_set(**changed))
    assert run(leader, "broker-a") == EXIT_FAILED
    assert "regent controller elect broker-a" in capsys.readouterr().err and leader.heard == []
