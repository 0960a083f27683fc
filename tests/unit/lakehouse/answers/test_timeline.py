import itertools
import json
from typing import Any

import pytest

from lakehouse.answers.replica_roles import (
    CATCHING_UP,
    DOWN,
    IN_SET,
    MASTER,
    OUT_OF_SET,
    UNREGISTERED,
)
from lakehouse.answers.timeline import NO_MASTER, NO_MESSAGE, timeline_model, timeline_text, window
from lakehouse.gold.rows import gold_rows
from tests.support.control_history import CLUSTER_ID, NAME, History, seen
from tests.unit.lakehouse.gold.gold_cases import at, changes_of, event, failed_over, nobody_left


def timeline(past: History, **events: Any) -> dict[str, Any]:
    until_ms = at(len(past.records))
    rows, _ = gold_rows(changes_of(past), {CLUSTER_ID: events}, until_ms)
    names = ("broker_set_history", "sync_state_set_intervals", "elections", "failovers")
    model = timeline_model(NAME, *(rows[f"gold/{name}"] for name in names), until_ms)
    json.dumps(model)
    return model


def roles(model: dict[str, Any], broker_id: int) -> list[str]:
    [lane] = [one for one in model["replicas"] if one["broker_id"] == broker_id]
    return [stretch["role"] for stretch in lane["stretches"]]


def test_roles_follow_from_one_another_without_holes() -> None:
    past, offset = failed_over()
    past.alter((1, 2, 3), seen(1), seen(2), seen(3))
    model = timeline(past)
    assert roles(model, 1) == [UNREGISTERED, OUT_OF_SET, MASTER, DOWN, IN_SET]
    assert roles(model, 3)[-2:] == [IN_SET, MASTER]
    for lane in model["replicas"]:
        ends = [(one["from_ms"], one["to_ms"]) for one in lane["stretches"]]
        assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(ends))
        assert ends[-1][1] == model["to_ms"]
    assert [one["members"] for one in model["sync_state_sets"]][-2:] == [[2, 3], [1, 2, 3]]
    assert [one["master_epoch"] for one in model["elections"]] == [1, 2]
    assert model["elections"][-1]["at_ms"] == at(offset)


def test_who_is_dead_is_down_until_it_registers_and_catches_up_from_there_on() -> None:
    past, _ = failed_over()
    past.register(1, "again")
    past.alter((1, 2, 3), seen(1, incarnation="again"), seen(2), seen(3))
    assert roles(timeline(past), 1)[-4:] == [MASTER, DOWN, CATCHING_UP, IN_SET]


def test_who_comes_back_as_a_new_process_was_down_before() -> None:
    past, _ = failed_over()
    past.alter((3,), seen(2), seen(3))
    assert roles(timeline(past), 2)[-1] == OUT_OF_SET
    past.register(2, "again")
    assert roles(timeline(past), 2)[-2:] == [DOWN, CATCHING_UP]


def test_a_dead_replica_that_is_all_that_is_left_of_a_set_is_down() -> None:
    past, offset = nobody_left()
    model = timeline(past)
    assert roles(model, 1)[-3:-1] == [MASTER, DOWN]
    [[members]] = [
        [one["members"]]
        for one in model["sync_state_sets"]
        if one["from_ms"] <= at(offset) < one["to_ms"]
    ]
    assert 1 in members


def test_a_time_without_master_is_a_gap_and_so_is_one_without_messages() -> None:
    past, offset = nobody_left()
    model = timeline(past)
    assert model["gaps"] == [{"from_ms": at(offset), "to_ms": at(offset + 1), "kind": NO_MASTER}]
    assert [one["refusal"] for one in model["elections"]][1] == "MASTER_NOT_AVAILABLE"
    past, offset = failed_over()
    model = timeline(
        past,
        epoch_appended=[
            event(3, at(offset) + 7, epoch=2, start_offset=1000, last_store_ms=at(offset) - 40)
        ],
        first_message_acknowledged=[event(3, at(offset) + 44, epoch=2, offset=1200)],
    )
    assert model["gaps"] == [
        {"from_ms": at(offset) - 40, "to_ms": at(offset) + 44, "kind": NO_MESSAGE}
    ]
    assert "no message acknowledged for 84 ms" in timeline_text(model)


def test_a_new_epoch_of_the_same_master_is_a_stretch_of_its_own() -> None:
    past, _ = failed_over()
    past.register(3, "again")
    assert past.elect(
        3, seen(1), seen(2, alive=False), seen(3, incarnation="again"), master_epoch=2
    ).accepted
    assert roles(timeline(past), 3)[-2:] == [MASTER, MASTER]


@pytest.mark.parametrize(
    ("from_second", "up_to_second", "epochs"),
    [(False, False, [1, 2]), (False, True, [1]), (True, False, [2]), (True, True, [])],
)
def test_a_window_cuts_what_reaches_over_it(
    from_second: bool, up_to_second: bool, epochs: list[int]
) -> None:
    """From the second election on, or up to just before it."""
    past, offset = failed_over()
    cut = window(
        timeline(past),
        at(offset) if from_second else None,
        at(offset) - 1 if up_to_second else None,
    )
    assert [one["master_epoch"] for one in cut["elections"]] == epochs
    stretches = [
        *cut["sync_state_sets"],
        *(one for lane in cut["replicas"] for one in lane["stretches"]),
    ]
    assert all(
        cut["from_ms"] <= one["from_ms"] <= one["to_ms"] <= cut["to_ms"] for one in stretches
    )
    assert bool(stretches) is not (from_second and up_to_second)


def test_text_stands_by_time() -> None:
    past, _ = failed_over()
    lines = timeline_text(timeline(past)).splitlines()
    assert lines[0].startswith(f"{NAME}, 2026-01-01")
    times = [line[2:25] for line in lines[2:]]
    assert times == sorted(times)
    assert any("epoch 2: master 3" in line for line in lines)
    assert timeline_text(timeline_model(NAME, [], [], [], [], 0)).startswith(f"{NAME}: nothing")
