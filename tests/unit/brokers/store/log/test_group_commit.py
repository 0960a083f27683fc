"""Group commit on its thread: how many flushes, what ends a wait."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from brokers.store.files.errors import LogError
from brokers.store.log.flush_queue import Flushed
from brokers.store.log.group_commit import GroupCommit
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
