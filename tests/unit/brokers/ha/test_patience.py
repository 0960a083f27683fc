"""Three silent heartbeats end a link, and a master with a slow heart is not left for ever."""

from __future__ import annotations

import pytest

from brokers.ha.patience import Patience


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
