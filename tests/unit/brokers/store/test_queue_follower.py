"""Queues behind a growing log: everything becomes readable, in order, whatever happens to the log
meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.store import queue_follower
from brokers.store.log.scan import LogWalk
from brokers.store.queue_follower import QueueFollower
from brokers.store.queues import dispatch
from brokers.store.queues.entry_process import EntryProcess
from brokers.store.store import MessageStore, StoreConfig
from tests.support.brokers import until
from tests.unit.brokers.store.log_samples import NOW_MS, message
from tests.unit.brokers.store.queues.test_dispatch import entries

FILE_BYTES = 64 * 1024


NEVER = 1 << 30


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "PIECE_BYTES_MIN", 2_000)
    monkeypatch.setattr(dispatch, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(queue_follower, "LAG_BYTES_MAX", 30_000)
    monkeypatch.setattr(queue_follower, "HANDED_BYTES", 20_000)
    monkeypatch.setattr(queue_follower, "PIECES_PER_S", NEVER)
    # a process that loads slowly must not look like a second start
    monkeypatch.setattr(queue_follower, "RETRY_S", float(NEVER))


@pytest.fixture(params=["made here", "made by a process"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "made by a process":
        monkeypatch.setattr(queue_follower, "PIECES_PER_S", 1)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    return request.param


def opened(root: Path) -> MessageStore:
    return MessageStore(
        root, StoreConfig(log_file_bytes=FILE_BYTES, queue_file_bytes=2_000, message_index=False)
    )


@pytest.fixture
def source(tmp_path: Path) -> Iterator[MessageStore]:
    """A master's store: messages of several queues, some of them of a kind that is looked at one by
    one.
    """
    store, dice = opened(tmp_path / "source"), random.Random(1)
    for number in range(1_500):
        topic = "t" * 130 if number % 97 == 0 else "AB"[number % 2]
        size = 12_000 if number % 400 == 0 else dice.randrange(150)
        store.put(
            message(topic, dice.randrange(3), b"x" * size, tag="t%d" % (number % 4)),
            NOW_MS + number,
        )
    store.dispatch_to(store.log_end)
    yield store
    store.close()


class Copy:
    """A slave of it."""

    def __init__(self, root: Path, source: MessageStore) -> None:
        self.store, self.source = opened(root), source
        self.grown: dict[tuple[str, int], int] = {}
        self.follower = QueueFollower(self.store, self._grew)

    def _grew(self, grown: list[tuple[str, int, int]]) -> None:
        for topic, queue_id, end in grown:
            assert end > self.grown.get((topic, queue_id), 0)
            self.grown[topic, queue_id] = end

    def receive(self, count: int) -> None:
        data = self.source.read_log(self.store.log_end, count)
        self.store.append_raw(self.store.log_end, data)
        self.follower.confirmed(self.store.log_end)

    async def with_process(self) -> EntryProcess:
        """From the first piece on there is one."""
        self.receive(15_000)
        self.follower._now()
        helper = self.follower._helper
        assert helper is not None
        await until(lambda: helper.is_free, "the process has loaded")
        return helper

    async def with_stopped_process(self) -> EntryProcess:
        """There is one, it stands still, and a piece is under way to it."""
        helper = await self.with_process()
        os.kill(helper.pid, signal.SIGSTOP)
        self.receive(25_000)
        self.follower._now()
        assert self.follower._under_way is not None
        return helper

    def close(self) -> None:
        self.follower.close()
        self.store.close()


async def test_the_queues_are_the_masters(tmp_path: Path, source: MessageStore, where: str) -> None:
    copy, dice = Copy(tmp_path / "copy", source), random.Random(2)
    if where == "made by a process":
        await copy.with_process()
    while copy.store.log_end < source.log_end:
        copy.receive(dice.choice((50, 700, 9_000, 60_000)))
        if dice.random() < 0.3:
            await asyncio.sleep(0)
    await until(lambda: copy.store.dispatched_offset == source.log_end, "all is readable")
    assert entries(copy.store) == entries(source)
    assert copy.grown == {key: queue.max_offset for key, queue in source.queues}
    copy.close()


async def test_the_lag_is_bounded(tmp_path: Path, source: MessageStore, where: str) -> None:
    copy = Copy(tmp_path / "copy", source)
    if where == "made by a process":
        await copy.with_process()
    while copy.store.log_end < source.log_end:
        copy.receive(60_000)
        copy.follower._now()
        assert copy.follower.lag_bytes <= 30_000 + 12_200  # and a message that is not all there
    copy.close()


async def test_catching_up_leaves_nothing_unread(
    tmp_path: Path, source: MessageStore, where: str
) -> None:
    copy = Copy(tmp_path / "copy", source)
    if where == "made by a process":
        await copy.with_process()
    while copy.store.log_end < source.log_end:
        copy.receive(60_000)
    copy.follower.catch_up()
    assert copy.store.dispatched_offset == source.log_end
    assert entries(copy.store) == entries(source)
    copy.close()


async def test_a_cut_beside_a_piece(
    tmp_path: Path, source: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was cut away is in no queue, though its entries were being made."""
    monkeypatch.setattr(queue_follower, "PIECES_PER_S", 1)
    copy, other = Copy(tmp_path / "copy", source), opened(tmp_path / "other")
    for number in range(200):
        other.put(message("Other", number % 2, b"y" * 40), NOW_MS)
    await copy.with_process()
    copy.receive(25_000)  # more would have to be waited for, and a slow process is given up
    copy.follower._now()
    assert copy.follower._under_way is not None
    copy.store.truncate(0)
    copy.source = other
    copy.receive(9_000)
    await until(lambda: copy.store.dispatched_offset > 0, "the new messages are readable")
    other.dispatch_to(copy.store.log_end)
    copy.follower.catch_up()
    assert {key: found for key, found in entries(copy.store).items() if found} == entries(other)
    copy.close(), other.close()


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_process_that_dies_or_stands_still_costs_nothing_but_time(
    tmp_path: Path, source: MessageStore, monkeypatch: pytest.MonkeyPatch, blow: signal.Signals
) -> None:
    monkeypatch.setattr(queue_follower, "PIECES_PER_S", 1)
    copy = Copy(tmp_path / "copy", source)
    helper = await copy.with_process()
    os.kill(helper.pid, blow)
    while copy.store.log_end < source.log_end:
        copy.receive(60_000)
    copy.follower.catch_up()
    assert entries(copy.store) == entries(source)
    assert not helper.is_alive and copy.follower._helper is None, (
        "the next one is not started at once"
    )
    copy.close()


