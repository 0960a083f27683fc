"""What age a file has, whatever clocks say. The table of cases that retention's rule was written
for.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.held_time import Begun, HeldTime, held_time_of
from brokers.store.log.retention import Limits, LogFile, Policy, decide

HOUR_MS = 3_600_000
POLICY = Policy(72 * HOUR_MS, frozenset({4}), 75, 85, 90)
ALL = Limits(1 << 60, 1 << 60)
NOW = 1_764_000_000_000
STEADY = [NOW - 3 * HOUR_MS, NOW - 2 * HOUR_MS, NOW - HOUR_MS]


@pytest.mark.parametrize(
    ("stored_ms", "ran_hours", "deleted"),
    [
        (STEADY, 1, 0),
        (STEADY, 71, 0),
        (STEADY, 72, 20),  # all but the newest, however idle the log was meanwhile
        ([5_000, 60_000, 90_000], 1, 0),  # stored while the clock stood at 1970
        ([5_000, 60_000, NOW], 1, 0),  # and then was set
        ([5_000, 60_000, NOW], 72, 20),  # they do not stay for ever, either
        ([NOW, NOW + 80 * HOUR_MS, NOW + 1], 1, 0),  # the master's clock was ahead for one message
        ([NOW, NOW + 80 * HOUR_MS, NOW + 1], 72, 20),
        ([NOW, 1 << 60, NOW], 72, 20),
        # it was set back; or a replica copied an old log just now
        ([NOW, NOW - 100 * HOUR_MS, NOW - 99 * HOUR_MS], 1, 0),
    ],
)
def test_only_time_that_the_broker_ran_makes_a_file_old(
    stored_ms: list[int], ran_hours: int, deleted: int
) -> None:
    starts = [0, 10, 20]
    stored = dict(zip(starts, stored_ms, strict=True))
    held = HeldTime().after(0, starts, stored.get).after(ran_hours * HOUR_MS, starts, stored.get)
    assert decide(POLICY, held.oldest(starts), ALL, 10, held.ran_ms, 4).delete_below == deleted


def test_a_file_is_as_old_as_the_one_behind_it_and_a_full_disk_asks_for_no_age() -> None:
    held = HeldTime().after(0, [0], {0: 1}.get).after(100 * HOUR_MS, [0, 10], {0: 1, 10: 2}.get)
    assert held.oldest([0, 10]) == [LogFile(0, 0), LogFile(10, 100 * HOUR_MS)]
    assert decide(POLICY, held.oldest([0, 10]), ALL, 10, held.ran_ms, 4).delete_below == 0
    assert decide(POLICY, held.oldest([0, 10]), ALL, 86, held.ran_ms, 5).delete_below == 10


def test_a_file_that_is_another_now_or_has_no_message_yet_is_new() -> None:
    held = HeldTime().after(0, [0, 10, 20], {0: 1, 10: 2}.get)
    assert held.begun == {0: Begun(1, 0), 10: Begun(2, 0)}
    held = held.after(7, [0, 10, 20], {0: 1, 10: 9, 20: 3}.get)
    assert held.begun == {0: Begun(1, 0), 10: Begun(9, 7), 20: Begun(3, 7)}
    assert held.after(1, [10, 20], {10: 9, 20: 3}.get).begun == {10: Begun(9, 7), 20: Begun(3, 7)}


@given(
    st.dictionaries(
        st.integers(0, 1 << 62), st.tuples(st.integers(-(1 << 62), 1 << 62), st.integers(0, 1000))
    )
)
def test_it_is_kept_as_json(begun: dict[int, tuple[int, int]]) -> None:
    held = HeldTime(1000, {start: Begun(*value) for start, value in begun.items()})
    assert held_time_of(held.document()) == held


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        None,
        {"ranMs": -1, "files": {}},
        {"ranMs": "1", "files": {}},
        {"ranMs": 1, "files": []},
        {"ranMs": 1, "files": {"x": [1, 1]}},
        {"ranMs": 1, "files": {"0": [1, 2]}},
        {"ranMs": 1, "files": {"0": [1]}},
        {"ranMs": 1, "files": {"0": 1}},
    ],
)
def test_what_is_no_held_time_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="held time|file of the log"):
        held_time_of(document)


def test_a_clock_never_takes_time_back() -> None:
    assert HeldTime(5).after(-3, [], {}.get).ran_ms == 5
