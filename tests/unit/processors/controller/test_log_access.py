"""Whether a controller gets through to the log (design D6)."""

from processors.controller.log_access import QUESTION_EVERY_MS, LogAccess
from processors.controller.patience import UNABLE_AFTER_MS, UNABLE_MAX_MS


def test_who_has_just_read_the_log_is_able_and_asks_after_a_while() -> None:
    access = LogAccess()
    assert access.is_able(10) and not access.is_question_due(10)
    assert not access.is_question_due(9 + QUESTION_EVERY_MS)
    assert access.is_question_due(10 + QUESTION_EVERY_MS)


def test_who_does_not_learn_the_end_any_more_is_not_able() -> None:
    access = LogAccess()
    access.answered(5, 4, 1_000)
    limit_ms = 1_000 + QUESTION_EVERY_MS + UNABLE_AFTER_MS
    assert access.is_able(limit_ms) and not access.is_able(limit_ms + 1)
    access.answered(5, 4, limit_ms + 10)
    assert access.is_able(limit_ms + 11)


def test_who_learns_the_end_and_does_not_get_what_stands_before_it_is_not_able() -> None:
    access = LogAccess()
    access.answered(5, 3, 1_000)
    for now_ms in range(1_500, 4_000, 500):
        access.answered(9, 3, now_ms)
    assert not access.is_able(1_001 + UNABLE_AFTER_MS)
    access.applied(4, 4_000)
    assert access.is_able(4_000)


def test_who_is_far_behind_but_comes_forward_is_able_for_long_but_not_current() -> None:
    access = LogAccess()
    access.answered(500, 0, 1_000)
    for now_ms in range(1_500, 1_000 + UNABLE_MAX_MS, 500):
        access.answered(500, 3, now_ms)
        access.applied(now_ms // 500, now_ms)
        assert access.is_able(now_ms)
    assert not access.is_current(1_001 + UNABLE_AFTER_MS)
    access.answered(500, 100, 1_001 + UNABLE_MAX_MS)
    access.applied(100, 1_001 + UNABLE_MAX_MS)
    assert not access.is_able(1_001 + UNABLE_MAX_MS), "another one may try"


def test_records_that_arrive_stand_in_for_word_of_the_end_for_a_while() -> None:
    access = LogAccess()
    access.answered(1, 0, 1_000)
    for now_ms in range(1_500, 1_000 + UNABLE_MAX_MS, 500):
        access.applied(now_ms // 500, now_ms)
        assert access.is_able(now_ms)
    late_ms = 1_001 + QUESTION_EVERY_MS + UNABLE_MAX_MS
    access.applied(999, late_ms)
    assert not access.is_able(late_ms)


def test_a_limit_that_is_longer_is_kept() -> None:
    access = LogAccess()
    access.answered(5, 3, 1_000)
    assert not access.is_able(3_500) and access.is_able(3_500, limit_ms=3_000)


def test_who_has_learnt_the_end_since_then_and_has_what_stands_before_it_is_current() -> None:
    access = LogAccess()
    access.answered(5, 4, 1_000)
    assert access.is_current(1_100, since_ms=1_000) and not access.is_current(1_100, since_ms=1_001)
    assert not access.is_current(1_001 + QUESTION_EVERY_MS + UNABLE_AFTER_MS)
