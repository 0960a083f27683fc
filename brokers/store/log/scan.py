"""Reading a log front to back: where the last complete message ends, and whether a record starts at
an offset.

Responsible for: the completeness rule of PROTOCOL 3.8 and the alignment rule of
2.6. Works on a read callback, so that the simulation's disk and the real one share it.
Refuses to know: files, queues, what is done with what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from brokers.store.files.errors import is_unreadable
from brokers.store.log.records import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE_BYTES_MIN,
    Record,
    RecordError,
    read_record,
    size_and_magic,
)

WINDOW_BYTES = 1 << 20
# Of what was not flushed, a loss of power takes any of these.
SECTOR_BYTES = 512

# (offset, count) -> up to `count` bytes from `offset`, fewer where the log's files end. Never
# crosses a file.
Read = Callable[[int, int], bytes]


class LogWalk:
    """Iterates over the complete messages from `start`, none of which ends beyond `limit`.

    After the iteration `end` is the position behind the last complete record (blank records passed
    over) and `reason` says in one line why the walk stopped there; it is empty when it reached
    `limit`. `incomplete` tells a record that merely goes on beyond the limit from bytes that are no
    record. A message also has to carry its own position: bytes that an earlier life of the file
    left behind do not count.

    `written_end`: every byte below it was written, as far as is known (default: the limit). Of what
    lies above, the last writes may be missing: a process was killed between them, a copy of the log
    ended inside a record. No checksum covers topic and properties, but neither ever ends in a zero
    byte: such a record counts once something stands behind it.

    `torn_from`: power was lost, and any part of what lies above may be missing (default: none). A
    record whose topic or properties end a sector with a zero does not count. The rest of a header
    is covered by the lengths that lie behind.

    What cannot be read ends the walk as damage does. `go_on` passes over it.
    """

    def __init__(
        self,
        read: Read,
        start: int,
        limit: int,
        file_bytes: int,
        *,
        check_body: bool,
        written_end: int | None = None,
        torn_from: int | None = None,
    ) -> None:
        self._read = read
        self._limit = limit
        self._file_bytes = file_bytes
        self._check_body = check_body
        self._written_end = limit if written_end is None else written_end
        self._torn_from = limit if torn_from is None else torn_from
        self._singly_below = -1  # the disk refused a window that ends here
        self.end = start
        self.reason = ""
        self.incomplete = False

    def go_on(self, offset: int) -> None:
        """The next iteration begins at `offset`, whatever ended the last one."""
        self.end = offset
        self.reason = ""
        self.incomplete = False

    def __iter__(self) -> Iterator[Record]:
        wanted = WINDOW_BYTES
        while self.end < self._limit and not self.reason:
            start = self.end
            file_end = start - start % self._file_bytes + self._file_bytes
            reachable = min(file_end, self._limit) - start
            if wanted == WINDOW_BYTES and start < self._singly_below:
                wanted = 8
            try:
                data = self._read(start, min(wanted, reachable))
            except OSError as error:
                if not is_unreadable(error):
                    raise
                if start < self._singly_below:
                    self.reason = f"it cannot be read: {error.strerror or error}"
                self._singly_below, wanted = max(self._singly_below, start + wanted), WINDOW_BYTES
                continue
            needed = yield from self._walk_window(data, start, file_end)
            if self.end > start or self.reason:
                wanted = WINDOW_BYTES
            elif needed > reachable:
                self.reason, self.incomplete = "record is incomplete", True
            elif len(data) < min(wanted, reachable):
                self.reason = "log ends"
            else:
                wanted = needed

    def _walk_window(self, data: bytes, start: int, file_end: int) -> Generator[Record, None, int]:
        """Yields the messages of one window; returns how many bytes the record at its end needs."""
        at = 0
        while True:
            left = len(data) - at
            if left < 8:
                return 8
            size, magic = size_and_magic(data, at)
            position = start + at
            if magic == MAGIC_BLANK:
                self._pass_blank(size, position, file_end)
                return 8
            if magic != MAGIC_V1 and magic != MAGIC_V2:
                self.reason = "magic is not that of a record"
                return 8
            if size < MESSAGE_BYTES_MIN or size > file_end - position:
                self.reason = "size of the record is impossible"
                return 8
            if size > left:
                return size
            try:
                record = read_record(data, at, check_body=self._check_body)
            except RecordError as error:
                self.reason = error.reason
                return size
            if record.physical_offset != position:
                self.reason = "record belongs to another position"
                return size
            if (
                position + size > self._written_end
                and _ends_in_zero(record)
                and not any(self._read(position + size, 8))
            ):
                self.reason = "the end of the record is not written"
                return size
            if position + size > self._torn_from and _lacks_sector(
                record, data, at, position % self._file_bytes
            ):
                self.reason = "a part of the record is not written"
                return size
            at += size
            self.end = start + at
            yield record

    def _pass_blank(self, size: int, position: int, file_end: int) -> None:
        if size != file_end - position:
            self.reason = "blank record does not reach the end of its file"
        elif file_end > self._limit:
            self.reason, self.incomplete = "blank record is not complete", True
        else:
            self.end = file_end


def _ends_in_zero(record: Record) -> bool:
    return record.properties[-1] == 0 if record.properties else record.topic.endswith("\0")


def _lacks_sector(record: Record, data: bytes, at: int, position: int) -> bool:
    """Whether the topic or the properties of the record at `at` are zero where a sector ends: the
    rest of it was not written, or all of it. `position` in its file.
    """
    properties_at = at + record.size - len(record.properties)
    topic_at = properties_at - 2 - len(record.topic.encode("utf-8", "surrogateescape"))
    for first, last in ((topic_at, properties_at - 2), (properties_at, at + record.size)):
        for sector in range(first - (position + first - at) % SECTOR_BYTES, last, SECTOR_BYTES):
            if last > first and not data[min(sector + SECTOR_BYTES, last) - 1]:
                return True
    return False


def end_of_valid_log(read: Read, start: int, limit: int, file_bytes: int) -> tuple[int, str]:
    """(position behind the last complete record from `start`, why there), body checksums included
    (3.8).
    """
    walk = LogWalk(read, start, limit, file_bytes, check_body=True)
    for _ in walk:
        pass
    return walk.end, walk.reason


def is_record_boundary(read: Read, offset: int, log_end: int, file_bytes: int) -> bool:
    """Whether the log may be cut at `offset` (2.6): nothing readable there, or a valid message or
    blank record starts there.
    """
    if offset >= log_end:
        return True
    file_end = offset - offset % file_bytes + file_bytes
    head = read(offset, 8)
    if len(head) < 8:
        return False
    size, magic = size_and_magic(head, 0)
    if magic == MAGIC_BLANK:
        return size == file_end - offset
    if size < MESSAGE_BYTES_MIN or size > min(file_end, log_end) - offset:
        return False
    try:
        return read_record(read(offset, size), 0, check_body=True).physical_offset == offset
    except RecordError:
        return False
