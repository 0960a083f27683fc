"""Which files go: by age, by hour, by the use of the disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.retention import FILES_PER_ROUND, Limits, LogFile, Policy, decide

HOUR_MS = 3_600_000
POLICY = Policy(72 * HOUR_MS, frozenset({4}), 75, 85, 90)
NOW = 1000 * HOUR_MS
ALL = Limits(1 << 60, 1 << 60)
# each file is full when the next one begins: after 100, 90, 80 and 10 hours before now
FILES = [
    LogFile(0, NOW - 110 * HOUR_MS),
    *(LogFile(k * 10, NOW - h * HOUR_MS) for k, h in ((1, 100), (2, 90), (3, 72), (4, 10))),
]


@pytest.mark.parametrize(
    ("hour", "used", "below"),
    [
        (4, 10, 30),  # its hour: what is older than 72 h
        (5, 10, 0),  # another hour
        (5, 75, 0),
        (5, 75.5, 30),  # little room: at any hour
        (5, 85.5, 40),  # hardly any room: at any age, but never the newest
        (4, 99, 40),
    ],
)
def test_files_go_by_age_at_their_hour_and_by_use_at_any(
    hour: int, used: float, below: int
) -> None:
    made = decide(POLICY, FILES, ALL, used, NOW, hour)
    assert made.delete_below == below
    assert (made.reason != "") == (below > 0) and ("percent" in made.reason) == (used > 85)
    assert made.full == (used > 90)


def test_a_file_goes_by_its_last_message_and_not_by_its_first() -> None:
    files = [LogFile(0, 0), LogFile(10, NOW - HOUR_MS), LogFile(20, NOW)]
    assert decide(POLICY, files, ALL, 10, NOW, 4).delete_below == 0
    unknown = [LogFile(0, 0), LogFile(10, None)]
    assert decide(POLICY, unknown, ALL, 80, NOW, 4).delete_below == 0


def test_a_slave_that_still_copies_holds_files_back_until_the_disk_is_about_to_be_full() -> None:
    slow = Limits(confirmed=35, wanted=15)
    assert decide(POLICY, FILES, slow, 10, NOW, 4).delete_below == 10
    # but nothing that is not confirmed
    assert decide(POLICY, FILES, slow, 86, NOW, 4).delete_below == 30


def test_a_round_takes_only_so_many() -> None:
    files = [LogFile(k, 0) for k in range(100)]
    assert decide(POLICY, files, ALL, 99, NOW, 0).delete_below == FILES_PER_ROUND


@given(
    ages=st.lists(st.integers(0, 200), min_size=1, max_size=20),
    used=st.floats(0, 100),
    hour=st.integers(0, 23),
    confirmed=st.integers(0, 300),
    wanted=st.integers(0, 300),
)
def test_never_the_newest_never_unconfirmed_never_young_without_need(
    ages: list[int], used: float, hour: int, confirmed: int, wanted: int
) -> None:
    files = [
        LogFile(k * 10, NOW - age * HOUR_MS) for k, age in enumerate(sorted(ages, reverse=True))
    ]
    made = decide(POLICY, files, Limits(confirmed, wanted), used, NOW, hour)
    assert made.delete_below in [file.start for file in files]
    gone = [file for file in files if file.start < made.delete_below]
    if gone:
        assert made.delete_below <= confirmed and (used > 85 or made.delete_below <= wanted)
        assert used > 85 or all(
            file.first_ms <= NOW - 72 * HOUR_MS for file in files[1 : len(gone) + 1]
        )  # type: ignore[operator]
        assert used > 75 or hour == 4
