"""The messages of a log of entries, front to back.

Responsible for: `message_log.RecordWalk` over entries, and where messages begin among many of them.
Refuses to know: files, the index, what is committed.

An entry without a body, filler, and a body that is no message are passed over: the entry's own
length says where the next one begins.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Generator, Iterator

from brokers.majority.entry import HEAD_BYTES, MAGIC_NORMAL
from brokers.majority.positions import physical_offset
from brokers.majority.store.layout import Malformed, decode_head, filler_bytes
from brokers.store.files.errors import is_unreadable
from brokers.store.log.message_log import Read
from brokers.store.log.records import BLANK_BYTES_MIN, Record, RecordError, read_record

WINDOW_BYTES = 1 << 20
_SIZES = struct.Struct(">ii")
_SIZE = struct.Struct(">i")

_log = logging.getLogger("regent.store.majority")


class MessageWalk:
    """See `RecordWalk`. `end` is a border of entries."""

    def __init__(
        self, read: Read, start: int, limit: int, file_bytes: int, *, check_body: bool
    ) -> None:
        self._read = read
        self._limit = limit
        self._file_bytes = file_bytes
        self._check_body = check_body
        self.end = start
        self.reason = ""
        self.incomplete = False

    def __iter__(self) -> Iterator[Record]:
        wanted = WINDOW_BYTES
        while self.end < self._limit and not self.reason:
            start = self.end
            file_end = start - start % self._file_bytes + self._file_bytes
            reachable = min(file_end, self._limit) - start
            try:
                data = self._read(start, min(wanted, reachable))
            except OSError as error:
                if not is_unreadable(error):
                    raise
                self.reason = f"it cannot be read: {error.strerror or error}"
                return
            needed = yield from self._window(data, start, file_end)
            if self.end > start or self.reason:
                wanted = WINDOW_BYTES
            elif needed > reachable:
                self.reason, self.incomplete = "the entry is incomplete", True
            elif len(data) < min(wanted, reachable):
                self.reason = "the log ends"
            else:
                wanted = needed

    def _window(self, data: bytes, start: int, file_end: int) -> Generator[Record, None, int]:
        """Yields the messages of one window; how many bytes what stands at its end needs."""
        at = 0
        while True:
            left, position = len(data) - at, start + at
            if left < BLANK_BYTES_MIN:
                return BLANK_BYTES_MIN
            filler = filler_bytes(data, at)
            if filler is not None:
                self._pass_filler(filler, position, file_end)
                return BLANK_BYTES_MIN
            if left < HEAD_BYTES:
                return HEAD_BYTES
            try:
                head = decode_head(data, at)
            except Malformed as error:
                self.reason = str(error)
                return HEAD_BYTES
            if head.position != position or head.size > file_end - position:
                self.reason = "the entry belongs to another position"
                return HEAD_BYTES
            if head.size > left:
                return head.size
            record = self._message(data, at, position, head.body_bytes)
            at += head.size
            self.end = start + at
            if record is not None:
                yield record

    def _pass_filler(self, filler: int, position: int, file_end: int) -> None:
        if filler != file_end - position:
            self.reason = "filler does not reach the end of its file"
        elif file_end > self._limit:
            self.reason, self.incomplete = "filler is not complete", True
        else:
            self.end = file_end

    def _message(self, data: bytes, at: int, position: int, size: int) -> Record | None:
        """The message of an entry, None when it has none, or its body is none."""
        if not size:
            return None
        at, place = at + HEAD_BYTES, physical_offset(position)
        try:
            if size < _SIZE.size or _SIZE.unpack_from(data, at)[0] != size:
                raise RecordError("its size is not that of its entry")
            record = read_record(data, at, check_body=self._check_body)
            if record.physical_offset != place:
                raise RecordError("it belongs to another position")
        except RecordError as error:
            _log.error("the entry at %d holds no message for any queue: %s", position, error)
            return None
        return record


def message_starts(data: bytes) -> list[int]:
    """Where messages begin in `data`, bytes of one file from a border of entries: as far as entries
    are whole, and each holds a message of its size or nothing.
    """
    found, at, last = [], 0, len(data) - HEAD_BYTES
    while at <= last:
        magic, size = _SIZES.unpack_from(data, at)
        behind = at + size
        if magic != MAGIC_NORMAL or size < HEAD_BYTES or behind > len(data):
            break
        if size >= HEAD_BYTES + _SIZE.size:
            if _SIZE.unpack_from(data, at + HEAD_BYTES)[0] != size - HEAD_BYTES:
                break
            found.append(at + HEAD_BYTES)
        elif size > HEAD_BYTES:
            break
        at = behind
    return found
