"""The slow look through all confirmed bytes of the log: damage that nobody reads is found while others still have a copy.

Responsible for: its pace, that it is never in the way, giving what it finds to be repaired.
Refuses to know: how damage shows, who has a copy.
"""

from __future__ import annotations

import asyncio
import logging

from brokers.log.integrity import RECORD_BYTES_MAX, BadRecord, Place
from brokers.log.scrub import Scrubbed, scrub
from brokers.log.segments import file_start
from brokers.log.side_reader import SideRead, side_read
from brokers.log.store import MessageStore
from brokers.service.repair import Repairs

WINDOW_BYTES = 128 * 1024
FIRST_AFTER_S = 60

_log = logging.getLogger(__name__)


class Scrubber:
    """One pass every `every_s` seconds, at `bytes_per_s` (0: none at all)."""

    def __init__(self, store: MessageStore, repairs: Repairs, bytes_per_s: int, every_s: float, first_after_s: float = FIRST_AFTER_S) -> None:
        self._store, self._repairs, self._bytes_per_s = store, repairs, bytes_per_s
        self._every_s, self._first_after_s = every_s, first_after_s
        self.passes = 0

    async def run(self) -> None:
        """For as long as the broker runs."""
        if not self._bytes_per_s:
            await asyncio.Event().wait()
        await asyncio.sleep(self._first_after_s)
        while True:
            await self.look_through()
            self.passes += 1
            await asyncio.sleep(self._every_s)

    async def look_through(self) -> None:
        """One pass over what is confirmed."""
        at, window = self._store.log_min, WINDOW_BYTES
        while (at := max(at, self._store.log_min)) < self._store.confirm_offset:
            end = await self._look(at, window)
            window = WINDOW_BYTES if end > at else RECORD_BYTES_MAX
            await asyncio.sleep(max(end - at, WINDOW_BYTES // 8) / self._bytes_per_s)
            at = end

    async def _look(self, at: int, window: int) -> int:
        """Where to go on: `at` itself when a larger window is needed."""
        store, log = self._store, self._store.log
        limit = min(store.confirm_offset, at + window, file_start(at, log.file_bytes) + log.file_bytes)
        whole = window == RECORD_BYTES_MAX
        read = side_read(log, at, limit - at)
        found = await asyncio.to_thread(_scrubbed, read, at, limit - at, log.file_bytes, whole)
        for bad in found.bad:
            if store.log_min <= bad.place.offset < store.confirm_offset:
                await self._repairs.waited(bad, "scrub")
        return found.end


def _scrubbed(read: SideRead, at: int, count: int, file_bytes: int, whole: bool) -> Scrubbed:
    try:
        data = read()
    except OSError as error:
        return Scrubbed(at + count, [BadRecord(Place(at, 0), f"it cannot be read: {error.strerror or error}")])
    if len(data) < count:  # cut or deleted meanwhile
        return Scrubbed(at + count, [])
    return scrub(data, at, file_bytes, whole=whole)
