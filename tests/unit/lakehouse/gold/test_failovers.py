from typing import Any

from lakehouse.gold.failovers import at_risk_rows, failover_rows
from lakehouse.gold.fold import Published
from lakehouse.gold.masterships import masterships
from lakehouse.gold.specs import FAILOVERS, MESSAGES_AT_RISK
from processors.fold.rules import SETTING_UNCLEAN
from tests.support.control_history import CLUSTER_ID, History, seen, with_master
from tests.unit.lakehouse.gold.gold_cases import (
    OTHER_CLUSTER_ID,
    at,
    changes_of,
    event,
    failed_over,
    nobody_left,
    other_cluster,
    require_sound,
)


def failovers(past: History, **events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = failover_rows(masterships(changes_of(past)), {CLUSTER_ID: events})
    require_sound(FAILOVERS, rows)
    return rows


def test_it_lasts_from_the_last_message_of_one_epoch_to_the_first_of_the_next() -> None:
    past, offset = failed_over()
    now = at(offset)
    [row] = failovers(
        past,
        epoch_appended=[
            event(3, now + 7, epoch=2, start_offset=1000, last_store_ms=now - 40),
            event(1, now - 9000, epoch=1, start_offset=0, last_store_ms=-1),
        ],
        first_message_acknowledged=[
            event(3, now + 44, epoch=2, offset=1200),
            event(3, now + 60, epoch=2, offset=1300),
        ],
    )
    assert (row["old_master"], row["old_epoch"], row["new_master"], row["new_epoch"]) == (
        1,
        1,
        3,
        2,
    )
    assert (row["last_message_ms"], row["first_acknowledged_ms"], row["unavailable_ms"]) == (
        now - 40,
        now + 44,
        84,
    )
    assert (row["offset"], row["masterless_ms"]) == (offset, 0)


def test_what_no_broker_reported_is_null() -> None:
    past, offset = failed_over()
    [row] = failovers(past)
    assert (row["last_message_ms"], row["first_acknowledged_ms"], row["unavailable_ms"]) == (
        None,
        None,
        None,
    )
    assert (row["phases"], row["truncations"], row["truncated_bytes"]) == ([], [], 0)
    empty_log = [event(3, at(offset) + 7, epoch=2, start_offset=0, last_store_ms=-1)]
    assert failovers(past, epoch_appended=empty_log)[0]["last_message_ms"] is None


def test_phases_of_controller_and_broker_stand_in_one_order() -> None:
    past, offset = failed_over()
    now = at(offset)
    stamps = {
        offset: Published(
            "", "n0", now + 6, {"detected": now - 30, "applied": now + 4, "notified": now + 6}
        )
    }
    events = {
        "role_changed": [event(2, now + 5, master_epoch=2), event(3, now + 8, master_epoch=2)],
        "epoch_appended": [event(3, now + 7, epoch=2, start_offset=1000, last_store_ms=now - 40)],
        "first_message_acknowledged": [event(3, now + 44, epoch=2, offset=1200)],
    }
    [row] = failover_rows(masterships(changes_of(past, stamps)), {CLUSTER_ID: events})
    require_sound(FAILOVERS, [row])
    assert [(phase["phase"], phase["took_ms"]) for phase in row["phases"]] == [
        ("detected", 0),
        ("applied", 34),
        ("notified", 2),
        ("epoch durable", 1),
        ("master role taken", 1),
        ("first message acknowledged", 36),
    ]


def test_what_brokers_cut_off_belongs_to_the_failover_before_it_and_counts_once() -> None:
    past, first = failed_over()
    for _ in range(8):
        past.alter((2, 3))  # Refused, so that time goes by.
    assert past.elect(-1, seen(1), seen(2), seen(3, alive=False), master_epoch=2).accepted
    second = len(past.records) - 1
    cut = event(
        1, at(first) + 300, from_offset=1100, to_offset=1000, epoch=1, reason="epochs differ"
    )
    late = event(
        3, at(second) + 500, from_offset=2050, to_offset=2000, epoch=2, reason="epochs differ"
    )
    rows = failovers(past, log_truncated=[cut, dict(cut), late])
    assert [(row["new_epoch"], row["truncated_bytes"]) for row in rows] == [(2, 100), (3, 50)]
    assert [one["broker_id"] for one in rows[0]["truncations"]] == [1]


def test_time_without_a_master_is_counted() -> None:
    past, _ = nobody_left()
    [row] = failovers(past)
    assert (row["masterless_ms"], row["old_epoch"], row["new_epoch"]) == (1000, 1, 3)
    assert (row["old_master"], row["new_master"]) == (1, 1)


def test_events_of_another_cluster_with_the_same_names_are_not_taken() -> None:
    past, offset = failed_over()
    told = {"first_message_acknowledged": [event(3, at(offset) + 44, epoch=2, offset=1200)]}
    found = masterships(changes_of(past) + changes_of(other_cluster()))
    [row] = failover_rows(found, {OTHER_CLUSTER_ID: told})
    assert (row["cluster_id"], row["first_acknowledged_ms"]) == (CLUSTER_ID, None)


def test_a_sound_election_puts_nothing_at_risk() -> None:
    past, _ = failed_over()
    assert at_risk_rows(masterships(changes_of(past)), []) == []


def test_an_unclean_election_says_how_far_the_master_is_behind_and_what_was_cut() -> None:
    past = with_master(1)
    assert past.setting(SETTING_UNCLEAN, "true").accepted
    dead = seen(1, alive=False, offset=1500)
    assert past.elect(-1, dead, seen(2, offset=1200), seen(3, offset=900)).accepted
    now = at(len(past.records) - 1)
    cut = [event(1, now + 300, from_offset=1600, to_offset=1200, epoch=1, reason="epochs differ")]
    [row] = at_risk_rows(masterships(changes_of(past)), failovers(past, log_truncated=cut))
    require_sound(MESSAGES_AT_RISK, [row])
    assert (row["reason"], row["new_master"], row["master_epoch"]) == ("UNCLEAN", 2, 2)
    assert (row["winner_offset"], row["highest_offset"], row["behind_bytes"]) == (1200, 1500, 300)
    assert row["truncated_bytes"] == 400


def test_when_all_members_started_unclean_the_master_is_at_risk_by_an_unknown_amount() -> None:
    past = with_master(1, replicas=(1,))
    assert past.register(1, "again", clean=False).accepted
    assert past.elect(-1, seen(1, incarnation="again", offset=-1)).accepted
    [row] = at_risk_rows(masterships(changes_of(past)), failovers(past))
    require_sound(MESSAGES_AT_RISK, [row])
    assert (row["reason"], row["behind_bytes"], row["truncated_bytes"]) == ("AT_RISK", None, 0)
