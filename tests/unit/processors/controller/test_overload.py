"""How many commands are under way at once (design D5)."""

from processors.controller.overload import (
    FORGOTTEN_AFTER_MS,
    MEMORY_MS,
    PER_WAITING_MAX_MS,
    SLOW_MS,
    UNABLE_AFTER_MS,
    UNABLE_MAX_MS,
    UNDER_WAY_MAX,
    UNDER_WAY_MIN,
    Admission,
    Patience,
)


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def filled(now_ms: int = 0) -> Admission:
    admission = Admission()
    for number in range(UNDER_WAY_MAX):
        assert admission.has_room(now_ms)
        admission.begin(key(number), now_ms)
    return admission


def test_a_full_window_has_room_again_when_one_has_come_back() -> None:
    admission = filled()
    assert not admission.has_room(5)
    admission.back(key(7), 5)
    assert admission.has_room(5)
    admission.begin(key(8), 5)
    assert admission.has_room(5), "a repeat under the same id counts once"


def test_one_slow_round_halves_the_window_once() -> None:
    admission = filled()
    for number in range(100):
        admission.back(key(number), SLOW_MS + 1 + number)
    assert admission.window == UNDER_WAY_MAX // 2


def test_the_window_never_closes_and_opens_again_when_commands_come_back_in_time() -> None:
    admission, now_ms = Admission(), 0
    for number in range(20):
        admission.begin(key(number), now_ms)
        now_ms += SLOW_MS + 1
        admission.back(key(number), now_ms)
    assert admission.window == UNDER_WAY_MIN
    for number in range(1_000, 3_000):
        while not admission.has_room(now_ms):
            admission.back(key(number - len(admission)), now_ms)
        admission.begin(key(number), now_ms)
    assert UNDER_WAY_MIN < admission.window <= UNDER_WAY_MAX


def test_a_window_that_is_not_full_does_not_grow() -> None:
    admission = Admission()
    admission.begin(key(1), 0)
    admission.back(key(1), SLOW_MS + 1)
    for number in range(2, 50):
        admission.begin(key(number), 5_000)
        admission.back(key(number), 5_001)
    assert admission.window == UNDER_WAY_MAX // 2


def test_what_never_comes_back_is_not_counted_for_ever() -> None:
    admission = filled()
    admission.gave_up(key(3))
    assert admission.has_room(1)
    admission.begin(key(3), 1)
    assert not admission.has_room(FORGOTTEN_AFTER_MS - 1)
    assert admission.has_room(FORGOTTEN_AFTER_MS) and len(admission) == 1


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
