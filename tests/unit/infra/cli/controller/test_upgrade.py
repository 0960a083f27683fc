from __future__ import annotations

import pytest

from infra.cli.controller.upgrade import lines_of, plan_of
from infra.controllers.admin import versions
from infra.problems import EXIT_USAGE, Problem
from tests.support.controller_document import document

BOTH = [
    {
        "id": "c1",
        "address": "h:1",
        "release": "0.2.0",
        "rules": "1,2",
        "role": "active",
        "alive": True,
    },
    {
        "id": "c2",
        "address": "h:2",
        "release": "0.2.0",
        "rules": [1, 2],
        "role": "standby",
        "alive": True,
    },
]


def test_versions_come_as_a_list_or_as_text() -> None:
    assert versions([1, 2]) == versions("1,2") == (1, 2)
    assert versions(None) == versions("") == ()


def test_the_newest_rules_are_the_aim() -> None:
    plan = plan_of(document(controllers=BOTH), None)
    assert (plan["active"], plan["to"], plan["blockers"]) == (1, 2, [])
    assert "rules 2 could be activated now" in lines_of(plan)[-1]


def test_a_controller_with_an_older_release_blocks_and_is_named() -> None:
    plan = plan_of(document(), None)
    assert plan["blockers"] == [
        "c2: release 0.1.0 has rules 1 only; install the newer release there and restart it"
    ]
    assert "rules 2 cannot be activated yet:" in lines_of(plan)


def test_an_old_leader_does_not_hide_that_others_have_newer_rules() -> None:
    old = {**BOTH[1], "release": "0.1.0", "rules": "1", "role": "active"}
    plan = plan_of(document(supported_rules=[1], controllers=[old, BOTH[0]]), None)
    assert plan["to"] == 2 and plan["blockers"][0].startswith("c2: release 0.1.0 has rules 1 only")


def test_a_controller_that_is_not_heard_blocks() -> None:
    plan = plan_of(document(controllers=[BOTH[0], {**BOTH[1], "alive": False}]), None)
    assert plan["blockers"][0].startswith("c2: is not heard")


def test_nothing_is_to_do_when_the_rules_are_active_whoever_is_down() -> None:
    plan = plan_of(document(rules_version=2, controllers=[BOTH[0], {**BOTH[1], "alive": False}]), 2)
    assert plan["active_already"] and plan["blockers"] == []
    assert lines_of(plan)[-1].startswith("nothing to do")


def test_there_is_no_way_down() -> None:
    with pytest.raises(Problem) as raised:
        plan_of(document(rules_version=2), 1)
    assert raised.value.exit_code == EXIT_USAGE and "do not go back to 1" in raised.value.what


def test_the_document_for_machines_keeps_its_shape() -> None:
    assert plan_of(document(controllers=BOTH), 2) == {
        "active": 1,
        "to": 2,
        "active_already": False,
        "blockers": [],
        "activated": False,
        "controllers": [
            {
                "id": "c1",
                "address": "h:1",
                "alive": True,
                "release": "0.2.0",
                "rules": [1, 2],
                "blocks": None,
            },
            {
                "id": "c2",
                "address": "h:2",
                "alive": True,
                "release": "0.2.0",
                "rules": [1, 2],
                "blocks": None,
            },
        ],
    }
