"""The steady background work of a broker: flushing the log, writing consumer offsets, and what a
full disk left undone.

Responsible for: doing these at their periods and never twice at a time. Refuses to know: who
writes, who reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from brokers.service.tables.table_files import TableFiles
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.store import MessageStore

_log = logging.getLogger(__name__)


class Upkeep:
    """`storage_failed(reason)` is told of a disk that refused; the replica then ends its role.
    `confirmed(offset)` puts messages up to there into their queues. `keep_held` gives what notes
    how far the log was durable, None when not due.
    """

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        storage_failed: Callable[[str], None],
        confirmed: Callable[[int], None] = lambda offset: None,
        keep_held: Callable[[], Callable[[], None] | None] = lambda: None,
    ) -> None:
        self._store, self._tables, self._storage_failed, self._confirmed = (
            store,
            tables,
            storage_failed,
            confirmed,
        )
        self._keep_held = keep_held
        self._room_wanted: str | None = None

    async def flush_every(self, period_ms: int) -> None:
        """Make the log durable; the work itself runs beside the loop."""
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
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
