from __future__ import annotations

import pytest

from infra.doctor import controllers
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN
from infra.processes import status
from tests.support.brokers import free_port
from tests.support.controller_document import document
from tests.support.scripted_leader import ScriptedLeader

COMMANDS = Commands(where=("--controller", "h:1;h:2"))


@pytest.mark.parametrize(
    ("off_ms", "verdict"),
    [(0, OK), (900, OK), (-5_000, WARN), (5_000, WARN), (-3_600_000, FAIL), (3_600_000, FAIL)],
)
def test_a_clock_is_compared_with_ours(off_ms: int, verdict: str) -> None:
    (one,) = controllers.skew("c1", 1_000_000_000 + off_ms, 1_000_000_000, 1_000_000_000)
    assert one.verdict == verdict


def test_the_time_of_the_question_is_no_difference_and_an_old_release_tells_no_time() -> None:
    assert controllers.skew("c1", 5_000, 1_000, 9_000)[0].verdict == OK
    assert controllers.skew("c1", None, 0, 0) == []


def test_a_controller_that_is_gone_is_a_failure_and_nothing_else_is_asked() -> None:
    (one,), _ = controllers.check({"c1": f"127.0.0.1:{free_port()}"}, COMMANDS)
    assert one.verdict == FAIL and "Connection refused" in one.text


def test_a_leader_that_is_told_but_not_reached_is_what_a_broker_would_see() -> None:
    gone = f"127.0.0.1:{free_port()}"
    with ScriptedLeader().serving() as one:
        one.answers[1005] = (0, {"controllerLeaderAddress": gone}, "")
        (found,) = controllers.leaders({"c1": one.address}, COMMANDS)
    assert (
        found.verdict == FAIL
        and (f"brokers to {gone}, which is not reached from here") in found.text
    )
    assert "advertise" in found.way_out


def test_leaders_that_differ_and_leaders_that_lack_are_told() -> None:
    with ScriptedLeader().serving() as one, ScriptedLeader().serving() as two:
        one.answers[1005] = (0, {"controllerLeaderAddress": one.address}, "")
        two.answers[1005] = (0, {"controllerLeaderAddress": two.address}, "")
        assert [
            found.verdict
            for found in controllers.leaders({"c1": one.address, "c2": two.address}, COMMANDS)
        ] == [OK, OK, WARN]
        two.answers[1005] = (0, {}, "")
        found = controllers.leaders({"c1": one.address, "c2": two.address}, COMMANDS)
    assert [entry.verdict for entry in found] == [OK, FAIL] and found[1].text == (
        "c2 name(s) no leader"
    )


def test_mixed_releases_are_a_warning_and_missing_rules_a_failure() -> None:
    mixed = controllers.releases(document(), COMMANDS)
    assert [one.verdict for one in mixed] == [WARN] and (
        "c1 0.2.0 (rules 1,2); c2 0.1.0 (rules 1)"
    ) in mixed[0].text
    assert [one.verdict for one in controllers.releases(document(rules_version=2), COMMANDS)] == [
        FAIL,
        WARN,
    ]


def test_rules_that_everybody_has_may_be_activated() -> None:
    same = [{**one, "release": "0.2.0", "rules": "1,2"} for one in document()["controllers"]]
    (one,) = controllers.releases(document(controllers=same), COMMANDS)
    assert one.verdict == WARN and one.command.startswith("regent controller upgrade")
    (one,) = controllers.releases(document(controllers=same, rules_version=2), COMMANDS)
    assert one.verdict == OK


def test_a_controller_that_is_none_of_ours_is_told_apart_from_a_silent_one() -> None:
    with ScriptedLeader().serving() as one:
        one.answers[19002] = (3, {}, "request type 19002 not supported")
        (found,), _ = controllers.check({"java": one.address}, COMMANDS)
    assert found.verdict == FAIL and "none of Regent's" in found.text


def test_an_address_of_another_kind_of_server_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        status,
        "ask_all",
        lambda addresses, sets: {one: {"kind": "namesrv", "ready": True} for one in addresses},
    )
    (found,), _ = controllers.check({"n1": "127.0.0.1:1"}, COMMANDS)
    assert (found.verdict, found.text) == (FAIL, "n1 at 127.0.0.1:1 is a namesrv")


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ({}, ""),
        ({"leader_changes": 5}, ""),
        ({"leader_changes": 6}, "c1 saw 6 changes of the leader within ten minutes"),
        ({"leader_unlisted": True}, "c9 leads and is not among the peers of c1"),
    ],
)
def test_leaders_that_change_and_leaders_that_nobody_listed_fail(
    told: dict[str, object], what: str
) -> None:
    found = controllers.quarrel("c1", {"leader": "c9", "leader_address": "h:9", **told}, COMMANDS)
    assert [(one.verdict, one.text.startswith(what)) for one in found] == (
        [(FAIL, True)] if what else []
    )
    if "leader_unlisted" in told:
        assert found[0].way_out.startswith('Add to [peers] of c1: c9 = "h:9"')


def test_without_a_leader_the_log_is_looked_at_and_no_secret_is_shown() -> None:
    commands = Commands(kafka={"bootstrap.servers": "k:1", "sasl.password": "hidden"})
    with ScriptedLeader().serving() as one:
        (found,) = controllers.leaders({"c1": one.address}, commands)
    assert found.verdict == FAIL and found.text == "c1 name(s) no leader"
    assert found.command.startswith("regent topics check") and "hidden" not in found.command
