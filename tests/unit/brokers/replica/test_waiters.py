"""Waiting for the confirm offset: each once, in order, in time or not."""

from __future__ import annotations

from brokers.replica.waiters import Confirmation, ConfirmWaiters


def waiters(limit: int = 100) -> tuple[ConfirmWaiters[str], list[tuple[str, Confirmation]]]:
    released: list[tuple[str, Confirmation]] = []
    return ConfirmWaiters(lambda who, how: released.append((who, how)), limit=limit), released


def test_waiters_are_released_in_offset_order_up_to_the_confirmed_one() -> None:
    waiting, released = waiters()
    for offset, who in ((30, "c"), (10, "a"), (20, "b"), (10, "a2")):
        assert waiting.add(offset, 1000, who)
    waiting.confirm(9)
    assert released == []
    waiting.confirm(20)
    assert released == [(who, Confirmation.CONFIRMED) for who in ("a", "a2", "b")]
    assert len(waiting) == 1


def test_only_those_whose_time_is_over_expire() -> None:
    waiting, released = waiters()
    waiting.add(10, 500, "early")
    waiting.add(5, 1500, "late")
    waiting.expire(499)
    assert released == []
    waiting.expire(500)
    assert released == [("early", Confirmation.TIMED_OUT)]
    waiting.confirm(10)
    assert released[-1] == ("late", Confirmation.CONFIRMED)
    waiting.expire(10_000)
    assert len(released) == 2


def test_an_abort_releases_everyone_without_success() -> None:
    waiting, released = waiters()
    waiting.add(10, 500, "a")
    waiting.add(5, 500, "b")
    waiting.abort()
    assert released == [("b", Confirmation.ABORTED), ("a", Confirmation.ABORTED)]
    waiting.confirm(100)
    waiting.expire(1000)
    assert len(released) == 2


def test_a_full_queue_takes_no_more() -> None:
    waiting, _ = waiters(limit=2)
    assert waiting.add(1, 1, "a") and waiting.add(2, 1, "b")
    assert not waiting.add(3, 1, "c")
    waiting.confirm(1)
    assert waiting.add(3, 1, "c")
