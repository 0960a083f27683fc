"""The steady work for the key index: made durable now and then, brought up to the queues when it is
behind.

Responsible for: its pace. Refuses to know: what the index holds, who asks it.
"""

from __future__ import annotations

import asyncio
import logging

from brokers.store.index.catch_up import IndexCatchUp
from brokers.store.store import MessageStore

# A kill costs reading this much of the log again; each flush may rewrite all slots.
FLUSH_MS = 30_000
LOOK_MS = 500
PIECE_PAUSE_MS = 5
STUCK_PAUSE_MS = 10_000

_log = logging.getLogger(__name__)


class IndexUpkeep:
    """Nothing to do for a store without an index."""

    def __init__(
        self, store: MessageStore, flush_ms: int = FLUSH_MS, look_ms: int = LOOK_MS
    ) -> None:
        self._store, self._flush_ms, self._look_ms = store, flush_ms, look_ms

    async def run(self) -> None:
        """For as long as the broker runs."""
        if self._store.index is None:
            await asyncio.Event().wait()
        await asyncio.gather(self._flush(), self._catch_up())

    async def _flush(self) -> None:
        index = self._store.index
        assert index is not None
        flushed = -1
        while True:
            await asyncio.sleep(self._flush_ms / 1000)
            if index.position == flushed:
                continue
            position = index.position
            try:
                await asyncio.to_thread(index.flush_job())
                flushed = position
            except OSError as error:  # the log holds everything: tried again
                _log.error("the key index cannot be flushed: %s", error)

    async def _catch_up(self) -> None:
        index, store = self._store.index, self._store
        assert index is not None
        work = IndexCatchUp(store.log, index)
        while True:
            start = index.position
            piece = work.next_piece(store.dispatched_offset)
            if piece is None:
                index.settle()
                index.trim()
                await asyncio.sleep(self._look_ms / 1000)
                continue
            try:
                records, end, behind = await asyncio.to_thread(piece)
                going = work.take(start, records, end, behind)
                if end == start < index.position:
                    _log.warning(
                        "the key index passes over damage at %d, %d bytes", start, behind - start
                    )
            except OSError as error:
                _log.error("the log cannot be read for the key index at %d: %s", start, error)
                going = False
            await asyncio.sleep((PIECE_PAUSE_MS if going else STUCK_PAUSE_MS) / 1000)
