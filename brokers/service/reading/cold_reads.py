"""Reads from the disk beside the broker's loop.

Responsible for: that they take a few threads and no more, and end with the broker. Refuses to know:
what is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from brokers.store.queues.cold_query import ColdRead
from brokers.store.queues.query import GetResult

THREADS = 2

Result = TypeVar("Result")


class ColdReads:
    """What waits for a free thread waits here, while everything in memory is served."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cold-read")
        self.done = 0

    async def read(self, cold: ColdRead) -> GetResult:
        """The messages of a cold read."""
        try:
            fetched = await self.run(cold.fetch)
        except RuntimeError:  # the broker stops
            cold.close()
            raise
        self.done += 1
        return cold.answer(fetched)

    async def run(self, work: Callable[[], Result]) -> Result:
        """What `work` gives. RuntimeError when the broker stops."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """No more reads; those under way end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)
