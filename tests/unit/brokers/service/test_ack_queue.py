"""Sends that wait for their acknowledgement: success only below the confirm offset, and each answered once."""

from brokers.service import ack_queue
from brokers.service.ack_queue import AckQueue


def filled() -> AckQueue[str]:
    queue: AckQueue[str] = AckQueue()
    for end_offset, deadline_ms, reply in ((100, 10, "a"), (200, 11, "b"), (300, 12, "c")):
        queue.push(end_offset, deadline_ms, 100, reply)
    return queue


def test_only_what_ends_at_or_below_the_confirm_offset_succeeds() -> None:
    queue = filled()
    assert queue.confirmed(99) == [] and queue.confirmed(200) == ["a", "b"] and queue.confirmed(200) == []
    assert len(queue) == 1


def test_late_ones_leave_and_are_not_confirmed_afterwards() -> None:
    queue = filled()
    assert queue.timed_out(9) == [] and queue.timed_out(11) == ["a", "b"]
    assert queue.confirmed(1000) == ["c"]


def test_an_abort_takes_everything() -> None:
    queue = filled()
    assert queue.aborted() == ["a", "b", "c"] and queue.confirmed(1000) == [] and not queue.full


def test_bytes_and_count_are_bounded() -> None:
    queue: AckQueue[int] = AckQueue()
    queue.push(1, 1, ack_queue.WAITING_BYTES_MAX, 1)
    assert queue.full
    queue.confirmed(1)
    assert not queue.full
