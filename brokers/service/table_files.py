"""The files of folder `config`: topics, consumer offsets, subscription groups, what is kept for Java (`broker-wire-and-storage.md` 3.9).

Responsible for: which table is in which file, and that one that cannot be read is never taken for an empty one (S12).
Refuses to know: who changes the tables and when, how a file is kept (`json_files`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from brokers.log.disk import is_full
from brokers.log.json_files import CONSUMER_OFFSET_FILE, SUBSCRIPTION_GROUP_FILE, TOPICS_FILE, JsonFile
from brokers.service.kept_files import KeptFiles
from brokers.service.offsets import ConsumerOffsets
from brokers.service.subscription_groups import SubscriptionGroups
from brokers.service.topics import TopicTable


class TableFiles:
    """The tables of one broker and their files. LogError (one line, with the way out) when a file is damaged."""

    def __init__(self, store_dir: Path) -> None:
        folder = store_dir / "config"
        self.unsaved: set[JsonFile] = set()
        self._offsets_lock = threading.Lock()
        self._offsets_taken = self._offsets_saved = 0
        self._topics_file = JsonFile(folder / TOPICS_FILE)
        self._offsets_file = JsonFile(folder / CONSUMER_OFFSET_FILE)
        self._groups_file = JsonFile(folder / SUBSCRIPTION_GROUP_FILE)
        self.topics = self._topics_file.decoded(TopicTable.from_wire) or TopicTable()
        self.offsets = self._offsets_file.decoded(ConsumerOffsets.from_wire) or ConsumerOffsets()
        self.groups = self._groups_file.decoded(SubscriptionGroups.from_wire) or SubscriptionGroups()
        self.kept = KeptFiles(folder)

    def save_topics(self) -> None:
        """Durable when it returns; OSError when the disk refuses."""
        self._save(self._topics_file, self.topics.to_wire())

    def save_groups(self) -> None:
        """Durable when it returns, unless the disk is full: then `save_late` does it. OSError when it refuses otherwise."""
        try:
            self._save(self._groups_file, self.groups.to_wire())
        except OSError as error:
            if not is_full(error):
                raise

    def save_late(self) -> None:
        """What found no room when it changed. OSError when there still is none."""
        if self._topics_file in self.unsaved:
            self.save_topics()
        if self._groups_file in self.unsaved:
            self._save(self._groups_file, self.groups.to_wire())

    def _save(self, file: JsonFile, document: dict[str, object]) -> None:
        self.unsaved.add(file)
        file.save(document)
        self.unsaved.discard(file)

    def save_offsets(self) -> bool:
        """Write the consumer offsets when they changed; False when there was nothing to write."""
        job = self.offsets_job()
        if job is not None:
            job()
        return job is not None

    def offsets_job(self) -> Callable[[], None] | None:
        """What writes the consumer offsets of this moment, to be called on any thread (OSError); None when none changed."""
        if not self.offsets.dirty:
            return None
        self.offsets.dirty = False
        self._offsets_taken += 1
        number, document = self._offsets_taken, self.offsets.to_wire()

        def run() -> None:
            with self._offsets_lock:
                if number < self._offsets_saved:  # a later job was faster
                    return
                try:
                    self._save(self._offsets_file, document)
                except OSError:
                    self.offsets.dirty = True
                    raise
                self._offsets_saved = number

        return run
