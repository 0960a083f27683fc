"""A commit log on a simulated disk: what `brokers.store.log.commit_log.CommitLog` promises, over
blocks instead of files.

Responsible for: where the log begins and ends, files that are made, cut and deleted, room, power
that goes within a write.
Refuses to know: what a record means, what is dispatched, who asks.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.store.files.errors import DiskFull, LogError
from brokers.store.log import scan, segments
from brokers.store.log.commit_log import store_ms_of
from brokers.store.log.records import BLANK_BYTES_MIN, MESSAGE_BYTES_MIN, encode_blank
from tests.simulation.blocks import Blocks

FILE_BYTES = 4_096


class SimulatedLog:
    """`bytes` are those of the whole log by their offsets, zeros where files are gone. `room`: what
    still fits, None without a limit. `written` is called before each write and may end it.
    """

    io_error = disk_full = starts = None

    def __init__(
        self,
        blocks: Blocks,
        written: Callable[[], None],
        file_bytes: int = FILE_BYTES,
        blank: Callable[[int], bytes] = encode_blank,
    ) -> None:
        self._blocks, self._written = blocks, written
        self.file_bytes, self._blank = file_bytes, blank
        self.room: int | None = None
        self._first = self._first_on_disk = 0

    @property
    def bytes(self) -> bytearray:
        return self._blocks.cached

    @property
    def end_offset(self) -> int:
        return len(self._blocks.cached)

    @property
    def min_offset(self) -> int:
        return self._first

    @property
    def capacity_end(self) -> int:
        return -(-self.end_offset // self.file_bytes) * self.file_bytes

    @property
    def file_starts(self) -> tuple[int, ...]:
        """A first file that begins at 0 is there with its first byte, another one stays when it
        loses its last.
        """
        return tuple(
            range(
                self._first, max(self.end_offset, self._first + (self._first > 0)), self.file_bytes
            )
        )

    # -- appending

    def reserve(self, size: int) -> int:
        """As the real one: a blank record closes the file that has no room for `size` bytes
        more.
        """
        if size + BLANK_BYTES_MIN > self.file_bytes:
            raise LogError(f"a record of {size} bytes does not fit a file of {self.file_bytes}")
        left = self.file_bytes - self.end_offset % self.file_bytes
        if segments.needs_new_file(left, size):
            blank = self._blank(left)
            self.write(self.end_offset, blank + bytes(left - len(blank)))
        return self.end_offset

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """All of it, or DiskFull."""
        assert offset == self.end_offset, f"hole in the log: {offset}, it ends at {self.end_offset}"
        if self.room is not None:
            if len(data) > self.room:
                raise DiskFull("no room for the commit log")
            self.room -= len(data)
        self._written()
        self._blocks.append(data)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """A master's bytes at the end; an empty log begins at any file's start. What was written
        before the disk was full stays.
        """
        begins = self.end_offset == 0 and offset > 0
        if begins:
            assert offset % self.file_bytes == 0, f"a log begins within a file, at {offset}"
            self._blocks.begin_at(offset)
            self._first = self._first_on_disk = offset
        view = memoryview(data)
        try:
            for at, count in segments.split_by_file(offset, len(view), self.file_bytes):
                self.write(at, view[at - offset : at - offset + count])
        except DiskFull:
            if begins and self.end_offset == offset:
                self.truncate(0)  # still empty: it may begin elsewhere next time
            raise

    def open_files(self) -> None:
        """As found: files are made in their full size, and those whose deletion was not finished
        are there again.
        """
        self._first = self._first_on_disk
        self._blocks.cached.extend(bytes(-self.end_offset % self.file_bytes))

    # -- reading

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Bytes from `offset`, never across the end of a file; none outside of the log."""
        if offset < self._first:
            return b""
        file_end = offset - offset % self.file_bytes + self.file_bytes
        return bytes(self.bytes[offset : min(offset + max_bytes, file_end)])

    def file_range(self, offset: int, max_bytes: int) -> None:
        """No file that another process could read: entries are made one by one."""

    def walk(self, start: int, limit: int, *, check_body: bool) -> scan.LogWalk:
        """As the real one."""
        return scan.LogWalk(self.read, start, limit, self.file_bytes, check_body=check_body)

    def is_record_boundary(self, offset: int) -> bool:
        return offset >= self._first and scan.is_record_boundary(
            self.read, offset, self.end_offset, self.file_bytes
        )

    def store_ms_at(self, offset: int) -> int | None:
        head = self.read(offset, MESSAGE_BYTES_MIN)
        return store_ms_of(head) if len(head) == MESSAGE_BYTES_MIN else None

    # -- cutting

    def truncate(self, offset: int) -> None:
        """The end from now on, durably. Below the first file, or at 0, the log is empty, and ends
        at 0.
        """
        if offset < self._first or not offset:
            offset = self._first = self._first_on_disk = 0
        self._blocks.cut(offset, segments.file_start(offset, self.file_bytes))

    def set_recovered_end(self, end: int, flushed: int = 0) -> int:
        """As the real one; the bytes behind `end` that were in use."""
        used = len(self.read_behind(end).rstrip(b"\0"))
        self.truncate(end)
        return used

    def read_behind(self, offset: int) -> bytes:
        return bytes(self.bytes[offset:])

    def forget_before(self, offset: int) -> list[int]:
        """Out of use from now on: files that end at or below `offset`, never the last one. Their
        starts, to be removed in order.
        """
        before = self._first
        newest = segments.file_start(max(self.end_offset - 1, 0), self.file_bytes)
        self._first = max(
            before, min(segments.file_start(min(offset, self.end_offset), self.file_bytes), newest)
        )
        return list(range(before, self._first, self.file_bytes))

    def trim(self, below: int) -> Callable[[], None]:
        """As the real one; whoever asked removes the files, one at a time."""
        self.forget_before(below)
        return lambda: None

    def remove_file(self, start: int) -> None:
        """It is gone, for good."""
        self._written()
        self._blocks.forget(start, start + self.file_bytes)
        self._first_on_disk = start + self.file_bytes
