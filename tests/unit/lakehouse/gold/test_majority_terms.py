"""Terms of groups that replicate by majority, from what their members told."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.gold.availability import availability_rows
from lakehouse.gold.majority_terms import (
    by_group,
    changes_of_leader,
    groups_told_until_ms,
    led_group,
    led_groups,
    term_rows_of_groups,
)
from lakehouse.gold.specs import AVAILABILITY, MAJORITY_TERMS
from tests.support.acting_history import one_period
from tests.support.control_history import CLUSTER_ID
from tests.support.majority_history import GROUP, GroupHistory, at, killed_leader
from tests.unit.lakehouse.gold.gold_cases import require_sound


def rows_of(past: GroupHistory) -> list[dict[str, Any]]:
    rows = term_rows_of_groups(past.events())
    require_sound(MAJORITY_TERMS, rows)
    return rows


def led(seconds: float = 3) -> GroupHistory:
    """n0 leads term 1."""
    past = GroupHistory()
    past.starts()
    past.at(seconds).elected("n0", 1, ("n0", "n1"), 3_000)
    past.at(seconds + 0.1).crosses("n0", "n0", 1, 0)
    return past


def test_a_killed_leader_ends_when_the_next_one_heard_it_last() -> None:
    first, second = rows_of(killed_leader())
    assert (first["leader_id"], first["since_ms"], first["ready_ms"]) == ("n0", at(3), at(3.1))
    assert first["until_ms"] == at(60) and "it told no end" in first["why_over"]
    assert (second["leader_id"], second["term"], second["until_ms"]) == ("n1", 2, None)
    assert second["last_word_ms"] == at(60)
    assert second["why_begun"].endswith("n1 had heard no leader for 2500 ms")
    assert [(one["member_id"], one["candidate_id"]) for one in second["votes"]] == [
        ("n1", "n1"),
        ("n2", "n1"),
    ]
    assert (second["entries_cut"], second["cuts"][0]["to_index"]) == (3, 40)
    assert [one["member_id"] for one in second["crossed"]] == ["n1", "n2", "n0"]


def says_so(past: GroupHistory) -> tuple[float, str]:
    past.at(50).over("n0", 1, "it handed over to n1")
    return 50, "it handed over to n1"


def was_stopped(past: GroupHistory) -> tuple[float, str]:
    past.at(50).stops("n0")
    return 50, "its process was stopped (asked to)"


def started_anew(past: GroupHistory) -> tuple[float, str]:
    past.at(50).starts("n0")
    return 50, "its process started anew; when it ended nobody told"


def was_followed(past: GroupHistory) -> tuple[float, str]:
    past.at(50).elected("n1", 2, ("n1", "n2"), 1_500)
    return 48.5, "it told no end; n1, which leads next, heard a leader last then"


def was_followed_by_one_that_never_heard_it(past: GroupHistory) -> tuple[float, str]:
    past.at(50).elected("n1", 2, ("n1", "n2"), 49_500)
    return 50, "it told no end; n1, which leads next, heard a leader last then"


@pytest.mark.parametrize(
    "end",
    [says_so, was_stopped, started_anew, was_followed, was_followed_by_one_that_never_heard_it],
)
def test_a_leader_ends_by_its_own_word_or_by_the_first_sign(end: Any) -> None:
    past = led()
    seconds, why = end(past)
    row = rows_of(past)[0]
    assert (row["until_ms"], row["why_over"]) == (at(seconds), why)


def test_another_members_end_is_none_of_the_leaders() -> None:
    past = led()
    past.at(50).stops("n1")
    past.at(51).starts("n2")
    assert rows_of(past)[0]["until_ms"] is None


def test_a_term_that_nobody_won_has_its_votes() -> None:
    past = led()
    past.at(60).votes("n1", "n1", 2)
    past.at(60).votes("n2", "n2", 2)
    past.at(61).elected("n2", 3, ("n1", "n2"), 4_000)
    rows = rows_of(past)
    assert [(one["term"], one["leader_id"]) for one in rows] == [(1, "n0"), (2, None), (3, "n2")]
    assert len(rows[1]["votes"]) == 2 and rows[1]["until_ms"] is None
    assert rows[0]["until_ms"] == at(57)


def test_a_leader_that_tells_nothing_is_known_by_its_followers() -> None:
    """Java's tell nothing."""
    past = GroupHistory()
    past.starts("n1", "n2")
    past.at(5).crosses("n1", "n0", 4, 10)
    (row,) = rows_of(past)
    assert (row["leader_id"], row["broker_id"], row["ready_ms"]) == ("n0", None, None)
    assert led_group([row], at(100)) is None


