"""A disk that does not answer, and the master that hands over for it."""

import asyncio
import threading
from pathlib import Path

import pytest

from brokers.process import disk_watch
from brokers.process.disk_watch import AGAIN_S, HAND_OVER_S, PROBE_NAME, DiskHandOver, DiskWatch


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_oldest_question_counts_and_an_error_is_an_answer(tmp_path: Path) -> None:
    clock = Clock()
    disk = DiskWatch(tmp_path, clock)
    assert disk.silent_s == 0
    with disk.asks():
        clock.now += 2
        with disk.asks():
            clock.now += 1
            assert disk.silent_s == 3
        assert disk.silent_s == 3
    assert disk.silent_s == 0
    with pytest.raises(OSError), disk.asks():
        raise OSError("refused")
    clock.now += 5
    assert disk.silent_s == 0


def test_the_probe_writes_one_byte_and_leaves_no_descriptor(tmp_path: Path) -> None:
    disk = DiskWatch(tmp_path)
    disk.probe()
    disk.probe()
    assert (tmp_path / PROBE_NAME).read_bytes() == b"."
    with pytest.raises(OSError):
        DiskWatch(tmp_path / "absent").probe()
    assert DiskWatch(tmp_path / "absent").silent_s == 0


def test_it_asks_by_itself_and_ends(tmp_path: Path) -> None:
    before = threading.active_count()
    disk = DiskWatch(tmp_path)
    disk.start()
    asked = threading.Event()
    while not (tmp_path / PROBE_NAME).exists():
        asked.wait(0.02)
    disk.stop()
    while threading.active_count() > before:
        asked.wait(0.02)


class Master:
    def __init__(self, tmp_path: Path, timeout_ms: int = 3_000) -> None:
        self.clock, self.leads = Clock(), True
        self.disk = DiskWatch(tmp_path, self.clock)
        self.tries = 0
        self.care = DiskHandOver(
            self.disk, timeout_ms, lambda: self.leads, self.hand_over, self.clock
        )

    async def hand_over(self) -> None:
        self.tries += 1


async def test_a_master_hands_over_once_the_disk_was_silent_for_too_long(tmp_path: Path) -> None:
    one = Master(tmp_path)
    with one.disk.asks():
        one.clock.now += 3.0
        await one.care.look()
        assert one.tries == 0 and one.care.refusal() is None
        one.clock.now += 0.1
        await one.care.look()
        await one.care.look()
        assert one.tries == 1
        assert one.care.refusal() == "the disk has not answered for 3.1 s here"
        one.clock.now += AGAIN_S - 0.1
        await one.care.look()
        assert one.tries == 1
        one.clock.now += 0.2
        await one.care.look()
        assert one.tries == 2
    assert one.care.refusal() is None


async def test_a_slave_does_not_and_one_that_cannot_is_stuck(tmp_path: Path) -> None:
    one = Master(tmp_path)
    one.leads = False
    with one.disk.asks():
        one.clock.now += 3.1 + HAND_OVER_S
        await one.care.look()
        assert one.tries == 0 and not one.care.stuck
        one.leads = True
        assert one.care.stuck
    assert not one.care.stuck


async def test_its_own_standstill_is_not_the_silence_of_the_disk(tmp_path: Path) -> None:
    """A process that was stopped for 5 s has only not heard the answer yet."""
    one = Master(tmp_path)
    running = asyncio.ensure_future(one.care.run())
    await asyncio.sleep(0)
    with one.disk.asks():
        one.clock.now += 5.0
        assert not one.care.hangs and one.care.refusal() is None
        for _ in range(30):
            one.clock.now += 0.1
            assert not one.care.hangs
        one.clock.now += 0.2
        assert one.care.refusal() == "the disk has not answered for 3.2 s here"
    running.cancel()


async def test_a_hand_over_that_takes_its_time_is_no_standstill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_watch, "LOOK_S", 0.001)
    one = Master(tmp_path)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        for _ in range(20):
            one.clock.now += 0.1
            await asyncio.sleep(0.002)
        ended.set()

    one.care._hand_over = slow
    running = asyncio.ensure_future(one.care.run())
    await asyncio.sleep(0)
    with one.disk.asks():
        while not begun.is_set():
            one.clock.now += 0.1
            await asyncio.sleep(0.002)
        before_s = one.disk.silent_s
        await asyncio.wait_for(ended.wait(), 30)
        assert one.disk.silent_s - before_s > 1.8
    running.cancel()


async def test_without_a_limit_nobody_hands_over(tmp_path: Path) -> None:
    one = Master(tmp_path, timeout_ms=0)
    with one.disk.asks():
        one.clock.now += 1000
        await one.care.look()
        assert one.tries == 0 and not one.care.stuck and one.care.refusal() is None
