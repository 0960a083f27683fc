import json

import pytest

from lakehouse.answers.explain_rows import NOTHING_DECIDED, Decisions, Events, Row


def decided(offset: int, *changes: Row) -> Row:
    return {"command_offset": offset, "changes": json.dumps(changes)}


def elected(master: int, epoch: int, *members: int) -> Row:
    return {
        "kind": "MasterElected",
        "master_broker_id": master,
        "master_epoch": epoch,
        "sync_state_set": list(members),
    }


def altered(*members: int) -> Row:
    return {"kind": "SyncStateSetAltered", "sync_state_set": list(members)}


def election(offset: int, epoch: int, *candidates: int) -> Row:
    return {
        "command_offset": offset,
        "master_epoch": epoch,
        "candidates": [{"broker_id": one} for one in candidates],
    }


HISTORY = Decisions([
    decided(3, {"kind": "BrokerIdApplied"}),
    decided(5, elected(1, 1, 1)),
    decided(8, altered(1, 2), altered(1, 2, 3)),
    decided(9, {"kind": "MasterCleared"}),
    decided(12, elected(3, 2, 3)),
    decided(15, altered(2, 3)),
    decided(20, elected(2, 3, 2)),
])  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "master", "epoch", "members"),
    [
        (0, None, 0, []),
        (5, None, 0, []),
        (6, 1, 1, [1]),
        (8, 1, 1, [1]),
        (9, 1, 1, [1, 2, 3]),
        (12, None, 1, [1, 2, 3]),
        (13, 3, 2, [3]),
        (20, 3, 2, [2, 3]),
        (99, 2, 3, [2]),
    ],
)
def test_the_state_before_a_command_is_that_after_all_decisions_below_it(
    offset: int, master: int | None, epoch: int, members: list[int]
) -> None:
    assert HISTORY.before(offset) == {
        "master_broker_id": master,
        "master_epoch": epoch,
        "sync_state_set": members,
    }


@pytest.mark.parametrize(
    ("asked", "whole_at"),
    [
        (election(5, 1, 1), 5),
        (election(5, 1, 1, 2, 3), 8),
        (election(12, 2, 2, 3), 15),
        (election(12, 2, 1, 2, 3), None),  # the next epoch came first
        (election(20, 3, 1, 2), None),  # not yet
    ],
)
def test_a_set_is_whole_again_when_all_that_the_election_looked_at_are_in_it(
    asked: Row, whole_at: int | None
) -> None:
    found = HISTORY.whole_again(asked)
    assert (None if found is None else found["command_offset"]) == whole_at


def test_without_decisions_nothing_is_known() -> None:
    assert (
        Decisions().before(7) == NOTHING_DECIDED
        and Decisions().whole_again(election(7, 1, 1)) is None
    )


def test_events_are_found_by_epoch_in_the_order_of_landing_and_by_time_ascending() -> None:
    late, early = {"epoch": 2, "at_ms": 50, "n": 1}, {"epoch": 2, "at_ms": 40, "n": 2}
    other = {"epoch": 3, "at_ms": 60, "n": 3}
    events = Events(
        {
            "epoch_appended": [late, early, other],
            "ha_link_up": [{"at_ms": at} for at in (9, 5, 7, 5)],
        }
    )
    assert (
        events.of_epoch("epoch_appended", 2) == [late, early]
        and events.of_epoch("epoch_appended", 4) == []
    )
    assert [row["at_ms"] for row in events.in_time("ha_link_up", 5, 9)] == [5, 5, 7]
    assert (
        events.in_time("epoch_appended", 0, 60) == [early, late]
        and events.in_time("log_truncated", 0, 99) == []
    )
