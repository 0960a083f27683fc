"""`regent controller export` between a scripted leader of ours and a Java controller's rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.cli.controller import export_sets
from infra.cli.main import main
from infra.migration.export_requests import Goal, drive_requests
from tests.support.controller_document import broker_set, document, replica
from tests.support.java_side import BrokerStub, JavaSide
from tests.support.scripted_leader import ScriptedLeader


def ours(*brokers: BrokerStub, **changes: Any) -> ScriptedLeader:
    replicas = [replica(one.broker_id, address=one.address, is_regent=False) for one in brokers]
    return ScriptedLeader(
        document(
            sets={
                "broker-a": broker_set(
                    replicas=replicas, next_broker_id=len(brokers) + 1, **changes
                )
            }
        )
    )


def run(leader: ScriptedLeader, java: JavaSide, *words: str) -> int:
    return main(
        ["controller", "export", "--to", java.address, "--controller", leader.address, *words]
    )


def test_a_dry_run_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = BrokerStub(1, True), BrokerStub(2, False)
    with JavaSide().serving(one, two) as java, ours(one, two).serving() as leader:
        assert run(leader, java, "--dry-run") == 0
        assert java.model.sets == {}
        assert (
            f"mqadmin updateBrokerConfig -b {one.address} -k controllerAddr -v '{java.address}'"
        ) in capsys.readouterr().out


def test_the_controller_is_driven_above_us_and_a_second_run_finds_it_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = BrokerStub(1, True), BrokerStub(2, False)
    with JavaSide().serving(one, two) as java, ours(one, two).serving() as leader:
        assert run(leader, java) == 0
        seen = java.model.seen("broker-a")
        assert seen is not None and seen.master_id is None and seen.sync_state_set == (1,)
        assert seen.master_epoch > 4 and seen.sync_state_set_epoch > 9 and seen.next_broker_id == 3
        assert {entry.broker_id: entry.address for entry in seen.replicas} == {
            1: one.address,
            2: two.address,
        }
        assert java.model.told == []
        capsys.readouterr()
        assert run(leader, java, "--json") == 0
        assert json.loads(capsys.readouterr().out)["sets"]["broker-a"]["presence"] == "done"
        assert java.model.seen("broker-a") == seen


def test_what_another_run_left_is_replaced_only_when_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = BrokerStub(1, True), BrokerStub(2, False)
    with JavaSide().serving(one, two) as java, ours(one, two).serving() as leader:
        for ask in drive_requests(Goal("regent", "broker-a", 2, 3, {1: "h:1", 2: "h:2"}, 4, 4), 1)[
            :6
        ]:
            java.model.send(ask)
        assert run(leader, java, "--replace") == 1
        assert "ends within half a minute" in capsys.readouterr().out
        java.model.alive.clear()
        assert run(leader, java) == 1
        assert "--replace" in capsys.readouterr().out
        assert run(leader, java, "--replace") == 0
        seen = java.model.seen("broker-a")
        assert seen is not None and seen.sync_state_set == (1,) and seen.master_epoch > 4


def test_a_controller_that_elects_unclean_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    one = BrokerStub(1, True)
    with (
        JavaSide(config={"enableElectUncleanMaster": "true"}).serving(one) as java,
        ours(one).serving() as leader,
    ):
        assert run(leader, java) == 1
        assert java.model.sets == {} and "switch it off" in capsys.readouterr().out


def test_afterwards_the_brokers_prove_it(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = BrokerStub(1, True), BrokerStub(2, False)
    with JavaSide().serving(one, two) as java:
        with ours(one, two).serving() as leader:
            assert run(leader, java) == 0
            assert run(leader, java, "--sets", "broker-a", "--check") == 1
            assert "still answer" in capsys.readouterr().out
        assert run(leader, java, "--sets", "broker-a", "--check") == 0
        assert "0 brokers have arrived, master none yet" in capsys.readouterr().out
        one.is_master, two.is_master = False, True
        assert run(leader, java, "--sets", "broker-a", "--check", "--json") == 1
        found = json.loads(capsys.readouterr().out)["sets"]["broker-a"]["checks"]
        assert [entry["name"] for entry in found if not entry["ok"]] == ["master serves"]


def test_a_long_way_is_refused_unless_allowed_and_then_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_sets, "TELL_EVERY_S", 0.0)
    one = BrokerStub(1, True)
    with JavaSide().serving(one) as java, ours(one).serving() as leader:
        assert run(leader, java, "--requests-max", "20") == 1
        assert java.model.sets == {} and "--requests-max" in capsys.readouterr().out
        assert run(leader, java, "--requests-max", "200", "--json") == 0
        told = capsys.readouterr()
        count = json.loads(told.out)["sets"]["broker-a"]["requests"]
        lines = [line for line in told.err.splitlines() if "requests, about" in line]
        assert lines and all(
            (f" of {count - 1} requests") in line and line.endswith("s left") for line in lines
        )
