from lakehouse.gold.history import broker_set_rows, history_rows
from lakehouse.gold.specs import BROKER_SET_HISTORY, BROKER_SETS
from tests.support.control_history import CLUSTER_ID, NAME, with_master
from tests.unit.lakehouse.gold.gold_cases import (
    OTHER_CLUSTER_ID,
    at,
    changes_of,
    failed_over,
    nobody_left,
    other_cluster,
    put,
    require_sound,
)


def test_a_set_stands_as_its_last_change_left_it() -> None:
    past, failover = failed_over()
    past.elect(-1, master_epoch=1)  # Refused: nothing changes.
    [row] = broker_set_rows(changes_of(past))
    require_sound(BROKER_SETS, [row])
    assert (row["offset"], row["master_broker_id"], row["master_address"]) == (
        failover,
        3,
        "h3:10911",
    )
    assert (row["sync_state_set"], row["master_epoch"]) == ([2, 3], 2)
    assert [replica["broker_id"] for replica in row["replicas"]] == [1, 2, 3]


def test_sets_of_one_name_in_two_clusters_are_two_rows() -> None:
    past, _ = failed_over()
    changes = changes_of(past) + changes_of(other_cluster())
    rows = broker_set_rows(changes)
    require_sound(BROKER_SETS, rows)
    assert [(r["cluster_id"], r["broker_name"], r["master_broker_id"]) for r in rows] == [
        (CLUSTER_ID, NAME, 3),
        (OTHER_CLUSTER_ID, NAME, 1),
    ]
    history = history_rows(changes)
    require_sound(BROKER_SET_HISTORY, history)
    assert sum(row["to_offset"] is None for row in history) == 2


def test_at_every_offset_exactly_one_row_holds_and_says_the_folded_state() -> None:
    past, _ = failed_over()
    changes = changes_of(past)
    rows = history_rows(changes)
    require_sound(BROKER_SET_HISTORY, rows)
    for change in changes:
        holds = [
            r
            for r in rows
            if r["from_offset"] <= change.offset and (r["to_offset"] or 99) > change.offset
        ]
        if change.after is not None:
            [row] = holds
            assert row["sync_state_set"] == list(change.after.sync_state_set)
            assert row["master_broker_id"] == change.after.master_broker_id


def test_a_refusal_that_cleared_the_master_begins_a_row_without_a_master() -> None:
    past, refused = nobody_left()
    [row] = [row for row in history_rows(changes_of(past)) if row["refusal"]]
    assert (row["from_offset"], row["refusal"], row["master_broker_id"]) == (
        refused,
        "MASTER_NOT_AVAILABLE",
        None,
    )
    assert (row["to_offset"], row["to_ms"]) == (refused + 1, at(refused + 1))


def test_a_set_whose_replicas_were_all_cleaned_is_a_tombstone() -> None:
    past = with_master(1, 2)
    assert past.clean(None, living=True).accepted
    [row] = broker_set_rows(changes_of(past))
    assert (row["tombstone"], row["replicas"], row["sync_state_set"]) == (True, [], [])
    assert row["next_broker_id"] == 4


def test_check_codes_are_not_in_it() -> None:
    past, _ = failed_over()
    assert "secret" not in str(history_rows(changes_of(past)))


def test_in_pieces_the_same_rows_stand_in_the_end() -> None:
    past, _ = nobody_left()
    changes = changes_of(past)
    whole = put(BROKER_SET_HISTORY, history_rows(changes))
    for cut in range(len(changes)):
        head = history_rows(changes[:cut])
        still_open = [row for row in head if row["to_offset"] is None]
        assert put(BROKER_SET_HISTORY, head, history_rows(changes[cut:], still_open)) == whole
