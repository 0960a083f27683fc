"""Bytes of the last whole second."""

from __future__ import annotations

from brokers.ha.flow import FlowMeter


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
