"""The document that `regent controller` reads."""

import json
from typing import Any

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
    assert found["applied_offset"] == rig.folder.offset and found["digest"] == rig.folder.digest.hex()
    assert found["settings"]["effective"]["electMasterMaxRetryCount"] == "3" and found["settings"]["all"] == {}
    assert [(one["id"], one["role"], one["alive"]) for one in found["controllers"]] == [
        ("c1", "active", True), ("c2", "standby", False),
    ]  # fmt: skip


def test_a_set_with_its_replicas_and_what_is_seen_of_them() -> None:
    rig = Rig().lead().three()
    found = document(rig, SET)["sets"]
    assert list(found) == [SET]
    one = found[SET]
    assert (one["master"], one["sync_state_set"], one["next_broker_id"], one["tombstone"]) == (1, [1, 2, 3], 4, False)
    first = one["replicas"][0]
    assert (first["id"], first["registered"], first["is_regent"], first["alive"], first["max_offset"]) == (1, True, True, True, 100)
    assert one["repeated_refusals"] == []


def test_an_id_nobody_claimed_and_a_tombstone_are_listed() -> None:
    rig = Rig().lead()
    rig.request(1013, {"clusterName": "C", "brokerName": "x", "appliedBrokerId": "1", "registerCheckCode": "h:1;1"})
    (replica,) = document(rig)["sets"]["x"]["replicas"]
    assert not replica["registered"] and replica["reason"] == "never_seen" and replica["silent_ms"] == -1
    rig.request(1011, {"clusterName": "C", "brokerName": "x"})
    found = document(rig)["sets"]["x"]
    assert found["tombstone"] and found["next_broker_id"] == 2 and found["master"] is None


def test_a_set_nobody_knows_is_no_row() -> None:
    assert document(Rig().lead(), "nosuch")["sets"] == {}
