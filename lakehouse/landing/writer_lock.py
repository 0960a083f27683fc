"""One job of a kind for a cluster's rows, even across `kill -9`.

A landing job remembers how far each table is, so two jobs at once would land rows twice.
The lock rests on an open file that the Java process inherits: it is free only when both the
Python process and the Java process that commits for it have ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from lakehouse.errors import TablesInUse
from lakehouse.tables.commit_lock import LOCK_FOLDER
from lakehouse.tables.file_locks import is_same_file, require_local_locks, require_same_file, take

POLL_MS = 100


def place_of(tables: Path, job: str, cluster_id: str) -> Path:
    """Where the lock of a cluster's one job of a kind lies."""
    return tables / LOCK_FOLDER / f"{job}.{quote(cluster_id, safe='')}.lock"


def acquire(path: Path, wait_ms: int, what: str, job: str = "landing job") -> int:
    """Take the lock of `what` and return its open file descriptor.

    Raises `TablesInUse`, naming it, when it is still held after `wait_ms`, and `LakehouseError`
    where locks do not hold.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    require_local_locks(path.parent)
    deadline = time.monotonic() + wait_ms / 1000
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        while not take(fd):
            if time.monotonic() >= deadline:
                holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(fd)
                raise TablesInUse(
                    f"{what} is written by another {job} (pid {holder}): stop that one first"
                )
            time.sleep(POLL_MS / 1000)
        if is_same_file(fd, path):
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode("ascii"), 0)
            return fd
        os.close(fd)  # It was taken away meanwhile: the lock is the file that others find.


def require_held(locks: Mapping[int, Path]) -> None:
    """Raises `LakehouseError` when the file of one of these open locks was taken away: the next job
    would get its own.
    """
    for fd, path in locks.items():
        require_same_file(fd, path)


def release(fd: int) -> None:
    """Give the lock back; the Java process must have ended before."""
    os.close(fd)
