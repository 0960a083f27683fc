"""What the file system is asked for beyond reading and writing: durable names, wiped ranges, where data ends.

Responsible for: doing these without reading what was never written.
Refuses to know: what the files hold.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

WINDOW_BYTES = 1 << 20
_ZEROS = bytes(WINDOW_BYTES)


def wipe(fd: int, first: int, last: int) -> int:
    """Zeroes [first, last) of a file and syncs it; returns the bytes from `first` to the last one that was not zero."""
    used = last_used_byte(fd, first, last)
    at = first
    while at < used:
        at += os.pwrite(fd, memoryview(_ZEROS)[: min(WINDOW_BYTES, used - at)], at)
    if used > first:
        os.fdatasync(fd)
    return used - first


def last_used_byte(fd: int, first: int, last: int) -> int:
    """Position behind the last byte in [first, last) of a file that is not zero; `first` when all are zero."""
    used = at = first
    while at < last:
        try:
            at = max(at, os.lseek(fd, at, os.SEEK_DATA))  # skips what was never written
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        if at >= last:
            break
        chunk = os.pread(fd, min(WINDOW_BYTES, last - at), at)
        if not chunk:
            break
        filled = chunk.rstrip(b"\0")
        if filled:
            used = at + len(filled)
        at += len(chunk)
    return used


def sync_directory(directory: Path) -> None:
    """Makes names created, renamed or removed in `directory` durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
