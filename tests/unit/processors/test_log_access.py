"""Whether a controller gets through to the log (design D6)."""

from processors.log_access import QUESTION_EVERY_MS, UNABLE_AFTER_MS, LogAccess


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
    access.applied(3)
    assert not access.is_able(4_000)
    access.applied(4)
    assert access.is_able(4_000)
