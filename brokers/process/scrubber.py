"""The slow look through all confirmed bytes of the log: damage that nobody reads is found while
others still have a copy.

Responsible for: its pace, that it is never in the way, giving what it finds to be repaired.
Refuses to know: how damage shows, who has a copy.
"""

from __future__ import annotations

import asyncio
import logging

from brokers.service.reading.repair import Repairs
from brokers.store.log.records import MESSAGE_BYTES_MIN
from brokers.store.log.scrub import PIECE_BYTES_MAX, Scrubbed, scrub
from brokers.store.log.segments import file_start
from brokers.store.log.side_reader import SideRead, side_read_around
from brokers.store.store import MessageStore

WINDOW_BYTES = 128 * 1024
FIRST_AFTER_S = 60

_log = logging.getLogger("regent.broker.scrubber")


class Scrubber:
    """One pass every `every_s` seconds, at `bytes_per_s` (0: none at all)."""

    def __init__(
        self,
        store: MessageStore,
        repairs: Repairs,
        bytes_per_s: int,
        every_s: float,
        first_after_s: float = FIRST_AFTER_S,
    ) -> None:
        self._store = store
        self._repairs = repairs
        self._bytes_per_s = bytes_per_s
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
        store, file_bytes = self._store, self._store.log.file_bytes
        now, window, retried = Scrubbed(store.log_min, []), WINDOW_BYTES, -1
        while True:
            if now.end < store.log_min or (
                now.lost
                and now.end + MESSAGE_BYTES_MIN > file_start(now.end, file_bytes) + file_bytes
            ):
                # a file begins with a record
                now = Scrubbed(max(store.log_min, file_start(now.end, file_bytes) + file_bytes), [])
            end = self._end(now.end, window)
            if end <= now.end:
                return
            found = await self._look(now, end)
            repaired = await self._repair(found)
            read_bytes = max(found.end - now.end, WINDOW_BYTES // 8)
            if repaired is not None and repaired > retried:
                # whole again, it leads to those behind it
                now, retried = Scrubbed(repaired, []), repaired
            elif found.end > now.end:
                now, window = found, WINDOW_BYTES
            elif window < PIECE_BYTES_MAX:
                window = min(8 * window, PIECE_BYTES_MAX)
            else:
                return  # what is confirmed ends within a record
            await asyncio.sleep(read_bytes / self._bytes_per_s)

    def _end(self, at: int, window: int) -> int:
        file_bytes = self._store.log.file_bytes
        return min(self._store.confirm_offset, at + window, file_start(at, file_bytes) + file_bytes)

    async def _look(self, now: Scrubbed, end: int) -> Scrubbed:
        """The piece from now.end to `end`."""
        store, at = self._store, now.end
        whole = end == store.dispatched_offset or end % store.log.file_bytes == 0
        read = side_read_around(store.log, at, end - at)
        return await asyncio.to_thread(_scrubbed, read, now, end, store.log.file_bytes, whole)

    async def _repair(self, found: Scrubbed) -> int | None:
        """The first place that was repaired, if the places behind it were not proven for want of
        it.
        """
        store, first = self._store, None
        for bad in found.bad:
            if (
                store.log_min <= bad.place.offset < store.confirm_offset
                and await self._repairs.waited(bad, "scrub")
            ):
                first = bad.place.offset if first is None else first
        return None if found.proven else first


def _scrubbed(read: SideRead, now: Scrubbed, end: int, file_bytes: int, whole: bool) -> Scrubbed:
    data = read()
    if len(data) < end - now.end:  # cut or deleted meanwhile
        return Scrubbed(now.end, [])
    return scrub(data, now.end, file_bytes, whole=whole, proven=now.proven, lost=now.lost)
