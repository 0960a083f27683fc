"""Pushes that are under way, and those that wait at the follower: their limits."""

from __future__ import annotations

from brokers.majority.entry import Entry
from brokers.majority.quorum.parked import ParkedPushes
from brokers.majority.quorum.waiters import Waiters
from brokers.majority.quorum.window import Sent, Window
from brokers.majority.wire.codes import PushType
from brokers.majority.wire.messages import PushRequest


def test_a_window_counts_entries_and_bytes_until_they_are_held() -> None:
    window = Window(10, 1_000)
    first, second = Sent(0, 3, 400, 5), Sent(4, 4, 700, 9)
    window.add(first)
    window.add(second)
    assert window.room == (5, -100) and window.oldest_ms() == 5
    window.held(3)
    assert first not in window and second in window
    assert window.room == (9, 300) and window.oldest_ms() == 9
    window.held(3)
    assert window.room == (9, 300), "what is out is not taken out again"
    window.clear()
    assert window.room == (10, 1_000) and window.oldest_ms() is None and not window


def test_a_push_sent_again_is_another_one() -> None:
    window = Window(10, 1_000)
    first, again = Sent(0, 3, 400, 5), Sent(0, 3, 400, 50)
    window.add(first)
    window.clear()
    window.add(again)
    window.remove(first)
    assert again in window and window.room == (6, 600)


def push(first: int, count: int = 1, body: bytes = b"x" * 52) -> PushRequest:
    entries = tuple(Entry(first + n, 1, 0, body) for n in range(count))
    return PushRequest(type=PushType.APPEND, entries=entries)


def test_parked_pushes_have_limits_in_entries_and_bytes() -> None:
    parked = ParkedPushes(3, 250)
    assert parked.park("a", push(5), 0) == (True, None)
    assert parked.park("b", push(6, 3), 0)[0] is False, "four entries"
    assert parked.park("c", push(7), 0)[0] is True
    assert parked.park("d", push(8), 0)[0] is False, "300 bytes"
    assert [one.token for one in parked.clear()] == ["a", "c"] and len(parked) == 0
    assert parked.park("e", push(8, 2), 0)[0] is True, "the room came back"


def test_a_newer_push_of_the_same_begin_replaces_the_parked_one() -> None:
    parked = ParkedPushes(3, 250)
    parked.park("a", push(5), 0)
    fits, replaced = parked.park("b", push(5), 3)
    assert fits and replaced is not None and replaced.token == "a"
    assert len(parked) == 1


def test_parked_pushes_come_out_in_order_and_once() -> None:
    parked = ParkedPushes(9, 10_000)
    for token, first in (("b", 7), ("a", 5)):
        parked.park(token, push(first), 10)
    assert parked.next_up_to(4) is None
    first = parked.next_up_to(7)
    assert first is not None and first.token == "a"
    assert parked.older_than(10) is None
    old = parked.older_than(11)
    assert old is not None and old.token == "b" and len(parked) == 0


def test_each_waiter_is_answered_once() -> None:
    waiters = Waiters()
    for index in range(4):
        waiters.add(f"t{index}", index, 100 + index)
    assert [one.token for one in waiters.committed(1)] == ["t0", "t1"]
    assert [one.token for one in waiters.too_late(102)] == ["t2"]
    assert [one.token for one in waiters.not_written(3)] == ["t3"]
    assert waiters.all() == [] and len(waiters) == 0
