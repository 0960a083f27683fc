"""The descriptors of a log's files: a bounded number of them, for a log of any size.

Responsible for: opening by use; that no descriptor is closed under a flush, or before what was
written through it is durable.
Refuses to know: what the files hold, who reads and writes.

One thread opens and closes. `syncing` is held while another one makes files durable; closing never
waits for it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from brokers.store.files.open_files import Unsynced

CLOSED = -1
# Of files that nobody writes to: a log of a terabyte has a thousand.
OPEN_SEGMENTS_MAX = 64


@dataclass(slots=True, eq=False)
class Segment:
    """One file of the log; `start`: global offset of its first byte. `written`: bytes went through
    `fd`.
    """

    start: int
    path: Path
    fd: int = CLOSED
    written: bool = False
    used: bool = False

    def descriptor(self) -> int:
        """Opened when it is not. OSError."""
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        return self.fd

    def close(self) -> None:
        """Harmless when it is closed."""
        fd, self.fd = self.fd, CLOSED
        if fd >= 0:
            os.close(fd)

    def sync(self) -> None:
        """Makes its bytes durable, on any thread that holds `syncing`. OSError; DiskFull when it
        cannot be opened for now.
        """
        if self.fd >= 0:
            os.fdatasync(self.fd)
        else:
            Unsynced([str(self.path)], []).sync()


class SegmentFiles:
    """Which files are open: those that are needed, and the ones used last, `limit` in all."""

    def __init__(self, file_bytes: int, limit: int = OPEN_SEGMENTS_MAX) -> None:
        self.syncing = threading.Lock()
        self._file_bytes, self._limit = file_bytes, limit
        self._open: deque[Segment] = deque()

    def fd(self, segment: Segment, durable_to: int) -> int:
        """Its descriptor, valid until another file is asked for. `durable_to`: what was written
        below is durable. OSError.
        """
        segment.used = True
        if segment.fd < 0:
            segment.descriptor()
            self.keep(segment, durable_to)
        return segment.fd

    def keep(self, segment: Segment, durable_to: int) -> None:
        """From now on `segment`, which is open, counts."""
        segment.used = True
        self._open.append(segment)
        if len(self._open) > self._limit and self.syncing.acquire(blocking=False):
            try:
                self._close_unused(segment, durable_to)
            finally:
                self.syncing.release()

    def _close_unused(self, newest: Segment, durable_to: int) -> None:
        """The first that was not used since it was looked at last; each is looked at twice at
        most.
        """
        for _ in range(2 * len(self._open)):
            if len(self._open) <= self._limit:
                return
            segment = self._open.popleft()
            if segment.fd < 0:
                continue
            needed = segment is newest or (
                segment.written and segment.start + self._file_bytes > durable_to
            )
            if needed or segment.used:
                segment.used = False
                self._open.append(segment)
            else:
                segment.close()
