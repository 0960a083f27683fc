"""The document that `regent controller` reads."""

import json
from typing import Any

import pytest

from processors.controller import state_document
from tests.support.controller_rig import SET, Log, Rig


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
    monkeypatch.setattr(state_document, "PART_SETS", 2)
    assert parts(many(5)) == [["x0", "x1"], ["x2", "x3"], ["x4"]]
    assert parts(Rig().lead()) == [[]]


def test_a_part_of_large_sets_ends_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_document, "PART_BYTES", 1)
    assert parts(many(3)) == [["x0"], ["x1"], ["x2"]]


def test_too_many_sets_for_one_answer_are_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = many(3)
    for limit in ("WHOLE_SETS", "WHOLE_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(state_document, limit, 1)
            answer = rig.request(19003)
            assert answer is not None and answer.code == 1
            assert "3 broker sets" in (answer.remark or "") and "after" in (answer.remark or "")
            assert set(document(rig, "x1")["sets"]) == {"x1"}
    assert set(document(rig)["sets"]) == {"x0", "x1", "x2"}


def test_who_needs_no_sets_gets_none() -> None:
    answer = many(2).request(19003, {"sets": "false"})
    assert answer is not None and json.loads(answer.body)["sets"] == {}
