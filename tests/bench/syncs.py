"""How often a process makes its log durable, counted from outside; and the bare thing: the same
bytes and `fdatasync`, nothing else.

Refuses to know whose process it is.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "count_syncs.c"
_COUNTS = struct.Struct("=QQ")
LOG_FILE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Syncs:
    """Of a stretch of time: how many, and seconds spent in them."""

    count: int
    seconds: float


class SyncCounter:
    """Counts the syncs of log files in one process that is started with `environ`."""

    def __init__(self, library: Path, path: Path) -> None:
        path.write_bytes(bytes(_COUNTS.size))
        self._path = path
        self.environ: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "REGENT_SYNC_COUNT": str(path),
            "REGENT_SYNC_FILE_BYTES": str(LOG_FILE_BYTES),
        }

    def read(self) -> Syncs:
        """Since the process began."""
        count, spent_ns = _COUNTS.unpack(self._path.read_bytes())
        return Syncs(count, spent_ns / 1e9)

    def since(self, before: Syncs) -> Syncs:
        now = self.read()
        return Syncs(now.count - before.count, now.seconds - before.seconds)


def fdatasync_alone(folder: Path, bytes_each: int, seconds: float) -> float:
    """Syncs/s of one thread that writes so many bytes behind the last ones and syncs, into a file
    made as a log file is.
    """
    fd = os.open(folder / "alone", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        os.posix_fallocate(fd, 0, LOG_FILE_BYTES)
        os.fsync(fd)
        piece, at, count = b"x" * bytes_each, 0, 0
        began = time.perf_counter()
        while time.perf_counter() - began < seconds and at + bytes_each <= LOG_FILE_BYTES:
            os.pwrite(fd, piece, at)
            os.fdatasync(fd)
            at, count = at + bytes_each, count + 1
        return count / (time.perf_counter() - began)
    finally:
        os.close(fd)
        os.unlink(folder / "alone")
