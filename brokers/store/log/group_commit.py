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

from brokers.store.files.errors import LogError
from brokers.store.log.flush_queue import Flushed, FlushQueue

_log = logging.getLogger(__name__)


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
