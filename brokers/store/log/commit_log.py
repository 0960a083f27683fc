"""The commit log on disk: preallocated files of one size, one append position, kept file
descriptors.

Responsible for: PROTOCOL 3.3, 3.4 and the log part of 2.6; that bytes behind the
end are zero after a cut.
Refuses to know: queues, topics, confirm offsets, when to flush.

One thread appends, reads and truncates. `flush` alone may run on another thread.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

from brokers.store.files.disk import (
    has_room,
    last_used_or_unreadable_byte,
    new_file,
    passes,
    remove_files,
    sync_directory,
    wipe,
    write_all,
)
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.log import cut_bytes, scan, segments
from brokers.store.log.log_folder import found_segments
from brokers.store.log.message_log import FileRange, Read, Starts
from brokers.store.log.next_file import NextFile
from brokers.store.log.records import (
    BLANK_BYTES_MIN,
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE_BYTES_MIN,
    encode_blank,
    size_and_magic,
)
from brokers.store.log.segment_files import Segment, SegmentFiles

FILE_BYTES_DEFAULT = 1 << 30
FILE_BYTES_MIN = 1024
# A full disk is asked again after this time: asking may mean to take and return the room of a whole
# file.
FULL_RETRY_S = 0.2


class CommitLog:
    """See the module. `min_offset` .. `end_offset` is what can be read; both are equal when the log
    is empty. It is a `message_log.MessageLog` of records.
    """

    starts: Starts | None = None

    def __init__(
        self,
        directory: Path | str,
        file_bytes: int = FILE_BYTES_DEFAULT,
        blank: Callable[[int], bytes] = encode_blank,
    ) -> None:
        """`blank`: the 8 bytes that close a file with so many bytes left."""
        if file_bytes < FILE_BYTES_MIN:
            raise LogError(
                f"commit log files of {file_bytes} bytes are too small: at least {FILE_BYTES_MIN}"
            )
        self.file_bytes = file_bytes
        self._blank = blank
        self.flushed_offset = 0
        self.end_offset = 0
        self.io_error: str | None = None
        self.disk_full: str | None = None  # why the last write was refused for want of room
        self._full_until = 0.0
        self._directory = Path(directory)
        self.next_file = NextFile(self._directory, file_bytes)
        self._files = SegmentFiles(file_bytes)
        # fdatasync on one side, closing of descriptors on the other
        self._sync_lock = self._files.syncing
        self._segments = found_segments(self._directory, file_bytes)
        self._starts = [segment.start for segment in self._segments]
        self.end_offset = self.capacity_end

    @property
    def min_offset(self) -> int:
        """First offset kept: start of the first file."""
        return self._starts[0] if self._starts else self.end_offset

    @property
    def capacity_end(self) -> int:
        """End of the last file on disk."""
        return self._starts[-1] + self.file_bytes if self._starts else 0

    @property
    def file_starts(self) -> tuple[int, ...]:
        """Start offsets of the files on disk, ascending."""
        return tuple(self._starts)

    @property
    def file_paths(self) -> dict[int, Path]:
        """The files on disk by their start offsets."""
        return {segment.start: segment.path for segment in self._segments}

    def set_recovered_end(self, end: int, flushed: int = 0) -> int:
        """After recovery: the log ends at `end` and is known to be durable up to `flushed`. Wipes
        what lies behind, which is kept in a file beside the log. At the first file's begin that
        file stays, as in `truncate`.

        Returns how many bytes behind `end` were in use (up to the last one that was not zero).
        """
        if (used := self._used_end(end)) > end:
            cut_bytes.keep(self._directory.parent, self.read, end, used)
        cut = self._remove_files_from(end + (0 < end == self.min_offset))
        self.end_offset = end
        if self._starts and end < self.capacity_end:
            cut = max(cut, self._wipe(end, self.capacity_end))
        self.flushed_offset = min(flushed, end)
        return cut

    def _used_end(self, end: int) -> int:
        """Where the bytes in use behind `end` end."""
        for segment in reversed(
            [segment for segment in self._segments if segment.start + self.file_bytes > end]
        ):
            first = max(end - segment.start, 0)
            used = last_used_or_unreadable_byte(self._fd(segment), first, self.file_bytes)
            if used > first:
                return segment.start + used
        return end

    # -- appending

    def append(self, size: int, build: Callable[[int], bytes]) -> int:
        """Appends one record of `size` bytes, which `build(physical offset)` makes; returns that
        offset.

        The record never crosses a file: a blank record closes a file it does not fit into.
        """
        offset = self.reserve(size)
        self.write(offset, build(offset))
        return offset

    def reserve(self, size: int) -> int:
        """Offset at which the next record of `size` bytes goes; closes the file with a blank record
        when it must.
        """
        if size + BLANK_BYTES_MIN > self.file_bytes:
            raise LogError(
                f"a record of {size} bytes does not fit a commit log file of {self.file_bytes}"
            )
        left = self.file_bytes - self.end_offset % self.file_bytes
        if segments.needs_new_file(left, size):
            self.make_file(self.end_offset + left)  # first: without it nothing moves
            self.write(self.end_offset, self._blank(left))
            self.end_offset += left - BLANK_BYTES_MIN
        return self.end_offset

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Writes at the end, which `offset` must be, within one file. DiskFull: nothing of it is
        kept.

        Any other I/O error closes the log for good.
        """
        if self.io_error is not None:
            raise LogError(f"commit log is closed for writing: {self.io_error}")
        if offset != self.end_offset:
            raise LogError(f"write at {offset}, but the log ends at {self.end_offset}")
        if offset >= self.capacity_end:
            self.make_file(segments.file_start(offset, self.file_bytes))
        ahead = offset < self._starts[-1]  # files were made for more than this
        segment = self._segments[bisect_right(self._starts, offset) - 1 if ahead else -1]
        try:
            fd = self._fd(segment)
            segment.written = True
            write_all(fd, data, offset - segment.start)
        except OSError as error:
            self._refuse("write", error)
        self.end_offset = offset + len(data)
        self.disk_full = None
        self.next_file.log_grew(self.end_offset, self.capacity_end)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """Appends a master's bytes unchanged. `offset` is the log's end; an empty log begins at any
        file start.

        Data that reaches over a file's end is split. LogError on a gap or an overlap.
        """
        if not self._starts and offset != self.end_offset:
            if offset % self.file_bytes:
                raise LogError(
                    f"an empty log cannot begin at {offset}: not the start of a file of "
                    f"{self.file_bytes} bytes"
                )
            self._begin_at(offset, data)
            return
        if offset != self.end_offset:
            raise LogError(
                f"replicated bytes start at {offset}, but the log ends at {self.end_offset}"
            )
        view = memoryview(data)
        for at, count in segments.split_by_file(offset, len(view), self.file_bytes):
            self.write(at, view[at - offset : at - offset + count])

    def begin_within(self, offset: int) -> None:
        """An empty log begins here, inside a file if need be: what the file has before stays zero.
        DiskFull, LogError.
        """
        if self._starts:
            raise LogError(f"the log in {self._directory} is not empty")
        self.make_file(segments.file_start(offset, self.file_bytes))
        self.end_offset = self.flushed_offset = offset

    def _begin_at(self, offset: int, data: bytes | memoryview) -> None:
        before = self.end_offset
        self.begin_within(offset)
        try:
            self.append_raw(offset, data)
        except DiskFull:
            if self.end_offset == offset:  # still empty: it may begin elsewhere next time
                self._remove_files_from(offset)
                self.end_offset = self.flushed_offset = before
            raise

    def make_file(self, start: int) -> None:
        """The file that begins at `start` and continues the log, unless it is there. DiskFull:
        nothing changed.
        """
        if self._starts and start < self.capacity_end:
            return
        if self.disk_full is not None and time.monotonic() < self._full_until:
            raise DiskFull(self.disk_full)
        path = self._directory / segments.file_name(start)
        fd = self.next_file.take(start)
        try:
            fd = new_file(path, self.file_bytes) if fd is None else fd
        except OSError as error:
            self._refuse("new file", error)
        segment = Segment(start, path, fd)
        self._segments.append(segment)
        self._starts.append(start)
        self._files.keep(segment, self.flushed_offset)

    def _fd(self, segment: Segment) -> int:
        return (
            segment.fd
            if segment.fd >= 0 and segment.used
            else self._files.fd(segment, self.flushed_offset)
        )

    def ask_for_room(self) -> None:
        """Forgets a refusal for want of room once there is room for a file again, though nobody
        writes.
        """
        if self.disk_full is not None and has_room(self._directory, self.file_bytes):
            self.disk_full = None

    def _refuse(self, action: str, error: OSError) -> NoReturn:
        if not passes(error):
            raise self.fail(action, error) from error
        self.disk_full = f"no room for the commit log in {self._directory}: {error.strerror}"
        self._full_until = time.monotonic() + FULL_RETRY_S
        raise DiskFull(self.disk_full) from error

    def fail(self, action: str, error: OSError) -> LogError:
        """No more writes from now on: `action` failed. Returns what to raise."""
        self.io_error = f"{action} failed: {error}"
        return LogError(f"commit log {self._directory}: {self.io_error}")

    # -- reading

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `offset`; ends at the file's end and at the log's end. Empty
        outside the log.
        """
        piece = self.file_range(offset, max_bytes)
        return os.pread(piece.fileno, piece.count, piece.position) if piece is not None else b""

    def file_range(self, offset: int, max_bytes: int) -> FileRange | None:
        """Where up to `max_bytes` from `offset` lie, for sendfile; never crosses a file. None
        outside the log.
        """
        if not self.min_offset <= offset < self.end_offset:
            return None
        segment = self._segments[bisect_right(self._starts, offset) - 1]
        position = offset - segment.start
        return FileRange(
            self._fd(segment),
            position,
            min(max_bytes, self.file_bytes - position, self.end_offset - offset),
        )

    def walk(
        self, start: int, limit: int, *, check_body: bool, read: Read | None = None
    ) -> scan.LogWalk:
        """Complete messages from `start` up to `limit`."""
        return scan.LogWalk(read or self.read, start, limit, self.file_bytes, check_body=check_body)

    def border_before(self, message: int) -> int:
        """Nothing stands in front of a message."""
        return message

    def is_record_boundary(self, offset: int) -> bool:
        """Whether the log may be cut at `offset` (2.6)."""
        if offset < self.min_offset:
            return False
        return scan.is_record_boundary(self.read, offset, self.end_offset, self.file_bytes)

    def store_ms_at(self, offset: int) -> int | None:
        """Store time (ms since 1970) of the message at `offset`, None when no message header is
        readable there.
        """
        head = self.read(offset, MESSAGE_BYTES_MIN)
        if len(head) < MESSAGE_BYTES_MIN or size_and_magic(head, 0)[1] not in (MAGIC_V1, MAGIC_V2):
            return None
        return store_ms_of(head)

    # -- cutting, flushing, closing

    def truncate(self, offset: int) -> None:
        """The log ends at `offset` from now on, durably: later files are removed, bytes behind it
        are zeroed.

        An offset below the first file, or 0, empties the log (end 0); at the first file's begin
        that file stays, without a record, for it says where the log goes on. LogError above the
        end.
        """
        if offset > self.end_offset:
            raise LogError(f"cannot cut at {offset}: the log ends at {self.end_offset}")
        old_end = self.end_offset
        try:
            self._remove_files_from(offset + (0 < offset == self.min_offset))
            if self._starts:
                self._wipe(offset, min(old_end, self.capacity_end))
            with self._sync_lock:
                self.end_offset = offset if self._starts else 0
                self.flushed_offset = min(self.flushed_offset, self.end_offset)
        except OSError as error:
            raise self.fail("truncate", error) from error

    def trim(self, below: int) -> Callable[[], None]:
        """`forget_before`; returns what removes the files, in their order."""
        return partial(remove_files, self.forget_before(below))

    def forget_before(self, offset: int) -> list[Path]:
        """Out of use from now on: the files that end at or below `offset`, but never one that is
        written to.

        Returns them, oldest first; they must be removed in that order.
        """
        gone: list[Path] = []
        with self._sync_lock:
            while len(self._starts) > 1 and self._starts[1] <= min(offset, self.end_offset):
                segment = self._segments.pop(0)
                self._starts.pop(0)
                segment.close()
                gone.append(segment.path)
        return gone

    def _remove_files_from(self, offset: int) -> int:
        """Removes files that start at or above `offset`, newest first; returns bytes from `offset`
        to the last one's data.
        """
        reach = 0
        if self._starts and self._starts[-1] >= offset:
            self.next_file.drop()
        with self._sync_lock:
            while self._starts and self._starts[-1] >= offset:
                segment = self._segments.pop()
                self._starts.pop()
                used = last_used_or_unreadable_byte(segment.descriptor(), 0, self.file_bytes)
                reach = max(reach, used + segment.start - offset)
                segment.close()
                segment.path.unlink()
            sync_directory(self._directory)
        return reach

    def _wipe(self, first: int, last: int) -> int:
        """Zeroes [first, last) of the last file and syncs it; returns bytes from `first` to the
        last used one.
        """
        segment = self._segments[-1]
        return wipe(self._fd(segment), first - segment.start, last - segment.start)

    def flush(self) -> int:
        """Makes everything appended so far durable; returns the offset up to which it is. May run
        on any thread.
        """
        target = self.end_offset
        with self._sync_lock:
            if self.io_error is not None:
                raise LogError(f"commit log cannot be flushed: {self.io_error}")
            try:
                for segment in tuple(self._segments) if target > self.flushed_offset else ():
                    if (
                        segment.start < target
                        and segment.start + self.file_bytes > self.flushed_offset
                    ):
                        segment.sync()
            except OSError as error:  # never tried again: the kernel may have dropped the pages
                raise self.fail("flush", error) from error
            self.flushed_offset = max(self.flushed_offset, min(target, self.end_offset))
        return self.flushed_offset

    def close(self) -> None:
        """Closes the files; flushes nothing."""
        self.next_file.close()
        with self._sync_lock:
            for segment in self._segments:
                segment.close()
            self._segments.clear()
            self._starts.clear()


def store_ms_of(head: bytes) -> int:
    """storeTimestamp in the first MESSAGE_BYTES_MIN bytes of a message."""
    at = 68 if head[39] & 0x10 else 56
    return int.from_bytes(head[at : at + 8], "big", signed=True)