async def test_a_process_that_dies_is_noticed_without_more_messages(
    tmp_path: Path, source: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_follower, "PIECES_PER_S", 1)
    copy = Copy(tmp_path / "copy", source)
    helper = await copy.with_stopped_process()
    os.kill(helper.pid, signal.SIGKILL)
    await until(
        lambda: copy.follower.lag_bytes < 2_000, "all but an unfinished message is readable"
    )
    copy.close()


async def test_what_a_cut_left_of_a_piece_is_readable_though_its_process_stands_still(
    tmp_path: Path, source: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_follower, "PIECES_PER_S", 1)
    copy = Copy(tmp_path / "copy", source)
    await copy.with_stopped_process()
    starts = [
        record.physical_offset
        for record in LogWalk(
            copy.store.read_log, 0, copy.store.log_end, FILE_BYTES, check_body=False
        )
    ]
    cut = max(start for start in starts if start < copy.store.dispatched_offset + 1_500)
    assert cut > copy.store.dispatched_offset
    copy.store.truncate(cut)
    copy.follower.catch_up()
    assert copy.store.dispatched_offset == cut and copy.follower.lag_bytes == 0
    copy.close()


async def test_a_short_burst_starts_no_process(
    tmp_path: Path, source: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_follower, "PIECES_PER_S", 4)
    copy = Copy(tmp_path / "copy", source)
    copy.receive(20_000)
    copy.follower.catch_up()
    assert copy.follower._helper is None
    copy.close()


async def test_own_messages_are_readable_at_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    follower = QueueFollower(store, lambda grown: None)
    for _ in range(100):
        store.put(message(), NOW_MS)
    follower.confirmed(store.log_end)
    assert store.dispatched_offset == store.log_end
    follower.close(), store.close()


async def test_a_queue_that_cannot_be_written_is_tried_again(
    tmp_path: Path, source: MessageStore
) -> None:
    copy = Copy(tmp_path / "copy", source)
    (tmp_path / "copy" / "consumequeue" / "A").touch()  # no folder can be made here
    copy.receive(20_000)
    await until(
        lambda: copy.follower._due is None and copy.follower._under_way is None, "it was tried"
    )
    assert copy.store.queue_bounds("A", 0) == (0, 0) and copy.follower.lag_bytes
    (tmp_path / "copy" / "consumequeue" / "A").unlink()
    copy.receive(20_000)
    await until(lambda: copy.store.dispatched_offset > 20_000, "the queues go on")
    copy.close()


async def test_nothing_is_done_after_the_end(tmp_path: Path, source: MessageStore) -> None:
    copy = Copy(tmp_path / "copy", source)
    copy.receive(60_000)
    copy.follower._now()
    readable = copy.store.dispatched_offset
    copy.follower.close()
    copy.receive(60_000)
    await asyncio.sleep(0)
    assert copy.store.dispatched_offset == readable
    copy.store.close()
