"""The delay levels of a process: their text, and that they count wherever an entry is made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokers.service.delivery.levels import DelayLevel
from brokers.store.log.delay_levels import (
    DELAY_LEVELS,
    LEVELS_MAX,
    delay_levels,
    levels_in_force,
    use_delay_levels,
)
from brokers.store.log.properties import SCHEDULE_TOPIC, delay_level, tags_code


@pytest.fixture
def own_levels() -> Iterator[None]:
    before = levels_in_force()
    use_delay_levels(delay_levels("2s 3m 1d"))
    yield
    use_delay_levels(before)


def test_rocketmqs_own_levels_are_in_force_until_others_are_set() -> None:
    levels = delay_levels(DELAY_LEVELS)
    assert levels_in_force() == levels
    assert len(levels) == 18 and (levels[0], levels[4], levels[-1]) == (1_000, 60_000, 7_200_000)


@pytest.mark.parametrize(
    ("text", "found"),
    [("1s", (1_000,)), (" 2m\t1h ", (120_000, 3_600_000)), ("400d", (34_560_000_000,))],
)
def test_a_list_of_times_is_read(text: str, found: tuple[int, ...]) -> None:
    assert delay_levels(text) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "1", "s", "1x", "0s", "-1s", "1.5s", "401d", "1s,5s", "1S", "9999999999s"),
        "1s " * (LEVELS_MAX + 1),
        "1s " + "x" * 100_000,
    ],
)
def test_what_is_no_such_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="level"):
        delay_levels(text)


@pytest.mark.usefixtures("own_levels")
def test_entries_and_deliveries_go_by_the_levels_in_force() -> None:
    assert delay_level(b"DELAY\x0118\x02") == 3
    assert tags_code(b"DELAY\x012\x02", SCHEDULE_TOPIC, 1_000) == 181_000
    assert DelayLevel(3, 0).delay_ms == 86_400_000
