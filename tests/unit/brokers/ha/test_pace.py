"""Bytes of the last whole second."""

from __future__ import annotations

import pytest

from brokers.ha.pace import BURST_MS, FlowLimit, FlowMeter, Patience, is_ack_due


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


WINDOW = 16 << 20


@pytest.mark.parametrize(
    ("end", "acked", "silent_ms", "due"),
    [
        (500, 500, 99, False),  # nothing new
        (1000, 999, 0, True),  # all that the master had
        (1500, 1000, 0, True),  # newer than that
        (900, 100, 0, False),
        (900, 100, 10, True),
    ],
)
def test_at_once_where_somebody_may_wait(end: int, acked: int, silent_ms: int, due: bool) -> None:
    assert is_ack_due(end, acked, master_end=1000, window_bytes=WINDOW, silent_ms=silent_ms) is due


def test_a_master_that_stops_at_its_window_hears_of_it_in_time() -> None:
    for window in (4, 1000, WINDOW):
        assert is_ack_due(window // 4, 0, master_end=1 << 40, window_bytes=window, silent_ms=0)
        assert not is_ack_due(
            window // 4 - 1, 0, master_end=1 << 40, window_bytes=window, silent_ms=0
        )


@pytest.mark.parametrize(
    ("heartbeat_ms", "longest_ms", "limit_ms"),
    [
        (1_000, 20_000, 3_000),
        (5_000, 20_000, 15_000),
        (10_000, 20_000, 20_000),
        (50, 20_000, 1_000),
        (1_000, 700, 700),
    ],
)
def test_three_heartbeats_within_what_is_borne_at_all(
    heartbeat_ms: int, longest_ms: int, limit_ms: int
) -> None:
    assert Patience(heartbeat_ms, longest_ms).limit_ms == limit_ms


def test_a_master_that_answers_at_the_first_attempt_is_given_twice_the_time() -> None:
    patience, limits = Patience(1_000, 20_000), []
    for _ in range(5):
        patience.left_silent()
        patience.answered()
        limits.append(patience.limit_ms)
    assert limits == [6_000, 12_000, 20_000, 20_000, 20_000]


def test_a_silence_in_which_nobody_was_reached_makes_no_more_patient() -> None:
    patience = Patience(1_000, 20_000)
    patience.answered()
    patience.left_silent()
    patience.unreachable()
    patience.answered()
    assert patience.limit_ms == 3_000
