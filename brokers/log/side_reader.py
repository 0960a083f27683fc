"""Reading the log beside the thread that owns it.

Responsible for: that such a read never meets a closed or reused descriptor. Refuses to know: threads, what is read and why.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from brokers.log.commit_log import CommitLog

# Gives the bytes, once; on any thread. OSError when the disk refuses.
SideRead = Callable[[], bytes]


def side_read(log: CommitLog, offset: int, count: int) -> SideRead:
    """A read of up to `count` bytes at `offset`, ending with the file. Taken on the log's thread."""
    piece = log.file_range(offset, count)
    if piece is None:
        return _nothing
    fd = os.dup(piece.fileno)

    def read() -> bytes:
        try:
            return os.pread(fd, piece.count, piece.position)
        finally:
            os.close(fd)

    return read


def _nothing() -> bytes:
    return b""