def test_an_event_that_landed_twice_counts_once_and_other_sets_events_do_not() -> None:
    past = killed_leader()
    events = past.events()
    doubled = {kind: [*rows, *rows] for kind, rows in events[CLUSTER_ID].items()}
    for kind, rows in one_period().events()[CLUSTER_ID].items():
        doubled[kind] = [*doubled.get(kind, []), *rows]
    assert term_rows_of_groups({CLUSTER_ID: doubled}) == term_rows_of_groups(events)
    assert set(by_group(doubled)) == {GROUP}


def test_how_far_it_reaches_is_the_newest_event_of_a_clock_that_was_right() -> None:
    past = killed_leader()
    assert groups_told_until_ms(past.events()) == at(71.1)
    past.at(40_000_000).votes("n1", "n1", 9)
    assert groups_told_until_ms(past.events()) == at(71.1)
    assert groups_told_until_ms({}) == 0


# -- time without a leader -------------------------------------------------------------------------


def test_time_without_a_leader_is_from_the_last_word_to_the_first_committed_entry() -> None:
    past = killed_leader()
    found = led_groups(past.events(), rows_of(past))[(CLUSTER_ID, GROUP)]
    assert (found.since_ms, found.until_ms) == (at(3.1), at(71.1))
    assert found.unled == ((at(60), at(62.6)),) and found.changes == (at(62.6),)
    (change,) = changes_of_leader(rows_of(past))
    assert (change["old_leader"], change["new_leader"], change["unled_ms"]) == ("n0", "n1", 2_600)


def test_who_was_elected_and_took_no_appends_ends_nothing() -> None:
    past = led()
    past.at(60).elected("n1", 2, ("n1", "n2"), 2_000)
    past.at(61).elected("n2", 3, ("n1", "n2"), 1_000)
    past.at(62).crosses("n2", "n2", 3, 1)
    (change,) = changes_of_leader(rows_of(past))
    assert (change["old_term"], change["new_term"], change["unled_ms"]) == (1, 3, 4_000)


def test_the_same_member_again_is_a_gap_and_no_change() -> None:
    past = led()
    past.at(50).over("n0", 1, "no majority answered it")
    past.at(51).elected("n0", 2, ("n0", "n1"), 1_000)
    past.at(51.2).crosses("n0", "n0", 2, 5)
    found = led_groups(past.events(), rows_of(past))[(CLUSTER_ID, GROUP)]
    assert found.unled == ((at(50), at(51.2)),) and found.changes == ()


def test_a_leader_that_was_stopped_and_has_no_successor_leaves_a_gap_to_the_end() -> None:
    past = led()
    past.at(50).over("n0", 1, "it was stopped")
    past.at(70).starts("n0")
    found = led_groups(past.events(), rows_of(past), reach_ms=at(80))[(CLUSTER_ID, GROUP)]
    assert found.unled == ((at(50), at(80)),)


def test_availability_counts_it_as_it_counts_failovers() -> None:
    past = killed_leader()
    groups = led_groups(past.events(), rows_of(past))
    rows = availability_rows([], [], at(71.1), groups=groups)
    require_sound(AVAILABILITY, rows)
    (day,) = rows
    assert (day["observed_ms"], day["unavailable_ms"], day["masterless_ms"]) == (
        68_000,
        2_600,
        2_600,
    )
    assert (day["failovers"], day["unmeasured"], day["acting_ms"]) == (1, 0, 0)
    assert day["longest_gap_ms"] == 2_600
