"""The status document of a controller."""

import json

import pytest

from processors.controller import documents as status_document
from tests.support.controller_rig import SET, Log, Rig


def status(rig: Rig, **ext: str) -> dict:  # type: ignore[type-arg]
    answer = rig.request(19002, ext)
    assert answer is not None and answer.code == 0
    return json.loads(answer.body)


def test_a_controller_without_a_leader_is_not_ready() -> None:
    found = status(Rig())
    assert (found["ready"], found["role"], found["applied_offset"]) == (False, "standby", -1)
    assert "leader" not in found


def test_members_show_liveness_positions_and_membership() -> None:
    rig = Rig().lead().three()
    rig.alter("1,2", 2)
    rig.close_connection(3)
    members = status(rig)["sets"][SET]["members"]
    assert [(one["id"], one["alive"], one["reason"], one["in_set"]) for one in members] == [
        (1, True, "heartbeat", True),
        (2, True, "heartbeat", True),
        (3, False, "connection_closed", False),
    ]
    assert members[0]["max_offset"] == 100 and members[0]["ha_address"] == "b1:10912"


def test_a_standby_shows_whom_it_follows() -> None:
    log = Log()
    Rig("c1", log).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    found = status(standby)
    assert (found["role"], found["leader"], found["leader_address"], found["ready"]) == (
        "standby",
        "c1",
        "c1:9878",
        True,
    )


def test_who_needs_no_sets_gets_none_and_of_too_many_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig().lead().three()
    asked = status(rig, sets="false")
    assert "sets" not in asked and asked["ready"]
    assert status(rig)["sets_known"] == 1 and set(status(rig)["sets"]) == {SET}
    monkeypatch.setattr(status_document, "SETS_MAX", 0)
    assert (status(rig)["sets_known"], status(rig)["sets"]) == (1, {})


def test_one_set_is_told_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig().lead().three()
    monkeypatch.setattr(status_document, "SETS_MAX", 1)
    assert set(status(rig, name=SET)["sets"]) == {SET}
    assert (status(rig, name="another")["sets_known"], status(rig, name="another")["sets"]) == (
        1,
        {},
    )
