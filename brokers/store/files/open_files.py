"""A bounded number of open descriptors for any number of queue files.

Responsible for: opening and closing by use, remembering what is not durable yet.
Refuses to know: what is in the files.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from brokers.store.files.disk import write_all
from brokers.store.files.disk_space import full_disk_told

OPEN_FILES_MAX = 256


class Unsynced:
    """Files and folders to be made durable, and whether they are."""

    def __init__(self, files: list[str], folders: list[str]) -> None:
        self.files, self.folders = files, folders
        self.durable = False

    def sync(self) -> None:
        """Makes files and names durable. May run on any thread: opens its own descriptors, one at
        a time.

        DiskFull when none is to be had: then nothing is lost, and all of it may be asked for again.
        OSError: a sync failed.
        """
        for path in self.files:
            _sync(path, os.O_RDONLY, os.fdatasync)
        for folder in self.folders:
            _sync(folder, os.O_RDONLY | os.O_DIRECTORY, os.fsync)
        self.durable = True


class OpenFiles:
    """Least recently used descriptors, at most `limit`, and which files and folders await a
    sync.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._fds: OrderedDict[str, int] = OrderedDict()
        self._dirty: set[str] = set()
        self._dirty_folders: set[str] = set()
        self._taken: Unsynced | None = None

    def fd(self, path: str, create_bytes: int = 0) -> int:
        """Descriptor of a file, valid until the next call; made with that size when `create_bytes`
        is given.
        """
        fd = self._fds.get(path)
        if fd is not None:
            self._fds.move_to_end(path)
            return fd
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create_bytes else 0)
        fd = os.open(path, flags, 0o644)
        if create_bytes:
            try:
                # sparse: thousands of queues must not cost their full size
                os.ftruncate(fd, create_bytes)
            except OSError:
                os.close(fd)
                raise
            self._mark_folders(path)
        self._fds[path] = fd
        while len(self._fds) > self._limit:
            os.close(self._fds.popitem(last=False)[1])
        return fd

    def write(
        self, path: str, data: bytes | bytearray, position: int, create_bytes: int = 0
    ) -> None:
        """Writes all of `data`; OSError when the disk does not take it: then nothing of it
        stays.
        """
        write_all(self.fd(path, create_bytes), data, position)
        self._dirty.add(path)

    def mark_unsynced(self, path: str) -> None:
        """A file and its name may not be durable."""
        self._dirty.add(path)
        self._mark_folders(path)

    def _mark_folders(self, path: str) -> None:
        queue = os.path.dirname(path)
        topic = os.path.dirname(queue)
        self._dirty_folders.update((queue, topic, os.path.dirname(topic)))

    def take_unsynced(self) -> Unsynced:
        """What was written since the last call, and what was taken then and is not durable yet:
        that sync may be under way on another thread, or have failed.
        """
        if self._taken is not None and not self._taken.durable:
            self._dirty.update(self._taken.files)
            self._dirty_folders.update(self._taken.folders)
        self._taken = Unsynced(sorted(self._dirty), sorted(self._dirty_folders))
        self._dirty.clear()
        self._dirty_folders.clear()
        return self._taken

    def remove(self, path: str) -> None:
        """Removes a file, which may be gone already."""
        fd = self._fds.pop(path, None)
        if fd is not None:
            os.close(fd)
        self._dirty.discard(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def forget(self, folder: Path) -> None:
        """Closes the files of a folder, which will have another name; they await no sync any
        more.
        """
        for path in [path for path in self._fds if Path(path).parent == folder]:
            os.close(self._fds.pop(path))
        self._dirty = {path for path in self._dirty if Path(path).parent != folder}

    def close(self) -> None:
        """Closes all files; syncs nothing."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


def _sync(path: str, flags: int, sync: Callable[[int], None]) -> None:
    try:
        with full_disk_told(f"{path} cannot be opened to be made durable"):
            fd = os.open(path, flags | os.O_CLOEXEC)
    except FileNotFoundError:  # cut away meanwhile
        return
    try:
        sync(fd)
    finally:
        os.close(fd)
