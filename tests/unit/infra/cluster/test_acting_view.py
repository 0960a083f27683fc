"""Sets without controllers as `regent status` has them."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cluster import acting_view
from infra.cluster.acting_running import ActingCluster, whole
from infra.cluster.data_folder import DataFolder

MASTER, SLAVE = "h:1", "h:2"
THERE = {"waits_for": None, "registered": True, "in_sync": None}


def broker(broker_id: int, address: str, **status: object) -> dict[str, Any]:
    own = {"broker_name": "a", "broker_id": broker_id, "log_end": 100, **status}
    return {"name": f"a-{broker_id}", "address": address, "status": own}


def test_a_set_with_its_master_says_what_each_slave_lacks() -> None:
    brokers = [broker(0, MASTER), broker(1, SLAVE, log_end=40)]
    found = acting_view.sets_of(brokers, {"a": {0: MASTER, 1: SLAVE}})["a"]
    assert (found["master"], found["acting"], found["registered"]) == (MASTER, None, [0, 1])
    assert [(one["id"], one["behind"], one["registered"]) for one in found["members"]] == [
        (0, 0, True),
        (1, 60, True),
    ]
    assert acting_view.problems_of({"a": found}) == []


def test_a_set_that_controllers_lead_since_has_other_ids_and_is_well() -> None:
    """Whoever leads stands at a name server as 0."""
    brokers = [broker(1, SLAVE), broker(2, MASTER)]
    found = acting_view.sets_of(brokers, {"a": {0: MASTER, 1: SLAVE}})["a"]
    assert all(one["registered"] for one in found["members"])
    assert whole(found, 2) and not whole(found, 3)


LED = {"ready": True, "master_epoch": 2, "confirm_offset": 90, "sync_state_set": [1, 2]}


@pytest.mark.parametrize(
    ("of_master", "of_slave", "in_sync"),
    [
        ({}, {}, True),
        ({"sync_state_set": [2]}, {}, False),
        ({}, {"ready": False}, False),
        ({}, {"master_epoch": 1}, False),
        ({}, {"log_end": 80}, False),
    ],
    ids=["all are", "not a member", "not ready", "of another epoch", "lacks what is acknowledged"],
)
def test_a_set_that_controllers_lead_since_is_whole_when_every_replica_is_in_sync(
    of_master: dict[str, Any], of_slave: dict[str, Any], in_sync: bool
) -> None:
    brokers = [broker(1, SLAVE, **{**LED, **of_slave}), broker(2, MASTER, **{**LED, **of_master})]
    found = acting_view.sets_of(brokers, {"a": {0: MASTER, 1: SLAVE}})["a"]
    assert [one["in_sync"] for one in found["members"]] == [in_sync, True]
    assert whole(found, 2) is in_sync


def test_with_fixed_ids_there_is_no_such_thing_as_in_sync() -> None:
    brokers = [broker(0, MASTER, sync_state_set=[]), broker(1, SLAVE, sync_state_set=[])]
    found = acting_view.sets_of(brokers, {"a": {0: MASTER, 1: SLAVE}})["a"]
    assert [one["in_sync"] for one in found["members"]] == [None, None]


def test_while_the_master_is_away_the_set_names_who_acts() -> None:
    brokers = [{"name": "a-0", "address": MASTER, "status": None}, broker(1, SLAVE, acts=True)]
    found = acting_view.sets_of(brokers, {"a": {1: SLAVE}})
    assert (found["a"]["master"], found["a"]["acting"]) == (None, "a-1")
    (problem,) = acting_view.problems_of(found)
    assert problem.startswith("a has no master: a-1 acts for it")


def test_a_master_on_its_way_back_says_what_it_waits_for() -> None:
    brokers = [broker(0, MASTER, waits_for="the link of broker 1"), broker(1, SLAVE, acts=True)]
    problems = acting_view.problems_of(acting_view.sets_of(brokers, {"a": {1: SLAVE}}))
    assert problems[1] == "a-0 is not online yet: it waits for the link of broker 1"


def test_who_has_no_room_on_its_disk_is_named() -> None:
    brokers = [broker(0, MASTER), broker(1, SLAVE, store_refusal="no room")]
    problems = acting_view.problems_of(acting_view.sets_of(brokers, {"a": {0: MASTER, 1: SLAVE}}))
    assert problems == ["a-1 takes nothing onto its disk: no room"]


def test_without_a_name_server_nobody_says_who_is_there() -> None:
    found = acting_view.sets_of([broker(0, MASTER)], {"a": None})
    assert acting_view.problems_of(found) == ["no name server says who is there of a"]


@pytest.mark.parametrize(
    ("seen", "whole"),
    [
        ({}, True),
        ({"master": None}, False),
        ({"acting": "a-1"}, False),
        ({"members": [{**THERE, "waits_for": "x"}] * 3}, False),
        ({"members": [{**THERE, "registered": False}] * 3}, False),
        ({"members": [THERE] * 2}, False),
        ({"members": [{**THERE, "in_sync": True}] * 3}, True),
        ({"members": [THERE, THERE, {**THERE, "in_sync": False}]}, False),
    ],
)
def test_a_set_is_whole_when_all_are_in_their_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, seen: dict[str, Any], whole: bool
) -> None:
    cluster = ActingCluster(DataFolder(tmp_path), lambda: None)
    names = [{"name": name} for name in ("a-0", "a-1", "a-2", "b-0")]
    usual = {"master": MASTER, "acting": None, "members": [THERE] * 3}
    monkeypatch.setattr(cluster, "processes", lambda kind=None: names)
    monkeypatch.setattr(cluster, "sets", lambda: {"a": {**usual, **seen}})
    assert cluster.is_whole("a") is whole
