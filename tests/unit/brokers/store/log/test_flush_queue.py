"""Who waits for a flush: each told once, none told of a flush that began before its bytes."""

from hypothesis import given
from hypothesis import strategies as st

from brokers.store.log.flush_queue import Flushed, FlushQueue


class Queue:
    def __init__(self) -> None:
        self.told: list[tuple[str, Flushed]] = []
        self.queue: FlushQueue[str] = FlushQueue(
            lambda waiter, how: self.told.append((waiter, how))
        )


def test_one_flush_is_for_all_who_came_before_it_began() -> None:
    one = Queue()
    for name, end in (("a", 10), ("b", 20)):
        one.queue.add(end, name)
    assert one.queue.begin() and not one.queue.begin()
    one.queue.add(15, "late")  # its bytes may have missed the flush, however low they lie
    one.queue.done(20)
    assert one.told == [("a", Flushed.DURABLE), ("b", Flushed.DURABLE)]
    assert one.queue.begin() and len(one.queue) == 1
    one.queue.done(20)
    assert one.told[2:] == [("late", Flushed.DURABLE)] and not one.queue.begin()


def test_bytes_that_were_cut_away_during_the_flush_are_not_waited_for() -> None:
    one = Queue()
    one.queue.add(10, "kept")
    one.queue.add(20, "cut")
    one.queue.begin()
    one.queue.done(12)
    assert one.told == [("kept", Flushed.DURABLE), ("cut", Flushed.FAILED)] and not len(one.queue)


def test_a_disk_that_refused_leaves_nobody_waiting() -> None:
    one = Queue()
    one.queue.add(10, "under way")
    one.queue.begin()
    one.queue.add(20, "waiting")
    one.queue.failed()
    assert (
        one.told == [("under way", Flushed.FAILED), ("waiting", Flushed.FAILED)]
        and not one.queue.begin()
    )


@given(st.lists(st.sampled_from(["add", "begin", "done", "failed"]), max_size=60))
def test_each_is_told_exactly_once_and_durable_only_by_a_flush_that_saw_its_bytes(
    steps: list[str],
) -> None:
    told: dict[int, Flushed] = {}
    end, seen, flushing, asked = 0, 0, False, []

    def release(waiter: int, how: Flushed) -> None:
        assert waiter not in told
        assert how is not Flushed.DURABLE or waiter <= seen
        told[waiter] = how

    queue: FlushQueue[int] = FlushQueue(release)
    for step in steps:
        if step == "add":
            end += 10
            asked.append(end)
            queue.add(end, end)
        elif step == "begin" and queue.begin():
            assert not flushing
            seen, flushing = end, True
        elif step == "done" and flushing:
            queue.done(seen)
            flushing = False
        elif step == "failed" and flushing:
            queue.failed()
            flushing = False
    assert len(told) + len(queue) == len(asked)
