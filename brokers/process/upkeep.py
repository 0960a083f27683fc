"""The steady background work of a broker: flushing the log, writing consumer offsets, and what a
full disk left undone.

Responsible for: doing these at their periods and never twice at a time. Refuses to know: who
writes, who reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext

from brokers.process.config import BrokerConfig
from brokers.process.scrubber import Scrubber
from brokers.service.reading.repair import FOUND_BY_DISPATCH, RETRY_MS, Repairs
from brokers.service.tables.table_files import TableFiles
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.index.catch_up import IndexCatchUp
from brokers.store.store import MessageStore

# A kill costs reading this much of the log again; each flush may rewrite all slots.
FLUSH_MS = 30_000
LOOK_MS = 500
PIECE_PAUSE_MS = 5
STUCK_PAUSE_MS = 10_000


class IndexUpkeep:
    """Nothing to do for a store without an index."""

    def __init__(
        self, store: MessageStore, flush_ms: int = FLUSH_MS, look_ms: int = LOOK_MS
    ) -> None:
        self._store = store
        self._flush_ms = flush_ms
        self._look_ms = look_ms

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


_log = logging.getLogger("regent.broker.upkeep")


class Upkeep:
    """`storage_failed(reason)` is called when a disk refused; the replica then ends its role.
    `confirmed(offset)` puts messages up to there into their queues. `keep_held` gives what notes
    how far the log was durable, None when not due. `asks_disk()` is entered around each flush.
    """

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        storage_failed: Callable[[str], None],
        confirmed: Callable[[int], None] = lambda offset: None,
        keep_held: Callable[[], Callable[[], None] | None] = lambda: None,
        asks_disk: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._store = store
        self._tables = tables
        self._storage_failed = storage_failed
        self._confirmed = confirmed
        self._keep_held = keep_held
        self._asks_disk = asks_disk
        self._room_wanted: str | None = None

    async def flush_every(self, period_ms: int) -> None:
        """Make the log durable; the work itself runs beside the loop."""
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                with self._asks_disk():
                    await asyncio.to_thread(self._store.checkpoint_job())
                    if (job := self._keep_held()) is not None:
                        await asyncio.to_thread(job)
                self._note_room(None)
            except DiskFull as error:
                # the log is durable; the older checkpoint only costs reading at the next start
                self._note_room(str(error))
            except (LogError, OSError) as error:
                _log.error("the log cannot be flushed: %s", error)
                self._storage_failed(str(error))
                return

    async def save_offsets_every(self, period_ms: int) -> None:
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                await self._tables.offsets_saved()
                if self._tables.kept.unsaved:
                    await asyncio.to_thread(self._tables.kept.save)
            except OSError as error:
                # Tried again next time; consumers at worst read some messages twice.
                _log.error("consumer offsets cannot be written: %s", error)

    def _note_room(self, wanted: str | None) -> None:
        if (wanted is None) != (self._room_wanted is None):
            _log.warning("%s", wanted or "there is room on the disk again")
        self._room_wanted = wanted

    async def make_good_every(self, period_ms: int) -> None:
        """What a full disk put off: queue entries of confirmed messages, tables, the spare room
        itself.
        """
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                if self._store.spare.refill():
                    self._tables.save_late()
            except OSError as error:
                _log.error("the spare room cannot be set aside yet: %s", error)
            if self._store.dispatched_offset < self._store.confirm_offset:
                self._confirmed(self._store.confirm_offset)


TRIES_MAX = 24
HIDDEN_EVERY_S = 1.0


def store_care(
    config: BrokerConfig, store: MessageStore, repairs: Repairs
) -> list[Coroutine[object, object, None]]:
    """Each runs for as long as the broker does. A log of entries is not repaired yet, and so not
    scrubbed.
    """
    if not store.is_mended:
        return [tell_what_is_hidden(store, repairs), IndexUpkeep(store).run()]
    return [
        repair_what_the_start_found(store, repairs),
        tell_what_is_hidden(store, repairs),
        IndexUpkeep(store).run(),
        Scrubber(store, repairs, config.scrub_bytes_per_s, config.scrub_every_s).run(),
    ]


async def repair_what_the_start_found(store: MessageStore, repairs: Repairs) -> None:
    """Reports damage that was passed over and fetches it from other members as soon as there are
    any; after TRIES_MAX tries the scrubber is left to find it.
    """
    left = list(store.recovery.damaged)
    for _ in range(TRIES_MAX):
        left = [bad for bad in left if not await repairs.waited(bad, "start")]
        if not left:
            return
        await asyncio.sleep(RETRY_MS / 1000)


async def tell_what_is_hidden(store: MessageStore, repairs: Repairs) -> None:
    """Messages whose places in their queues are taken by others are counted as damaged, and told;
    nothing is written.
    """
    hidden = store.dispatcher.hidden
    while True:
        while hidden:
            repairs.wanted(hidden.popleft(), FOUND_BY_DISPATCH)
        await asyncio.sleep(HIDDEN_EVERY_S)
