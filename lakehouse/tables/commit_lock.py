"""One committer at a time for each table, whoever writes: landing jobs, the gold job, the care of
tables.

On a local disk Delta's Java library looks whether a commit's file exists and then renames over it,
so that two Java processes, or one of them and the Rust library, can overwrite one another's
commits. Whoever commits holds the table's lock meanwhile. The locks rest on open files that a Java
process inherits, so that a lock is held until that process has ended too, even across `kill -9`.
Responsible for the locks; refuses to know what is committed. On an object store there are no files
to lock: there the locks hold within this process only.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.errors import LakehouseError, TablesInUse
from lakehouse.tables.file_locks import require_local_locks, require_same_file, take

log = logging.getLogger("regent.lake.tables")

LOCK_FOLDER = ".commit-locks"
WAIT_S = 120.0
POLL_S = 0.005
ALONE = (
    "an object store has no locks: let only one landing job of each cluster write to these tables, "
    "and on S3 nobody else beside it, unless commits go through DynamoDB"
)


class CommitLocks:
    """Locks of the tables with these names below `root` (None: not a local folder).

    Invariants: a thread that holds a table's lock is alone among all threads and, with a root,
    among all processes.
    """

    def __init__(self, root: Path | None, tables: Iterable[str]) -> None:
        self._threads: dict[str, threading.Lock] = {}
        self._files: dict[str, int] = {}
        self._folder = None if root is None else root / LOCK_FOLDER
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            require_local_locks(self._folder)
        else:
            log.warning("%s", ALONE)
        for name in tables:
            self.also(name)

    def also(self, table: str) -> None:
        """Look after one more table. A Java process that runs already does not inherit its file."""
        if table in self._threads:
            return
        if self._folder is not None:
            self._files[table] = self._opened(table)
        self._threads[table] = threading.Lock()

    @property
    def open_files(self) -> tuple[int, ...]:
        """What a Java process that commits for us must inherit."""
        return tuple(self._files.values())

    @contextmanager
    def held(self, table: str, wait_s: float = WAIT_S) -> Iterator[None]:
        """Nobody else commits to `table` inside. Raises `TablesInUse` when it is not free within
        `wait_s` seconds, `LakehouseError` when the lock's file was taken away before or during it.
        """
        until = time.monotonic() + wait_s
        if not self._threads[table].acquire(timeout=wait_s):
            raise _busy(table, wait_s)
        try:
            self._lock_file(table, until, wait_s)
            try:
                yield
                self._require_file(table)
            finally:
                self._unlock_file(table)
        finally:
            self._threads[table].release()

    def close(self) -> None:
        """Give the files back; the Java process must have ended before."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _path(self, table: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{table.replace('/', '.')}.lock"

    def _opened(self, table: str) -> int:
        return os.open(self._path(table), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _lock_file(self, table: str, until: float, wait_s: float) -> None:
        file = self._files.get(table)
        if file is None:
            return
        while not take(file):
            if time.monotonic() >= until:
                raise _busy(table, wait_s)
            time.sleep(POLL_S)
        try:
            self._require_file(table)
        except LakehouseError:
            self._unlock_file(table)
            raise

    def _require_file(self, table: str) -> None:
        if table in self._files:
            require_same_file(self._files[table], self._path(table))

    def _unlock_file(self, table: str) -> None:
        if table in self._files:
            fcntl.flock(self._files[table], fcntl.LOCK_UN)


def _busy(table: str, wait_s: float) -> TablesInUse:
    return TablesInUse(
        f"another process has been committing to {table} for {wait_s:g} s: see whether it hangs, "
        "then begin again"
    )
