"""A set that replicates by majority, as `regent status`, a restart and the demo have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.cli.status import render
from infra.cluster import majority_view, view
from infra.cluster.data_folder import DataFolder
from infra.cluster.majority_running import MajorityCluster


def broker(number: int, role: str = "SLAVE", **status: object) -> dict[str, Any]:
    own = {
        "broker_id": number,
        "role": role,
        "master_epoch": 7,
        "master_address": "h:1",
        "log_end": 100,
        "confirm_offset": 90,
    }
    return {
        "name": f"a-{number}",
        "kind": "broker",
        "address": f"h:{number}",
        "status_address": f"h:{number}",
        # the page leaves out what is not known
        "status": {key: value for key, value in (own | status).items() if value is not None},
    }


WELL = (broker(1, "MASTER"), broker(2), broker(3, log_end=95))


def of(*brokers: dict[str, Any]) -> dict[str, Any]:
    return majority_view.sets_of([*brokers, {"name": "namesrv-1", "kind": "namesrv"}])["a"]


def test_a_leader_and_those_that_follow() -> None:
    found = of(*WELL)
    assert (found["leader"], found["term"], found["size"], found["answering"]) == ("a-1", 7, 3, 3)
    assert [(one["follows"], one["behind"]) for one in found["members"]] == [
        (True, 0),
        (True, 0),
        (True, 5),
    ]
    assert majority_view.is_whole(found) and majority_view.problems_of({"a": found}) == []


@pytest.mark.parametrize(
    "third",
    [
        {**broker(3), "status": None},
        broker(3, master_epoch=6),
        broker(3, master_address=None),
        broker(3, log_end=80),
    ],
    ids=["silent", "of another term", "follows nobody", "lacks what is committed"],
)
def test_it_is_led_and_not_whole_without_one_of_them(third: dict[str, Any]) -> None:
    found = of(*WELL[:2], third)
    assert found["leader"] == "a-1" and not majority_view.is_whole(found)


def test_a_leader_that_no_majority_follows_is_none() -> None:
    lost = {**broker(3), "status": None}
    found = of(broker(1, "MASTER"), broker(2, master_epoch=6), lost)
    assert found["leader"] is None and found["answering"] == 2
    (problem,) = majority_view.problems_of({"a": found})
    assert "2 of its 3 members answer" in problem and "2 that reach each other" in problem


def test_of_two_that_say_they_lead_it_is_the_one_of_the_later_term() -> None:
    later = [broker(number, master_epoch=8, master_address="h:2") for number in (3,)]
    assert of(broker(1, "MASTER"), broker(2, "MASTER", master_epoch=8), *later)["leader"] == "a-2"


def test_a_full_disk_is_told() -> None:
    found = of(*WELL[:2], broker(3, store_refusal="full"))
    assert majority_view.problems_of({"a": found}) == ["a-3 takes nothing onto its disk: full"]


def test_status_shows_it() -> None:
    assert view.mode_of({"replication": "majority", "mode": "controllers"}) == "majority"
    assert view.mode_of({"mode": "acting"}) == "acting" and view.mode_of({}) == "controllers"
    shown = {
        "cluster_id": "c",
        "state": "ready",
        "dir": "d",
        "name_servers": ["n"],
        "controllers": [],
        "mode": "majority",
        "processes": [],
        "sets": {},
        "landing": None,
        "problems": [],
    }
    text = "\n".join(render({**shown, "majority_sets": {"a": of(*WELL)}}))
    assert "the members of a set elect their leader, a majority acknowledges" in text
    assert "set a: led by a-1 in term 7, 3 of 3 members with it" in text
    alone = "\n".join(render({**shown, "majority_sets": {"a": of(WELL[0])}}))
    assert "led by a-1" in alone, "a majority of one"
    lost = [{**broker(number), "status": None} for number in (2, 3)]
    nobody = "\n".join(render({**shown, "majority_sets": {"a": of(WELL[0], *lost)}}))
    assert "set a: NO LEADER, 1 of 3 members answer" in nobody


def test_a_running_cluster_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = [{**one, "name": one["name"].replace("a-", "broker-a-")} for one in WELL]
    cluster = MajorityCluster(DataFolder(tmp_path), lambda: None)
    monkeypatch.setattr(cluster, "processes", lambda kind: named)
    answers = {one["status_address"]: one["status"] for one in named}
    monkeypatch.setattr(
        "infra.cluster.majority_running.process_status.ask_all", lambda addresses, ms: answers
    )
    assert cluster.is_whole() and cluster.look()["leader"] == "broker-a-1"
    assert cluster.broker("broker-a-2")["address"] == "h:2"
