from datetime import date
from typing import Any

from lakehouse.gold.acting_periods import ActingSet
from lakehouse.gold.availability import DAY_MS, availability_rows
from lakehouse.gold.failovers import Events, failover_rows
from lakehouse.gold.masterships import masterships
from lakehouse.gold.specs import AVAILABILITY
from tests.support.control_history import CLUSTER_ID, NAME, History, seen, with_master
from tests.unit.lakehouse.gold.gold_cases import (
    BEGAN_MS,
    at,
    changes_of,
    event,
    failed_over,
    nobody_left,
    other_cluster,
    require_sound,
)

NEW_YEAR = date(2026, 1, 1)


def days(past: History, until_ms: int, events: Events | None = None) -> list[dict[str, Any]]:
    found = masterships(changes_of(past))
    rows = availability_rows(found, failover_rows(found, {CLUSTER_ID: events or {}}), until_ms)
    require_sound(AVAILABILITY, rows)
    return rows


def first_master_ms(past: History) -> int:
    return masterships(changes_of(past))[0].at_ms


def test_a_set_that_never_lost_its_master_is_fully_available_on_each_day() -> None:
    past = with_master(1, 2)
    first, second = days(past, BEGAN_MS + DAY_MS + 5000)
    assert (first["day"], second["day"]) == (NEW_YEAR, date(2026, 1, 2))
    assert first["observed_ms"] == BEGAN_MS + DAY_MS - first_master_ms(past)
    assert second["observed_ms"] == 5000
    assert {row["availability"] for row in (first, second)} == {1.0}


def test_a_failover_counts_from_last_to_first_message() -> None:
    past, offset = failed_over()
    now = at(offset)
    events = {
        "epoch_appended": [event(3, now + 7, epoch=2, start_offset=1000, last_store_ms=now - 40)],
        "first_message_acknowledged": [event(3, now + 44, epoch=2, offset=1200)],
    }
    [row] = days(past, now + 10_000, events)
    observed_ms = now + 10_000 - first_master_ms(past)
    assert (row["unavailable_ms"], row["masterless_ms"], row["longest_gap_ms"]) == (84, 0, 84)
    assert (row["failovers"], row["unmeasured"]) == (1, 0)
    assert row["availability"] == 1 - 84 / observed_ms


def test_time_without_a_master_and_between_messages_is_counted_once() -> None:
    past, refused = nobody_left()
    cleared = at(refused)
    events = {
        "epoch_appended": [
            event(1, cleared + 1007, epoch=3, start_offset=1000, last_store_ms=cleared - 200)
        ],
        "first_message_acknowledged": [event(1, cleared + 1100, epoch=3, offset=1200)],
    }
    [row] = days(past, cleared + 10_000, events)
    assert (row["masterless_ms"], row["unavailable_ms"], row["longest_gap_ms"]) == (
        1000,
        1300,
        1300,
    )


def test_a_failover_nobody_reported_counts_as_unmeasured_with_its_masterless_time() -> None:
    past, refused = nobody_left()
    [row] = days(past, at(refused) + 10_000)
    assert (row["masterless_ms"], row["unavailable_ms"], row["unmeasured"]) == (1000, 1000, 1)


def test_a_set_without_a_master_is_unavailable_as_far_as_history_reaches() -> None:
    past = with_master(1)
    past.elect(-1, seen(1, alive=False), seen(2), seen(3))
    lost = at(len(past.records) - 1)
    first, second = days(past, BEGAN_MS + DAY_MS + 7000)
    assert first["unavailable_ms"] == BEGAN_MS + DAY_MS - lost
    assert (second["unavailable_ms"], second["availability"], second["failovers"]) == (7000, 0.0, 0)


def test_a_cleaned_set_is_in_service_no_more() -> None:
    past = with_master(1, 2)
    assert past.clean(None, living=True).accepted
    [row] = days(past, BEGAN_MS + 3 * DAY_MS)
    assert row["observed_ms"] == at(len(past.records) - 1) - first_master_ms(past)
    assert row["availability"] == 1.0


def test_each_cluster_has_its_own_row() -> None:
    past, _ = failed_over()
    found = masterships(changes_of(past) + changes_of(other_cluster()))
    rows = availability_rows(found, failover_rows(found, {}), BEGAN_MS + 60_000)
    require_sound(AVAILABILITY, rows)
    assert [(row["cluster_id"], row["failovers"]) for row in rows] == [
        ("cluster-1", 1),
        ("cluster-2", 0),
    ]


