"""`regent controller import` between a Java controller's rules and a scripted leader of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.cli.main import main
from infra.migration.export_requests import Goal, drive_requests
from infra.processes.ports import pick_block
from tests.support.controller_document import document, replica
from tests.support.java_side import BrokerStub, JavaSide
from tests.support.scripted_leader import ScriptedLeader

IMPORT_SET = 19006


def with_a_set(java: JavaSide, *brokers: BrokerStub) -> None:
    """The Java controller runs broker-a: master 1 in its first epoch, both brokers in sync and
    alive.
    """
    goal = Goal("regent", "broker-a", 1, 3, {one.broker_id: one.address for one in brokers}, 1, 2)
    for ask in drive_requests(goal, 1):
        if ask.fields.get("masterEpoch") == "1" and (ask.body or {})["syncStateSetEpoch"] > 1:
            break
        assert java.model.send(ask) == ask.answers


def ours(*sets: tuple[str, dict[str, Any]], rules: int = 2) -> ScriptedLeader:
    return ScriptedLeader(document(sets=dict(sets), rules_version=rules))


def imported(fields: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Our document of a set after it was imported with `fields`."""
    replicas = [
        replica(one["broker_id"], address=one["address"], is_regent=False, alive=False)
        for one in fields["replicas"]
    ]
    return {
        "cluster": fields["cluster_name"],
        "tombstone": False,
        "next_broker_id": fields["next_broker_id"],
        "master": fields["master_broker_id"],
        "master_epoch": fields["master_epoch"],
        "sync_state_set": fields["sync_state_set"],
        "imported": True,
        "sync_state_set_epoch": fields["sync_state_set_epoch"],
        "highest_epoch_seen": fields["evidence_epoch"],
        "replicas": replicas,
        **changes,
    }


def run(leader: ScriptedLeader, java: JavaSide, *words: str) -> int:
    return main(
        ["controller", "import", "--from", java.address, "--controller", leader.address, *words]
    )


def test_a_dry_run_shows_checks_and_steps_and_writes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = BrokerStub(1, True, epoch=1), BrokerStub(2, False, epoch=1)
    with ours().serving() as leader, JavaSide().serving(one, two) as java:
        with_a_set(java, one, two)
        assert run(leader, java, "--sets", "broker-a", "--dry-run") == 0
        text = capsys.readouterr().out
        assert leader.codes() == []
        assert f"mqadmin updateBrokerConfig -b {one.address} -k controllerAddr" in text
        assert "set broker-a: can be imported: master 1, epoch 1, in sync 1,2 (set epoch 2)" in text


def test_sets_are_written_with_ids_epochs_and_addresses_and_a_second_run_writes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = BrokerStub(1, True, epoch=1), BrokerStub(2, False, epoch=1)
    with ours().serving() as leader, JavaSide().serving(one, two) as java:
        with_a_set(java, one, two)
        assert run(leader, java, "--sets", "broker-a") == 0
        assert leader.codes() == [IMPORT_SET]
        fields = leader.bodies()[0]
        assert (
            fields["master_broker_id"],
            fields["master_epoch"],
            fields["sync_state_set"],
            fields["sync_state_set_epoch"],
        ) == (1, 1, [1, 2], 2)
        assert {entry["broker_id"]: entry["address"] for entry in fields["replicas"]} == {
            1: one.address,
            2: two.address,
        }
        assert (fields["cluster_name"], fields["next_broker_id"], fields["source"]) == (
            "regent",
            3,
            java.address,
        )
        leader.shown = document(sets={"broker-a": imported(fields)}, rules_version=2)
        capsys.readouterr()
        assert run(leader, java, "--sets", "broker-a", "--json") == 0
        assert leader.codes() == [IMPORT_SET]
        assert json.loads(capsys.readouterr().out)["sets"]["broker-a"]["result"] == "here already"


def test_a_set_that_is_not_sound_or_not_known_stops_everything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = BrokerStub(1, True, epoch=1), BrokerStub(2, False, epoch=7)
    with ours().serving() as leader, JavaSide().serving(one, two) as java:
        with_a_set(java, one, two)
        assert run(leader, java, "--sets", "broker-a,broker-x") == 1
        assert leader.codes() == []
        text = capsys.readouterr().out
        assert (
            ("another controller") in text
            and "knows no such set" in text
            and "nothing was written" in text
        )


def test_old_rules_refuse_with_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with ours(rules=1).serving() as leader, JavaSide().serving() as java:
        assert run(leader, java, "--sets", "broker-a") == 1
        assert "regent controller upgrade" in capsys.readouterr().out


def test_without_names_it_says_how_to_name_them(capsys: pytest.CaptureFixture[str]) -> None:
    with ours().serving() as leader, JavaSide().serving() as java:
        assert run(leader, java) == 2
        assert "--namesrv" in capsys.readouterr().err


def test_a_name_server_that_knows_no_set_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "infra.migration.java_controller.set_names", lambda name_server, timeout_ms: {}
    )
    with ours().serving() as leader, JavaSide().serving() as java:
        assert run(leader, java, "--namesrv", "127.0.0.1:9876") == 1
    assert "name server 127.0.0.1:9876 knows no broker set" in capsys.readouterr().err


def proven(one: BrokerStub, two: BrokerStub, *words: str, source: str | None = None) -> int:
    fields = {
        "cluster_name": "regent",
        "next_broker_id": 3,
        "master_broker_id": 1,
        "master_epoch": 4,
        "sync_state_set": [1, 2],
        "sync_state_set_epoch": 2,
        "evidence_epoch": 4,
        "replicas": [
            {"broker_id": 1, "address": one.address},
            {"broker_id": 2, "address": two.address},
        ],
    }
    with ours(("broker-a", imported(fields))).serving() as leader:
        source = source or f"127.0.0.1:{pick_block(1)}"
        return main(
            [
                "controller",
                "import",
                "--from",
                source,
                "--check",
                "--controller",
                leader.address,
                *words,
            ]
        )


def test_afterwards_the_brokers_prove_it(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = BrokerStub(1, True), BrokerStub(2, False)
    with JavaSide().serving(one, two) as java:
        assert proven(one, two) == 0
        assert "0 of 2 brokers have arrived" in capsys.readouterr().out
        assert proven(one, two, source=java.address) == 1
        assert "still answers" in capsys.readouterr().out


def test_a_failover_in_between_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = BrokerStub(1, False, epoch=5), BrokerStub(2, True, epoch=5)
    with JavaSide().serving(one, two):
        assert proven(one, two, "--json") == 1
    found = json.loads(capsys.readouterr().out)["sets"]["broker-a"]["checks"]
    assert {entry["name"] for entry in found if not entry["ok"]} >= {
        "master serves",
        "epochs",
        "members",
    }
