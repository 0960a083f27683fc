"""The JSON files of folder `config`: topics, consumer offsets, subscription groups (`broker-wire-and-storage.md` 3.9).

Responsible for: reading with the `.bak` behind it, durable writing, the shapes RocketMQ reads too.
Refuses to know: who changes the tables and when.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from brokers.log.checkpoint import replace_file
from brokers.remoting import fastjson
from brokers.service.offsets import ConsumerOffsets
from brokers.service.subscription_groups import SubscriptionGroups
from brokers.service.topics import TopicTable

_log = logging.getLogger(__name__)
Table = TypeVar("Table")


class TableFiles:
    """The tables of one broker and their files."""

    def __init__(self, store_dir: Path) -> None:
        self.folder = store_dir / "config"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.topics = self._read("topics.json", TopicTable.from_wire) or TopicTable()
        self.offsets = self._read("consumerOffset.json", ConsumerOffsets.from_wire) or ConsumerOffsets()
        self.groups = self._read("subscriptionGroup.json", SubscriptionGroups.from_wire) or SubscriptionGroups()

    def save_topics(self) -> None:
        """Durable when it returns; OSError when the disk refuses."""
        self._write("topics.json", self.topics.to_wire())

    def save_groups(self) -> None:
        """Durable when it returns; OSError when the disk refuses."""
        self._write("subscriptionGroup.json", self.groups.to_wire())

    def save_offsets(self) -> bool:
        """Write the consumer offsets when they changed; False when there was nothing to write."""
        if not self.offsets.dirty:
            return False
        self.offsets.dirty = False
        try:
            self._write("consumerOffset.json", self.offsets.to_wire())
        except OSError:
            self.offsets.dirty = True
            raise
        return True

    def _read(self, name: str, decode: Callable[[object], Table]) -> Table | None:
        """The table of a file, or of its `.bak` when it is missing or torn; None when neither can be read."""
        for path in (self.folder / name, self.folder / f"{name}.bak"):
            try:
                return decode(fastjson.loads(path.read_bytes()))
            except FileNotFoundError:
                continue
            except ValueError as error:
                _log.warning("%s cannot be read: %s", path, error)
        return None

    def _write(self, name: str, fields: dict[str, object]) -> None:
        path = self.folder / name
        data = fastjson.dumps(fields)
        try:
            previous = path.read_bytes()
        except FileNotFoundError:
            previous = b""
        if previous:
            path.with_name(f"{name}.bak").write_bytes(previous)
        replace_file(path, data)
