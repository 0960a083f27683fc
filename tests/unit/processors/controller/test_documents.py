"""The status document of a controller."""

import json
from typing import Any

import pytest

from processors.controller import documents
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


def document(rig: Rig, name: str | None = None) -> dict[str, Any]:
    answer = rig.request(19003, {} if name is None else {"brokerName": name})
    assert answer is not None and answer.code == 0
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_state_settings_and_controllers_as_of_one_offset() -> None:
    rig = Rig("c1", Log(), {"c2": "c2:9878"}).lead().three()
    found = document(rig)
    assert (found["cluster_id"], found["term"], found["leader"]) == ("cluster", 1, "c1")
    assert (
        found["applied_offset"] == rig.folder.offset and found["digest"] == rig.folder.digest.hex()
    )
    assert (
        found["settings"]["effective"]["electMasterMaxRetryCount"] == "3"
        and found["settings"]["all"] == {}
    )
    assert [(one["id"], one["role"], one["alive"]) for one in found["controllers"]] == [
        ("c1", "active", True),
        ("c2", "standby", False),
    ]


def test_a_set_with_its_replicas_and_what_is_seen_of_them() -> None:
    rig = Rig().lead().three()
    found = document(rig, SET)["sets"]
    assert list(found) == [SET]
    one = found[SET]
    assert (one["master"], one["sync_state_set"], one["next_broker_id"], one["tombstone"]) == (
        1,
        [1, 2, 3],
        4,
        False,
    )
    first = one["replicas"][0]
    assert (
        first["id"],
        first["registered"],
        first["is_regent"],
        first["alive"],
        first["max_offset"],
    ) == (1, True, True, True, 100)
    assert one["repeated_refusals"] == []


def test_an_id_nobody_claimed_and_a_tombstone_are_listed() -> None:
    rig = Rig().lead()
    rig.request(
        1013,
        {
            "clusterName": "C",
            "brokerName": "x",
            "appliedBrokerId": "1",
            "registerCheckCode": "h:1;1",
        },
    )
    (replica,) = document(rig)["sets"]["x"]["replicas"]
    assert (
        not replica["registered"]
        and replica["reason"] == "never_seen"
        and replica["silent_ms"] == -1
    )
    rig.request(1011, {"clusterName": "C", "brokerName": "x"})
    found = document(rig)["sets"]["x"]
    assert found["tombstone"] and found["next_broker_id"] == 2 and found["master"] is None


def test_a_set_nobody_knows_is_no_row() -> None:
    assert document(Rig().lead(), "nosuch")["sets"] == {}


def many(count: int) -> Rig:
    rig = Rig().lead()
    for number in range(count):
        name = f"x{number}"
        rig.request(
            1013,
            {
                "clusterName": "C",
                "brokerName": name,
                "appliedBrokerId": "1",
                "registerCheckCode": "h:1;1",
            },
        )
    return rig


def parts(rig: Rig) -> list[list[str]]:
    """The names in each part, until there is no next one."""
    found, after = [], ""
    while True:
        answer = rig.request(19003, {"after": after})
        assert answer is not None and answer.code == 0
        part = json.loads(answer.body)
        assert part["sets_known"] == len(rig.state.sets)
        found.append(list(part["sets"]))
        if "next" not in part:
            return found
        after = part["next"]


def test_sets_are_told_in_parts_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PART_SETS", 2)
    assert parts(many(5)) == [["x0", "x1"], ["x2", "x3"], ["x4"]]
    assert parts(Rig().lead()) == [[]]


def test_a_part_of_large_sets_ends_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PART_BYTES", 1)
    assert parts(many(3)) == [["x0"], ["x1"], ["x2"]]


def test_too_many_sets_for_one_answer_are_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = many(3)
    for limit in ("WHOLE_SETS", "WHOLE_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(documents, limit, 1)
            answer = rig.request(19003)
            assert answer is not None and answer.code == 1
            assert "3 broker sets" in (answer.remark or "") and "after" in (answer.remark or "")
            assert set(document(rig, "x1")["sets"]) == {"x1"}
    assert set(document(rig)["sets"]) == {"x0", "x1", "x2"}


def test_who_needs_no_sets_gets_none() -> None:
    answer = many(2).request(19003, {"sets": "false"})
    assert answer is not None and json.loads(answer.body)["sets"] == {}
