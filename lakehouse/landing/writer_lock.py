"""One writer for a cluster's rows, even across `kill -9`.

A landing job remembers how far each table is, so two jobs at once would land rows twice.
The lock rests on an open file that the Java process inherits: it is free only when both the
Python process and the Java process that commits for it have ended.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from lakehouse.errors import TablesInUse

POLL_MS = 100


def acquire(path: Path, wait_ms: int, what: str) -> int:
    """Take the lock of `what` and return its open file descriptor.

    Raises `TablesInUse`, naming it, when it is still held after `wait_ms`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + wait_ms / 1000
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(fd)
                raise TablesInUse(
                    f"{what} is written by another landing job (pid {holder}): stop that one first"
                ) from None
            time.sleep(POLL_MS / 1000)
        else:
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode("ascii"), 0)
            return fd


def release(fd: int) -> None:
    """Give the lock back; the Java process must have ended before."""
    os.close(fd)
