from lakehouse.gold.intervals import identity_rows, sync_state_set_rows, term_rows
from lakehouse.gold.specs import BROKER_IDENTITY, CONTROLLER_TERMS, SYNC_STATE_SET_INTERVALS
from tests.support.control_history import History, seen, with_master
from tests.unit.lakehouse.gold.gold_cases import (
    OTHER_CLUSTER_ID,
    at,
    changes_of,
    failed_over,
    other_cluster,
    require_sound,
)


def intervals(past: History) -> list[tuple[object, ...]]:
    rows = sync_state_set_rows(changes_of(past))
    require_sound(SYNC_STATE_SET_INTERVALS, rows)
    return [
        (row["sync_state_set"], row["joined"], row["left"], row["reason"], row["missing"])
        for row in rows
    ]


def test_intervals_say_who_joined_who_left_and_why() -> None:
    past, _ = failed_over()
    assert past.register(2, "again", clean=False).accepted
    assert intervals(past) == [
        ([1], [1], [], "ELECTED", [2, 3]),
        ([1, 2, 3], [2, 3], [], "PROPOSED", []),
        ([2, 3], [], [1], "ELECTED", [1]),
        ([3], [], [2], "UNCLEAN_START", [1, 2]),
    ]


def test_intervals_follow_each_other_without_gaps() -> None:
    past, failover = failed_over()
    rows = sync_state_set_rows(changes_of(past))
    assert [row["to_offset"] for row in rows[:-1]] == [row["from_offset"] for row in rows[1:]]
    assert (rows[-1]["from_offset"], rows[-1]["from_ms"], rows[-1]["to_ms"]) == (
        failover,
        at(failover),
        None,
    )


def test_a_cleaned_broker_leaves_the_set_and_its_id_is_nobodys() -> None:
    past = with_master(1, 2)
    assert past.clean((2,)).accepted
    cleaned = len(past.records) - 1
    assert intervals(past)[-1] == ([1], [], [2], "CLEANED", [3])
    rows = identity_rows(changes_of(past))
    require_sound(BROKER_IDENTITY, rows)
    assert [(row["broker_id"], row["to_offset"]) for row in rows] == [
        (1, None),
        (2, cleaned),
        (3, None),
    ]


def test_identity_says_who_got_which_id_with_which_code() -> None:
    past = with_master(1, replicas=(1, 2))
    assert not past.apply_id(2, "thief:1;other").accepted
    first, second = identity_rows(changes_of(past))
    assert (first["register_check_code"], first["address"], first["given_by"]) == (
        "h1:10911;secret",
        "h1:10911",
        "ApplyBrokerId",
    )
    assert (second["broker_id"], second["from_offset"], second["from_ms"]) == (2, 4, at(4))


def test_an_import_gives_all_its_ids_at_once() -> None:
    past = History()
    assert past.import_set(1, 4).accepted
    assert past.import_set(1, 4, master_epoch=8).accepted
    rows = identity_rows(changes_of(past))
    require_sound(BROKER_IDENTITY, rows)
    assert [(row["broker_id"], row["given_by"], row["from_offset"]) for row in rows] == [
        (1, "ImportBrokerSet", 2),
        (4, "ImportBrokerSet", 2),
    ]
    assert intervals(past)[0][3] == "IMPORTED"


def test_terms_follow_each_other_and_clusters_count_for_themselves() -> None:
    past = with_master(1)
    assert past.claim(1).accepted
    assert not past.claim(1, "n2").accepted
    taken = len(past.records) - 2
    rows = term_rows(changes_of(past) + changes_of(other_cluster()))
    require_sound(CONTROLLER_TERMS, rows)
    told = {
        (row["cluster_id"], row["term"]): (row["controller_id"], row["to_offset"]) for row in rows
    }
    assert told == {
        ("cluster-1", 1): ("n0", taken),
        ("cluster-1", 2): ("n1", None),
        (OTHER_CLUSTER_ID, 1): ("n0", None),
    }


def test_rows_that_still_held_are_closed_by_a_later_run() -> None:
    past, failover = failed_over()
    assert past.elect(-1, seen(2), seen(3, alive=False), master_epoch=2).accepted
    changes = changes_of(past)
    still_open = [
        row for row in sync_state_set_rows(changes[: failover + 1]) if row["to_offset"] is None
    ]
    closed, begun = sync_state_set_rows(changes[failover + 1 :], still_open)
    assert (closed["from_offset"], closed["to_offset"]) == (failover, failover + 1)
    assert (begun["sync_state_set"], begun["to_offset"]) == ([2], None)
