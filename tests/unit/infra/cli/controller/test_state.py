from __future__ import annotations

import pytest

from infra.cli import main
from infra.cli.controller.state import (
    _trouble,
    find_set,
    ids_lines,
    ids_of,
    notes_of,
    set_lines,
    sets_lines,
    status_lines,
)
from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem
from tests.support.controller_document import broker_set, document, replica


def test_nobody_there_is_told_per_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["controller", "sets", "--controller", "127.0.0.1:1"]) == EXIT_FAILED
    assert capsys.readouterr().err.startswith("regent: no controller answers (127.0.0.1:1: ")


def test_a_set_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(Problem) as raised:
        find_set(document(), "broker-b")
    assert raised.value.exit_code == EXIT_USAGE and raised.value.way_out == "Did you mean broker-a?"


def test_all_sets_are_a_line_each() -> None:
    lines = sets_lines({"broker-a": broker_set()})
    assert [line.split() for line in lines][1][:9] == [
        "broker-a",
        "regent",
        "1",
        "4",
        "1,2",
        "9",
        "3",
        "2",
        "4",
    ]
    assert lines[1].endswith("unclaimed ids; 17 repeated refusals")
    assert sets_lines({})[0].startswith("no broker sets yet")


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"master": None}, "NO MASTER"),
        ({"replicas": [replica(1, alive=False), replica(2)]}, "MASTER NOT ALIVE"),
        ({"at_risk": True}, "AT RISK: elected without all that was acknowledged"),
        (
            {"operator_needed": {"reason": "nobody lives", "way_out": "start it"}},
            "OPERATOR NEEDED: nobody lives. Way out: start it",
        ),
        ({"master_restarted": True}, "master restarted, election due"),
        ({"unclean_members": [2]}, "unclean members 2"),
        ({"remembered": [1]}, "may be elected too, holding everything: 1"),
        (
            {"uncertain": [1, 2]},
            "the log lost decisions about it, all have to report what they hold: 1,2",
        ),
        ({"tombstone": True}, "cleaned away"),
    ],
)
def test_what_is_wrong_with_a_set_is_said(changed: dict, note: str) -> None:  # type: ignore[type-arg]
    assert note in notes_of(broker_set(**changed))


def test_a_set_in_order_has_no_notes() -> None:
    assert notes_of(broker_set(replicas=[replica(1), replica(2)], repeated_refusals=[])) == []


def test_one_set_shows_each_replica_and_each_repeated_refusal() -> None:
    text = set_lines("broker-a", broker_set())
    assert text[0] == "set broker-a of cluster regent: master 1, epoch 4 (highest ever seen 4)"
    rows = {row.split()[0]: row.split() for row in text if row.startswith("  ")}
    assert rows["1"] == [
        "1",
        "master",
        "h:1",
        "h:1001",
        "yes",
        "heartbeat",
        "0.2",
        "s",
        "yes",
        "yes",
        "4",
        "900",
        "880",
        "-",
        "regent",
    ]
    assert rows["3"][1] == "unclaimed" and rows["3"][6] == "never"
    assert text[-1] == (
        "refused 17 times and recorded once: INVALID_REPLICAS, code 2003, last at "
        "2023-11-14T22:13:20Z"
    )


def test_a_priority_that_somebody_set_is_shown() -> None:
    assert (
        " 5 "
        in set_lines("a", broker_set(replicas=[replica(1, priority=5, is_regent=False)]))[5 - 1]
    )


def test_unclaimed_ids_come_with_the_way_to_clean_them() -> None:
    ids = ids_of(broker_set())
    assert ids == {
        "cluster": "regent",
        "next_broker_id": 4,
        "tombstone": False,
        "assigned": [
            {"id": 1, "address": "h:1", "alive": True},
            {"id": 2, "address": "h:2", "alive": True},
        ],
        "unclaimed": [{"id": 3, "address": "h:3"}],
    }
    lines = ids_lines({"broker-a": ids})
    assert (
        lines[0] == ("set broker-a: next id 4")
        and "'regent controller clean broker-a --unclaimed'" in lines[-1]
    )


def test_a_status_without_a_leader_still_shows_who_answers() -> None:
    one = {
        "id": "c1",
        "address": "h:1",
        "role": "standby",
        "answers": True,
        "alive": True,
        "release": "0.2.0",
        "rules": [1, 2],
        "ready": False,
        "applied_offset": 7,
        "end_offset": 10,
        "published_offset": None,
        "http_address": None,
    }
    view = {
        "cluster_id": "x",
        "term": 2,
        "leader": None,
        "leader_address": None,
        "rules_version": None,
        "applied_offset": 7,
        "controllers": [one, {**one, "id": "c2", "answers": False}],
        "problems": ["c2 at h:1 does not answer"],
    }
    lines = status_lines(view)
    assert "nobody leads" in lines[0] and lines[-1] == "problem: c2 at h:1 does not answer"
    assert lines[2].split() == ["c1", "h:1", "standby", "yes", "0.2.0", "1,2", "7", "2", "-", "-"]


def test_where_nobody_answers_there_is_no_cluster_to_tell_of_and_one_problem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["controller", "status", "--controller", "127.0.0.1:1"]) == EXIT_FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "no controller of a cluster answers"
    assert [line for line in lines if line.startswith("problem: ")] == lines[-1:] and (
        "no controller answers (127.0.0.1:1: "
    ) in lines[-1]


@pytest.mark.parametrize(
    ("answers", "ready", "problem"),
    [
        (True, True, None),
        (False, None, "c1 at h:1 does not answer"),
        (True, None, None),
        (True, False, "c1 at h:1 is not ready: it is starting, or hears no leader"),
    ],
)
def test_a_controller_that_cannot_serve_yet_is_a_problem(
    answers: bool, ready: bool | None, problem: str | None
) -> None:
    assert _trouble({"id": "c1", "address": "h:1", "answers": answers, "ready": ready}) == problem


def test_a_controller_without_the_log_is_a_problem_also_where_it_hears_a_leader() -> None:
    one = {"id": "c1", "address": "h:1", "answers": True, "ready": True, "log_answers": False}
    assert str(_trouble(one)).startswith("c1 at h:1 neither reads nor writes the log")
