"""The steady background work of a broker: flushing the log, writing consumer offsets, noting a regained clean state.

Responsible for: doing these at their periods and never twice at a time. Refuses to know: who writes, who reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from brokers.log.commit_log import LogError
from brokers.log.store import MessageStore
from brokers.service.table_files import TableFiles

_log = logging.getLogger(__name__)


class Upkeep:
    """`storage_failed(reason)` is told of a disk that refused; the replica then ends its role."""

    def __init__(self, store: MessageStore, tables: TableFiles, storage_failed: Callable[[str], None]) -> None:
        self._store, self._tables, self._storage_failed = store, tables, storage_failed

    async def flush_every(self, period_ms: int) -> None:
        """Make the log durable; the work itself runs beside the loop."""
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                await asyncio.to_thread(self._store.checkpoint_job())
            except (LogError, OSError) as error:
                _log.error("the log cannot be flushed: %s", error)
                self._storage_failed(str(error))
                return

    async def save_offsets_every(self, period_ms: int) -> None:
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                self._tables.save_offsets()
            except OSError as error:
                # Tried again next time; consumers at worst read some messages twice.
                _log.error("consumer offsets cannot be written: %s", error)
