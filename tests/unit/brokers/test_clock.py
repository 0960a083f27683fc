"""The two clocks."""

import time

from brokers.clock import Clock


def test_one_clock_never_goes_back_and_the_other_is_the_wall() -> None:
    clock = Clock()
    first = clock.now_ms()
    assert clock.now_ms() >= first
    assert abs(clock.wall_ms() - time.time() * 1000) < 60_000
