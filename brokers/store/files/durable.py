"""Files that are whole after a crash, and the marks of who has a store folder.

Responsible for: replacing a small file so that it holds the old or the new bytes (rule S12), the
`lock` file and the `abort` marker of PROTOCOL 3.1.
Refuses to know: what the files say.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from brokers.store.files.disk import sync_directory
from brokers.store.files.errors import LogError

ABORT_NAME = "abort"


def replace_file(path: Path, data: bytes) -> None:
    """Write, sync, rename, sync of the folder (S12): after a crash the file holds the old or the
    new bytes.
    """
    beside = path.with_name(path.name + ".tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(beside, path)
    sync_directory(path.parent)


class AbortMarker:
    """File `abort`: there from start to orderly stop, so that its presence at a start tells of an
    unfinished run.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / ABORT_NAME

    def is_set(self) -> bool:
        return self._path.exists()

    def set(self) -> None:
        replace_file(self._path, str(os.getpid()).encode())

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
        sync_directory(self._path.parent)


class StoreInUse(LogError):
    """Another process has the store's folder."""


class StoreLock:
    """Holds the `lock` file of a store folder. StoreInUse when another process has it."""

    def __init__(self, root: Path) -> None:
        path = root / "lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # flock keeps out a second store of this process too; the POSIX lock is the kind that
            # Java brokers take.
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise StoreInUse(
                f"{root} is in use by another broker process: stop it, or choose another store "
                "folder"
            ) from None
        os.pwrite(self._fd, b"lock", 0)

    @property
    def is_held(self) -> bool:
        return self._fd >= 0

    def release(self) -> None:
        """Harmless when it was released before: the number may be somebody else's descriptor by
        then.
        """
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
