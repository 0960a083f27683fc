"""Reads from the disk beside the broker's loop.

Responsible for: that they take a few threads and no more, and end with the broker. Refuses to know: what is read.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from brokers.log.cold_query import ColdRead
from brokers.log.query import GetResult

THREADS = 2


class ColdReads:
    """What waits for a free thread waits here, while everything in memory is served."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="cold-read")
        self.done = 0

    async def read(self, cold: ColdRead) -> GetResult:
        """The messages of a cold read."""
        try:
            fetched = await asyncio.get_running_loop().run_in_executor(self._pool, cold.fetch)
        except RuntimeError:  # the broker stops
            cold.close()
            raise
        self.done += 1
        return cold.answer(fetched)

    def close(self) -> None:
        """No more reads; those under way end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)
