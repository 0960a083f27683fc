"""A log of entries as a broker's log of messages.

Responsible for: `brokers.store.log.message_log.MessageLog` over an `EntryLog`. Refuses to know: who
appends and cuts, what is committed because of it.

Positions are those of the data log, heads of entries included: a message lies 48 bytes behind its
entry's begin, and ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from brokers.majority.messages.walk import MessageWalk, message_starts
from brokers.majority.positions import entry_position
from brokers.majority.store.entry_log import EntryLog
from brokers.store.files.errors import LogError
from brokers.store.log.message_log import FileRange, Read, Starts


class EntryMessageLog:
    """`entries`: the log below, which others write to and cut."""

    def __init__(self, entries: EntryLog) -> None:
        self.entries = entries
        self.starts: Starts | None = message_starts
        self._data = entries.data
        self.file_bytes = entries.data.file_bytes
        self.read: Read = entries.data.read

    @property
    def min_offset(self) -> int:
        return self._data.min_offset

    @property
    def end_offset(self) -> int:
        return self._data.end_offset

    @property
    def committed_offset(self) -> int:
        """Behind the last committed entry: what lies below may be read, and has its place for
        ever.
        """
        return self.entries.committed_position

    @property
    def file_starts(self) -> tuple[int, ...]:
        return self._data.file_starts

    @property
    def file_paths(self) -> Mapping[int, Path]:
        return self._data.file_paths

    @property
    def io_error(self) -> str | None:
        return self.entries.broken

    @property
    def disk_full(self) -> str | None:
        return self._data.disk_full or self.entries.index.log.disk_full

    def ask_for_room(self) -> None:
        self._data.ask_for_room()
        self.entries.index.log.ask_for_room()

    def file_range(self, offset: int, max_bytes: int) -> FileRange | None:
        return self._data.file_range(offset, max_bytes)

    def walk(
        self, start: int, limit: int, *, check_body: bool, read: Read | None = None
    ) -> MessageWalk:
        """From a border of entries."""
        return MessageWalk(read or self.read, start, limit, self.file_bytes, check_body=check_body)

    def store_ms_at(self, offset: int) -> int | None:
        """Of the message there, or of the first one behind that border of entries."""
        found = self._data.store_ms_at(offset)
        if found is not None:
            return found
        first = next(iter(self.walk(offset, self.end_offset, check_body=False)), None)
        return None if first is None else first.store_ms

    def border_before(self, message: int) -> int:
        return entry_position(message)

    def trim(self, below: int) -> Callable[[], None]:
        """Never behind the last committed entry."""
        return self.entries.trim(below)

    def flush(self) -> int:
        """With the index, and written down: what a start relies on."""
        self.entries.checkpoint()
        return self._data.flushed_offset

    def fail(self, action: str, error: OSError) -> LogError:
        return self._data.fail(action, error)

    def close(self) -> None:
        """Its folder is its member's, who closes it."""
