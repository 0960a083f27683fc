"""The wheel's time, and the slot that a message goes into."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.service.sending.timed import TimerRules
from brokers.service.timers.time_rules import (
    BELIEVED_AFTER_MS,
    JUMP_MS,
    SKEW_MS,
    SteadyTime,
    Target,
    may_have_rolled,
    target_of,
)

T = 1_795_413_488_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
RULES = TimerRules()


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS, 2 * JUMP_MS])
def test_a_jump_moves_nothing_before_it_has_lasted(jump_ms: int) -> None:
    time = SteadyTime()
    assert time.now_ms(T, 5) == T
    for steady in range(50, BELIEVED_AFTER_MS, 1_000):
        assert time.now_ms(T + jump_ms + steady, 5 + steady) == T + steady
    assert time.now_ms(T + 99_000, 5 + 99_000) == T + 99_000, "it was put right again"


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_jump_that_lasts_is_followed(jump_ms: int) -> None:
    time = SteadyTime()
    time.now_ms(T, 5)
    time.now_ms(T + jump_ms + 50, 55)
    assert time.now_ms(T + jump_ms + BELIEVED_AFTER_MS, 5 + BELIEVED_AFTER_MS) == (
        T + BELIEVED_AFTER_MS
    )
    later = BELIEVED_AFTER_MS + 100
    assert time.now_ms(T + jump_ms + later, 5 + later) == T + jump_ms + later


def test_two_jumps_must_last_each() -> None:
    time = SteadyTime()
    time.now_ms(T, 0)
    time.now_ms(T + HOUR_MS + 50, 50)
    half = BELIEVED_AFTER_MS // 2
    time.now_ms(T + 2 * HOUR_MS + half, half)
    at = BELIEVED_AFTER_MS + 1_000
    assert time.now_ms(T + 2 * HOUR_MS + at, at) == T + at


def test_a_clock_that_is_slewed_and_a_process_that_stood_still_are_followed() -> None:
    time = SteadyTime()
    time.now_ms(T, 0)
    assert time.now_ms(T + HOUR_MS + 90, HOUR_MS) == T + HOUR_MS + 90


@pytest.mark.parametrize(
    ("delay_ms", "slot_after_ms", "rolls"),
    [
        (0, 0, False),
        (5_000, 5_000, False),
        (2 * DAY_MS - 1_000, 2 * DAY_MS - 1_000, False),
        (2 * DAY_MS, DAY_MS, True),
        (5 * DAY_MS // 2, DAY_MS, True),
        (8 * DAY_MS // 3, 2 * DAY_MS, True),
        (30 * DAY_MS, 2 * DAY_MS, True),
    ],
)
def test_30_what_lies_beyond_the_window_rolls_as_in_rocketmq(
    delay_ms: int, slot_after_ms: int, rolls: bool
) -> None:
    assert target_of(T + delay_ms, T, RULES, follows=False) == Target(T + slot_after_ms, rolls)


@given(st.integers(0, 10 * 86_400), st.integers(0, 3_600), st.integers(-59, 59))
def test_a_slaves_slot_is_never_in_front_of_its_masters(
    delay_s: int, later_s: int, skew_s: int
) -> None:
    """Or the next master would begin behind it, though the last one had not read it."""
    master = target_of(T + delay_s * 1_000, T, RULES, follows=False)
    write_ms = T + max(-59, later_s + skew_s) * 1_000
    slave = target_of(T + delay_s * 1_000, write_ms, RULES, follows=True)
    assert slave.slot_ms >= master.slot_ms
    assert SKEW_MS >= 59_000
    if master.rolls and not slave.rolls:
        assert may_have_rolled(slave.slot_ms, T, RULES), "its slot's reader looks for the second"
