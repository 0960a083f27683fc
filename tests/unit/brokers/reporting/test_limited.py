"""How many facts are told in a time."""

import pytest

from brokers.reporting.limited import TOLD_AT_ONCE, TOLD_PER_S, Limited


@pytest.mark.parametrize(("waits_ms", "more"), [(0, 0), (100, 1), (1_000, TOLD_PER_S)])
def test_after_a_burst_so_many_more_are_told(waits_ms: int, more: int) -> None:
    limit = Limited(5_000)
    assert sum(limit.lets_through(5_000) for _ in range(2 * TOLD_AT_ONCE)) == TOLD_AT_ONCE
    now_ms = 5_000 + waits_ms
    assert sum(limit.lets_through(now_ms) for _ in range(2 * TOLD_AT_ONCE)) == more


def test_a_rest_gives_no_more_than_one_burst() -> None:
    limit = Limited(0)
    assert sum(limit.lets_through(86_400_000) for _ in range(1_000)) == TOLD_AT_ONCE