def acted(found: History, since_ms: int, until_ms: int, *gaps: tuple[int, int]) -> dict[str, Any]:
    """Rows of a set that was without controllers before, or is."""
    sets = {(CLUSTER_ID, NAME): ActingSet(since_ms, until_ms, gaps, gaps)}
    rows = availability_rows(masterships(changes_of(found)), [], until_ms, sets)
    require_sound(AVAILABILITY, rows)
    [row] = rows
    return row


def test_a_set_without_controllers_is_unavailable_while_nobody_can_write() -> None:
    row = acted(History(), BEGAN_MS, BEGAN_MS + 100_000, (BEGAN_MS + 60_000, BEGAN_MS + 70_000))
    assert (row["observed_ms"], row["masterless_ms"], row["unavailable_ms"]) == (
        100_000, 10_000, 10_000,
    )  # fmt: skip
    assert (row["acting_ms"], row["failovers"], row["availability"]) == (10_000, 0, 0.9)


def test_periods_that_overlap_count_each_moment_once() -> None:
    first, second = (BEGAN_MS + 10_000, BEGAN_MS + 30_000), (BEGAN_MS + 20_000, BEGAN_MS + 40_000)
    assert acted(History(), BEGAN_MS, BEGAN_MS + 100_000, first, second)["acting_ms"] == 30_000


def test_a_set_that_joins_controllers_is_counted_by_their_word_from_then_on() -> None:
    past = with_master(1, 2)
    joined_ms = first_master_ms(past)
    early, late = (BEGAN_MS, BEGAN_MS + 500), (joined_ms + 1000, joined_ms + 2000)
    row = acted(past, BEGAN_MS, joined_ms + 10_000, early, late)
    assert row["observed_ms"] == joined_ms + 10_000 - BEGAN_MS
    assert (row["unavailable_ms"], row["acting_ms"]) == (500, 500)


def changed_over(
    found: History, since_ms: int, until_ms: int, *fixed: tuple[int, int | None]
) -> dict[str, Any]:
    over_time = ActingSet(since_ms, until_ms, (), (), fixed)
    sets = {(CLUSTER_ID, NAME): over_time}
    rows = availability_rows(masterships(changes_of(found)), [], until_ms, sets)
    require_sound(AVAILABILITY, rows)
    [row] = rows
    return row


def test_between_giving_up_and_the_election_an_adopted_set_has_no_master() -> None:
    past = with_master(1, 2)
    joined_ms = first_master_ms(past)
    until_ms = joined_ms + 10_000
    row = changed_over(past, BEGAN_MS, until_ms, (BEGAN_MS, joined_ms - 2))
    assert row["observed_ms"] == until_ms - BEGAN_MS
    assert (row["masterless_ms"], row["unavailable_ms"]) == (2, 2)


def test_a_set_that_was_released_is_counted_on() -> None:
    past = with_master(1, 2)
    led_ms = first_master_ms(past)
    past.clean(None, living=True)
    released_ms = led_ms + 1
    until_ms = led_ms + 50_000
    row = changed_over(past, released_ms, until_ms, (released_ms, None))
    assert row["observed_ms"] == until_ms - led_ms, "with controllers, and without them since"
    assert row["availability"] == 1.0


def test_what_controllers_thought_of_a_set_that_had_left_them_does_not_count() -> None:
    """They know it until it is cleaned, and no heartbeat comes any more."""
    past, refused = nobody_left()
    lost_ms = at(refused) - 1_000
    row = changed_over(past, lost_ms, at(refused) + 9_000, (lost_ms, None))
    assert row["masterless_ms"] == 0 and row["unavailable_ms"] == 0


def test_a_set_is_counted_on_also_where_nobody_told_of_its_release() -> None:
    past = with_master(1, 2)
    led_ms = first_master_ms(past)
    past.clean(None, living=True)
    since_ms = led_ms + 20_000  # a broker with id 0 is heard of
    row = acted(past, since_ms, since_ms + 10_000, (since_ms + 1_000, since_ms + 2_000))
    assert row["observed_ms"] >= 10_000 and row["masterless_ms"] == 1_000
