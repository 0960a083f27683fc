"""Group commit on its thread: how many flushes, what ends a wait."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.files.errors import LogError
from brokers.store.log.group_commit import Flushed, FlushQueue, GroupCommit
from tests.unit.brokers.store.log_samples import NOW_MS, message, small_store

LONG_MS = 60_000


class Disk:
    """A flush that waits for the test; `written` becomes durable."""

    def __init__(self) -> None:
        self.written, self.go, self.begun, self.error = 0, threading.Semaphore(0), 0, None

    def flush(self) -> int:
        self.begun += 1
        target = self.written
        assert self.go.acquire(timeout=30)
        if self.error is not None:
            raise self.error
        return target


async def test_many_who_wait_cost_one_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, synced = small_store(tmp_path), []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd))[1])
    commit = GroupCommit(store.flush, pytest.fail)
    waits = [commit.request(store.put(message(), NOW_MS).end_offset, LONG_MS) for _ in range(20)]
    assert set(await asyncio.gather(*waits)) == {Flushed.DURABLE}
    assert store.log.flushed_offset == store.log_end
    assert commit.flushes <= 2 and 1 <= len(synced) <= 2
    commit.close()
    store.close()


async def test_who_comes_during_a_flush_is_served_by_the_next_one() -> None:
    disk = Disk()
    commit = GroupCommit(disk.flush, pytest.fail)
    disk.written = 10
    first = commit.request(10, LONG_MS)
    while not disk.begun:
        await asyncio.sleep(0)
    disk.written = 30
    second, third = commit.request(20, LONG_MS), commit.request(30, LONG_MS)
    disk.go.release()
    assert await first is Flushed.DURABLE and not second.done()
    disk.go.release()
    assert await asyncio.gather(second, third) == [Flushed.DURABLE] * 2 and commit.flushes == 2
    commit.close()


async def test_a_slow_disk_ends_the_wait_in_time_and_not_the_flush() -> None:
    disk = Disk()
    commit = GroupCommit(disk.flush, pytest.fail)
    disk.written = 10
    assert await commit.request(10, 1) is Flushed.TIMED_OUT
    later = commit.request(10, LONG_MS)
    disk.go.release(2)
    assert await later is Flushed.DURABLE
    commit.close()


@pytest.mark.parametrize("error", [LogError("planted"), OSError(5, "planted")])
async def test_a_disk_that_refuses_is_told_once_and_nobody_is_told_durable(
    error: Exception,
) -> None:
    disk, told = Disk(), []
    disk.error = error
    commit = GroupCommit(disk.flush, told.append)
    waits = [commit.request(end, LONG_MS) for end in (10, 20)]
    disk.go.release()
    assert await asyncio.gather(*waits) == [Flushed.FAILED] * 2 and len(told) == 1
    commit.close()


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
