"""Bytes of the last whole second."""

from __future__ import annotations

from brokers.ha.pace import BURST_MS, FlowLimit, FlowMeter


def test_the_second_before_the_present_one_counts() -> None:
    meter = FlowMeter()
    meter.add(10, 5_100)
    meter.add(20, 5_900)
    assert meter.per_second(5_999) == 0
    assert meter.per_second(6_000) == 30
    meter.add(1, 6_500)
    assert meter.per_second(6_999) == 30 and meter.per_second(7_000) == 1


def test_a_link_that_rests_shows_nothing() -> None:
    meter = FlowMeter()
    meter.add(10, 5_100)
    assert meter.per_second(7_000) == 0 and meter.per_second(8_000) == 0


def test_a_limit_fills_by_time_and_forgets_long_rests() -> None:
    limit = FlowLimit(1_000_000, 0)
    burst = limit.room(0)
    assert burst == 1_000_000 * BURST_MS // 1_000
    limit.take(burst)
    assert limit.room(0) == 0
    assert limit.room(10) == 10_000
    assert limit.room(60_000) == burst


def test_over_a_while_no_more_than_the_limit_goes_through() -> None:
    limit, sent = FlowLimit(700, 0), 0
    for now_ms in range(10_001):  # asked more often than a byte fits
        count = min(3, limit.room(now_ms))
        limit.take(count)
        sent += count
    assert 6_900 <= sent <= 7_100
