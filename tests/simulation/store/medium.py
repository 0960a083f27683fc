"""Real files of which it is known what would outlast a loss of power.

Responsible for: bytes and names at their last sync, what a loss of power leaves of the rest, pages
that cannot be read, descriptors that run out. Refuses to know: what the files are for.

Files are told apart by inode, which a folder in memory (tmpfs) never gives twice.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

SECTOR_BYTES = 512
PAGE_BYTES = 4096
LARGE_BYTES = 1 << 16
"""Beyond it a file is sparse: its holes are not looked at."""

Pages = dict[int, bytes]
"""By their place in the file."""


class Medium:
    """All folders below `root`. Within `watched` each sync is noted; nothing else may use the file
    system for long there.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.short_of_descriptors = False
        self._bytes: dict[int, bytes] = {}  # by inode, as last synced
        self._pages: dict[int, tuple[int, Pages]] = {}  # the same of large files, with their size
        self._names: dict[str, dict[str, int]] = {}  # by folder: names and inodes as last synced
        self._bad: dict[int, set[int]] = {}  # by inode: pages that cannot be read

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While it lasts, the calls of the product come by here."""
        real = {
            name: getattr(os, name) for name in ("fsync", "fdatasync", "pread", "pwrite", "open")
        }
        for name, call in real.items():
            setattr(os, name, getattr(self, f"_{name}")(call))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)

    def _fsync(self, _real: Callable[[int], None]) -> Callable[[int], None]:
        return self._synced

    _fdatasync = _fsync

    def _synced(self, fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if os.path.isdir(path):
            self._names[path] = _names_in(path)
            return
        size = os.fstat(fd).st_size
        if size > LARGE_BYTES:
            self._pages[os.fstat(fd).st_ino] = size, _pages_in(fd)
        else:
            self._bytes[os.fstat(fd).st_ino] = _whole(fd)

    def _pread(self, real: Callable[[int, int, int], bytes]) -> Callable[[int, int, int], bytes]:
        def pread(fd: int, count: int, position: int) -> bytes:
            bad = self._bad and self._bad.get(os.fstat(fd).st_ino)
            if bad and any(
                position < (one + 1) * PAGE_BYTES and one * PAGE_BYTES < position + count
                for one in bad
            ):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(fd, count, position)

        return pread

    def _pwrite(self, real: Callable[..., int]) -> Callable[..., int]:
        def pwrite(fd: int, data: bytes, position: int) -> int:
            if self._bad and (bad := self._bad.get(os.fstat(fd).st_ino)):
                end = position + len(data)  # a disk gives a page that is written another place
                bad.difference_update(range(position // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1))
            return real(fd, data, position)

        return pwrite

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, *args: Any, **how: Any) -> int:
            if self.short_of_descriptors and str(path).startswith(str(self.root)):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(path, *args, **how)

        return opened

    def spoil(self, path: Path, position: int) -> None:
        """The page of that byte cannot be read until it is written again."""
        self._bad.setdefault(path.stat().st_ino, set()).add(position // PAGE_BYTES)

    def settle(self, path: Path) -> None:
        """What somebody did to a file by hand is on the disk."""
        if path.exists():
            self._bytes[path.stat().st_ino] = path.read_bytes()
        self._names[str(path.parent)] = _names_in(str(path.parent))

    def lose_power(self, folder: Path, chance: Random) -> int:
        """What was not synced below `folder` is there or not, sector by sector and name by name;
        how many bytes changed.
        """
        return self._lose(str(folder), chance)

    def _lose(self, folder: str, chance: Random) -> int:
        now, was, lost = _names_in(folder), self._names.get(folder, {}), 0
        gone = False
        for name in sorted(now):
            path = os.path.join(folder, name)
            if now[name] != was.get(name) and (gone or chance.random() < 0.3):
                # of new names a later one is not there without an earlier one
                gone = gone or name not in was
                # what came later undid nothing
                lost += self._as_it_was(path, None if gone else was.get(name))
            elif os.path.isdir(path):
                lost += self._lose(path, chance)
            else:
                lost += self._tear(path, now[name], chance)
        self._names[folder] = _names_in(folder)
        return lost

    def _as_it_was(self, path: str, inode: int | None) -> int:
        if os.path.isdir(path):
            shutil.rmtree(path)
            return 1
        size = os.path.getsize(path)
        os.unlink(path)
        if inode is not None and inode in self._pages:
            large, pages = self._pages[inode]
            with open(path, "wb") as file:
                file.truncate(large)
                _write_pages(file.fileno(), pages)
            self._pages[os.stat(path).st_ino] = large, pages
        elif inode is not None:
            with open(path, "wb") as file:
                file.write(self._bytes.get(inode, b""))
            self._bytes[os.stat(path).st_ino] = self._bytes.get(inode, b"")
        return size

    def _tear(self, path: str, inode: int, chance: Random) -> int:
        if os.path.getsize(path) > LARGE_BYTES:
            return self._tear_large(path, inode, chance)
        with open(path, "r+b") as file:
            now = file.read()
            was = self._bytes.get(inode)
            if was == now:
                return 0
            kept = _mixed(now, was, chance)
            file.seek(0)
            file.write(kept)
            file.truncate()
        self._bytes[inode] = kept
        return sum(1 for old, new in zip(now, kept, strict=False) if old != new) + abs(
            len(now) - len(kept)
        )

    def _tear_large(self, path: str, inode: int, chance: Random) -> int:
        """Page by page; its size is that of its making."""
        size, was = self._pages.get(inode, (os.path.getsize(path), {}))
        with open(path, "r+b") as file:
            now = _pages_in(file.fileno())
            lost = {
                at: was.get(at, bytes(PAGE_BYTES))
                for at in sorted(now.keys() | was.keys())
                if now.get(at) != was.get(at) and chance.random() < 0.5
            }
            file.truncate(size)
            _write_pages(file.fileno(), lost)
            self._pages[inode] = size, _pages_in(file.fileno())
        return len(lost) * PAGE_BYTES


def _mixed(now: bytes, was: bytes | None, chance: Random) -> bytes:
    if was is None:
        if chance.random() < 0.2:
            return b""  # its name came to the disk, and its size did not
        was = b""
    step = chance.choice((SECTOR_BYTES, PAGE_BYTES))
    old, kept = was.ljust(len(now), b"\0"), bytearray(now)
    for at in range(0, len(now), step):
        if old[at : at + step] != now[at : at + step] and chance.random() < 0.5:
            kept[at : at + step] = old[at : at + step]
    return bytes(kept)


def _names_in(folder: str) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}


def _whole(fd: int) -> bytes:
    with open(f"/proc/self/fd/{fd}", "rb") as file:
        return file.read()


def _pages_in(fd: int) -> Pages:
    """Those that are no holes."""
    found: Pages = {}
    at, size = 0, os.fstat(fd).st_size
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # a hole up to the end
            break
        end = os.lseek(fd, at, os.SEEK_HOLE)
        for place in range(at - at % PAGE_BYTES, end, PAGE_BYTES):
            with open(f"/proc/self/fd/{fd}", "rb") as file:
                file.seek(place)
                found[place] = file.read(PAGE_BYTES)
        at = end
    return found


def _write_pages(fd: int, pages: Pages) -> None:
    for place, data in pages.items():
        with open(f"/proc/self/fd/{fd}", "r+b") as file:
            file.seek(place)
            file.write(data)
