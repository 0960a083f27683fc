"""The files of folder `config`: topics, consumer offsets, subscription groups, what is kept for
Java (PROTOCOL 3.9).

Responsible for: which table is in which file, and that one that cannot be read is never taken for
an empty one (S12).
Refuses to know: who changes the tables and when, how a file is kept (`json_files`).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from pathlib import Path

from brokers.service.tables.kept_for_java import KeptFiles
from brokers.service.tables.left_out import LeftOutEntries
from brokers.service.tables.offsets import ConsumerOffsets
from brokers.service.tables.subscription_groups import SubscriptionGroups
from brokers.service.tables.table_writer import TableWriter
from brokers.service.tables.topics import TopicConfig, TopicTable
from brokers.store.files.json_files import (
    CONSUMER_OFFSET_FILE,
    SUBSCRIPTION_GROUP_FILE,
    TOPICS_FILE,
    JsonFile,
)

_log = logging.getLogger("regent.broker.tables")


class TableFiles:
    """The tables of one broker and their files. LogError (one line, with the way out) when a file
    is damaged.
    """

    def __init__(self, store_dir: Path) -> None:
        folder = store_dir / "config"
        topics, groups = JsonFile(folder / TOPICS_FILE), JsonFile(folder / SUBSCRIPTION_GROUP_FILE)
        offsets = JsonFile(folder / CONSUMER_OFFSET_FILE)
        self.topics = topics.decoded(TopicTable.from_wire) or TopicTable()
        self.offsets = offsets.decoded(ConsumerOffsets.from_wire) or ConsumerOffsets()
        self.offsets.line = secrets.token_hex(8)
        self.groups = groups.decoded(SubscriptionGroups.from_wire) or SubscriptionGroups()
        self.topics_file = TableWriter(topics, lambda: self.topics.text().stored())
        self.groups_file = TableWriter(groups, lambda: self.groups.text())
        self.offsets_file = TableWriter(offsets, self._offsets_text)
        self.kept = KeptFiles(folder)
        self.left_out = LeftOutEntries(_log.error)
        for file, table in ((topics, self.topics), (offsets, self.offsets), (groups, self.groups)):
            self.left_out.note(file.path.name, "file", table.left_out)

    def add_topics(self, configs: Iterable[TopicConfig], wall_ms: int) -> None:
        """Those that are not there, on the disk before anybody asks."""
        topics = self.topics
        missing = [one for one in configs if topics.get(one.name) is None]
        if topics.put(missing, wall_ms):
            self.topics_file.save_now()
        topics.text()  # written down once now, not when this broker becomes master

    def save_late(self) -> None:
        """Try again what found no room when it changed."""
        for writer in (self.topics_file, self.groups_file):
            if writer.unsaved and not writer.is_writing:
                writer.save_soon()

    async def close(self) -> None:
        """Everything is on the disk. What could not be written raises its first error, when all
        else is written.
        """
        refused: Exception | None = None
        for close in (
            self.topics_file.close,
            self.groups_file.close,
            self._close_offsets,
            self._save_kept_late,
        ):
            try:
                await close()
            except Exception as error:  # one table that cannot be written costs no other
                refused = refused or error
        if refused is not None:
            raise refused

    async def _close_offsets(self) -> None:
        if self.offsets.dirty:
            self.offsets_file.save_soon()
        await self.offsets_file.close()

    async def _save_kept_late(self) -> None:
        self.kept.save()

    async def offsets_saved(self) -> None:
        """Offsets and beginnings as they are now are durable when this returns; OSError when the
        disk refused.
        """
        if self.offsets.dirty:
            await self.offsets_file.save()
        else:
            await self.offsets_file.until_saved()

    def _offsets_text(self) -> bytes:
        self.offsets.dirty = False  # what changes from now on is the next write's
        return self.offsets.text()
