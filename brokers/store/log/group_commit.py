"""Group commit: one fdatasync for all that wait, on a thread of its own.

Responsible for: starting the next flush when one is over and somebody waits, ending each wait in
time.
Refuses to know: what was written, who answers whom.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Generic, TypeVar

from brokers.store.files.errors import LogError

W = TypeVar("W")


class Flushed(Enum):
    """How a wait ended. Only DURABLE says that the bytes are on the disk."""

    DURABLE = "durable"
    TIMED_OUT = "timed out"
    FAILED = "the disk refused, or the bytes were cut away"


class FlushQueue(Generic[W]):
    """At most one flush is under way; it covers who came before it began."""

    def __init__(self, release: Callable[[W, Flushed], None]) -> None:
        self._release = release
        self._waiting: list[tuple[int, W]] = []
        self._under_way: list[tuple[int, W]] = []
        self._flushing = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def add(self, end_offset: int, waiter: W) -> None:
        """Wants everything below `end_offset`, which is written already, on the disk."""
        self._waiting.append((end_offset, waiter))

    def begin(self) -> bool:
        """Whether a flush has to start now; `done` or `failed` must follow then."""
        if self._flushing or not self._waiting:
            return False
        self._under_way, self._waiting, self._flushing = self._waiting, [], True
        return True

    def done(self, flushed_offset: int) -> None:
        """The flush is over. What it should have covered and did not was cut away while it ran."""
        covered, self._under_way, self._flushing = self._under_way, [], False
        for end_offset, waiter in covered:
            self._release(
                waiter, Flushed.DURABLE if end_offset <= flushed_offset else Flushed.FAILED
            )

    def failed(self) -> None:
        """The disk refused: whoever waits has nothing to wait for."""
        lost, self._under_way, self._waiting, self._flushing = (
            self._under_way + self._waiting,
            [],
            [],
            False,
        )
        for _, waiter in lost:
            self._release(waiter, Flushed.FAILED)


_log = logging.getLogger("regent.store.log")


class GroupCommit:
    """`flush()` makes what is written durable and returns up to where, on any thread;
    `failed(reason)` is told of a disk that refused. Needs a running event loop; everything is
    called on it.
    """

    def __init__(self, flush: Callable[[], int], failed: Callable[[str], None]) -> None:
        self._flush, self._failed = flush, failed
        self._loop = asyncio.get_running_loop()
        self._queue: FlushQueue[asyncio.Future[Flushed]] = FlushQueue(_release)
        self._thread = ThreadPoolExecutor(1, "group-commit")
        self.flushes = 0

    def request(self, end_offset: int, timeout_ms: int) -> asyncio.Future[Flushed]:
        """Done when everything below `end_offset` is on the disk, or when it will not be in
        time.
        """
        future: asyncio.Future[Flushed] = self._loop.create_future()
        timer = self._loop.call_later(timeout_ms / 1000, _release, future, Flushed.TIMED_OUT)
        future.add_done_callback(lambda _: timer.cancel())
        self._queue.add(end_offset, future)
        self._begin()
        return future

    def _begin(self) -> None:
        if self._queue.begin():
            self.flushes += 1
            self._loop.run_in_executor(self._thread, self._flush).add_done_callback(self._done)

    def _done(self, flush: asyncio.Future[int]) -> None:
        error = asyncio.CancelledError() if flush.cancelled() else flush.exception()
        if error is None:
            self._queue.done(flush.result())
            self._begin()
            return
        self._queue.failed()
        if isinstance(error, (LogError, OSError)):
            _log.error("the log cannot be flushed: %s", error)
            self._failed(str(error))
        elif not isinstance(error, asyncio.CancelledError):
            raise error

    def close(self) -> None:
        """Waits for a flush that is under way; nobody waits any more."""
        self._thread.shutdown()
        self._queue.failed()


def _release(future: asyncio.Future[Flushed], how: Flushed) -> None:
    if not future.done():
        future.set_result(how)
