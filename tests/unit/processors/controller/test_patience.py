"""How long nothing may come from the log (design D6)."""

from processors.controller.patience import (
    MEMORY_MS,
    PER_WAITING_MAX_MS,
    UNABLE_AFTER_MS,
    UNABLE_MAX_MS,
    Patience,
)


def test_without_load_a_leader_that_is_cut_off_says_so_at_once() -> None:
    assert Patience().limit_ms(5_000) == UNABLE_AFTER_MS


def test_the_limit_grows_with_what_waits_up_to_a_bound() -> None:
    patience = Patience()
    assert patience.limit_ms(0, 100) == UNABLE_AFTER_MS + 100
    assert patience.limit_ms(0, 1_000_000) == UNABLE_AFTER_MS + PER_WAITING_MAX_MS


def test_the_limit_doubles_with_every_recent_leader_and_comes_down_again() -> None:
    patience = Patience()
    patience.succeeded(1_000)
    assert patience.limit_ms(1_001) == 2 * UNABLE_AFTER_MS
    patience.succeeded(2_000)
    assert patience.limit_ms(2_001) == 4 * UNABLE_AFTER_MS
    for _ in range(20):
        patience.succeeded(3_000)
    assert patience.limit_ms(3_001) == UNABLE_MAX_MS
    assert patience.limit_ms(3_000 + MEMORY_MS) == UNABLE_AFTER_MS
