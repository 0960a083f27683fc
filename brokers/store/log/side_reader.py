"""Reading the log beside the thread that owns it.

Responsible for: that such a read never meets a closed or reused descriptor. Refuses to know:
threads, what is read and why.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from brokers.store.log.message_log import MessageLog

# What a disk reads and loses at once, at least.
SECTOR_BYTES = 4096

# Gives the bytes, once; on any thread. OSError when the disk refuses.
SideRead = Callable[[], bytes]


class SideLog:
    """The log as it is now, to be read on another thread: opens its files by their names, one at a
    time.
    """

    def __init__(self, log: MessageLog) -> None:
        """Made on the log's thread."""
        self._paths, self._file_bytes = log.file_paths, log.file_bytes
        self._min_offset, self._end_offset = log.min_offset, log.end_offset
        self._fd, self._start = -1, -1

    def read(self, offset: int, max_bytes: int) -> bytes:
        """As `MessageLog.read`. Empty too where the file is gone meanwhile. OSError."""
        if not self._min_offset <= offset < self._end_offset:
            return b""
        position = offset % self._file_bytes
        count = min(max_bytes, self._file_bytes - position, self._end_offset - offset)
        return os.pread(self._fd, count, position) if self._open(offset - position) else b""

    def _open(self, start: int) -> bool:
        if start != self._start:
            self.close()
            try:
                self._fd = os.open(self._paths[start], os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, KeyError):
                return False
            self._start = start
        return True

    def close(self) -> None:
        """Harmless when nothing is open."""
        fd, self._fd, self._start = self._fd, -1, -1
        if fd >= 0:
            os.close(fd)


def side_read(log: MessageLog, offset: int, count: int) -> SideRead:
    """A read of up to `count` bytes at `offset`, ending with the file. Taken on the log's
    thread.
    """
    return _side_read(log, offset, count, os.pread)


def side_read_around(log: MessageLog, offset: int, count: int) -> SideRead:
    """As `side_read`, with zeros in the place of each SECTOR_BYTES that the disk cannot read."""
    return _side_read(log, offset, count, _read_around)


def _side_read(
    log: MessageLog, offset: int, count: int, pread: Callable[[int, int, int], bytes]
) -> SideRead:
    """`pread(descriptor, count, position)`, of a descriptor of its own."""
    piece = log.file_range(offset, count)
    if piece is None:
        return _nothing
    fd = os.dup(piece.fileno)

    def read() -> bytes:
        try:
            return pread(fd, piece.count, piece.position)
        finally:
            os.close(fd)

    return read


def _read_around(fd: int, count: int, position: int) -> bytes:
    try:
        return os.pread(fd, count, position)
    except OSError:
        rest = SECTOR_BYTES - position % SECTOR_BYTES
        if count <= rest:
            return bytes(count)
    first = max(count // 2 - (position + count // 2) % SECTOR_BYTES, rest)
    return _read_around(fd, first, position) + _read_around(fd, count - first, position + first)


def _nothing() -> bytes:
    return b""
