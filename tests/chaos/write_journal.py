"""What a broker wrote and what of it was made durable, kept beside its store, so that a loss of
power can be played.

Responsible for: the journal of writes, new names and syncs below one folder (`Recorder`, inside the
process that writes), and setting the folder back to what a machine without power may leave behind
(`lose_power`, when the process is dead).
Refuses to know: what the files hold, when the power goes.

A write is durable once an fsync or fdatasync of its file that began later has returned; a name once
its folder was synced. All else is kept, lost or torn, page by page. Removals count as durable at
once.
"""

from __future__ import annotations

import functools
import marshal
import os
import pathlib
import random
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE_BYTES = 4096
SECTOR_BYTES = 512
SECTORS = PAGE_BYTES // SECTOR_BYTES
TORN_SHARE = 0.2
_LENGTH = struct.Struct(">I")

# Kinds of record, each with the path below the folder first. A record's number is its place in the
# journal.
WRITE, EMPTIED, CREATED, RENAMED, SYNCED, FOLDER_SYNCED = "W", "T", "C", "R", "S", "D"


class Recorder:
    """Takes the place of the functions of `os` that change files, for everything below `root`; all
    threads.
    """

    def __init__(self, root: Path, journal: Path) -> None:
        self._root = f"{root.resolve()}/"
        self._fd = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lock = threading.RLock()
        self._real = {
            name: getattr(os, name)
            for name in ("open", "pwrite", "write", "replace", "fsync", "fdatasync")
        }

    def install(self) -> None:
        """From now on, in this process."""
        os.open, os.pwrite, os.write = self._open, self._pwrite, self._write  # type: ignore[assignment]
        os.replace = self._replace  # type: ignore[assignment]
        os.fsync = functools.partial(self._synced, self._real["fsync"])
        os.fdatasync = functools.partial(self._synced, self._real["fdatasync"])
        pathlib.Path.write_bytes = lambda path, data: self._write_file(path, bytes(data))  # type: ignore[method-assign,assignment]
        pathlib.Path.write_text = (  # type: ignore[method-assign]
            lambda path, data, encoding=None, errors=None, newline=None: self._write_file(
                path, data.encode(encoding or "utf-8")
            )
        )

    def uninstall(self) -> None:
        """As it was, but for the two of pathlib, which then write as before by other means."""
        for name, function in self._real.items():
            setattr(os, name, function)

    def _note(self, *record: object) -> None:
        data = marshal.dumps(record)
        self._real["write"](self._fd, _LENGTH.pack(len(data)) + data)

    def _below(self, path: str) -> str | None:
        return path[len(self._root) :] if path.startswith(self._root) else None

    def _of_fd(self, fd: int) -> str | None:
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return None
        return "" if path + "/" == self._root else self._below(path)

    def _of_path(self, path: Any) -> str | None:
        return self._below(os.path.abspath(os.fspath(path))) if not isinstance(path, int) else None

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = self._of_path(path) if flags & (os.O_CREAT | os.O_TRUNC) and dir_fd is None else None
        if name is None:
            return int(self._real["open"](path, flags, mode, dir_fd=dir_fd))
        with self._lock:
            before = _content(path)
            fd = int(self._real["open"](path, flags, mode))
            if before is None:
                self._note(CREATED, name)
            elif flags & os.O_TRUNC:
                self._note(EMPTIED, name, before)
            return fd

    def _pwrite(self, fd: int, data: Any, position: int) -> int:
        name = self._of_fd(fd)
        if name is None:
            return int(self._real["pwrite"](fd, data, position))
        with self._lock:
            self._note_write(name, fd, data, position)
            return int(self._real["pwrite"](fd, data, position))

    def _write(self, fd: int, data: Any) -> int:
        name = self._of_fd(fd)
        if name is None:
            return int(self._real["write"](fd, data))
        with self._lock:
            self._note_write(name, fd, data, os.lseek(fd, 0, os.SEEK_CUR))
            return int(self._real["write"](fd, data))

    def _note_write(self, name: str, fd: int, data: Any, position: int) -> None:
        length = memoryview(data).nbytes
        try:
            before = os.pread(fd, length, position)
        except OSError:  # opened for writing only: a small file, written from its beginning
            before = b""
        self._note(WRITE, name, position, length, before if before.strip(b"\0") else None)

    def _write_file(self, path: Path, data: bytes) -> int:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)

    def _replace(self, source: Any, target: Any, **more: Any) -> None:
        name, old_name = self._of_path(target), self._of_path(source)
        with self._lock:
            if name is not None and old_name is not None:
                self._note(RENAMED, name, old_name, _content(target))
            self._real["replace"](source, target, **more)

    def _synced(self, real: Callable[[int], None], fd: int) -> None:
        name = self._of_fd(fd)
        if name is None:
            return real(fd)
        with self._lock:
            until = os.fstat(self._fd).st_size
        real(fd)
        kind = FOLDER_SYNCED if os.path.isdir(self._root + name) else SYNCED
        with self._lock:
            self._note(kind, name, until)
        return None


def _content(path: Any) -> bytes | None:
    """What a small file holds; empty for a directory or a large one, None when there is none."""
    try:
        with open(path, "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_size <= 1 << 20 else b""
    except FileNotFoundError:
        return None
    except OSError:
        return b""


def records(journal: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """(place, record) from first to last; a torn last one is left out."""
    data, at = journal.read_bytes() if journal.exists() else b"", 0
    while at + _LENGTH.size <= len(data):
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            return
        yield at, marshal.loads(data[at + _LENGTH.size : end])
        at = end


@dataclass
class PowerLoss:
    """What was taken back: bytes of writes and number of names. `chance` decides what is kept of
    what was not durable.
    """

    chance: random.Random
    kept: float
    bytes_lost: int = 0
    names_lost: int = 0
    _pages: dict[tuple[str, int], int] = field(default_factory=dict)

    def sectors_kept(self, name: str, page: int) -> int:
        """The first so many of a page made it; one answer for each page."""
        key = (name, page)
        if key not in self._pages:
            torn = self.chance.random() < TORN_SHARE
            whole = SECTORS if self.chance.random() < self.kept else 0
            self._pages[key] = (
                self.chance.randrange(1, SECTORS) if torn and self.kept > 0 else whole
            )
        return self._pages[key]

    def name_lost(self) -> bool:
        lost = self.chance.random() >= self.kept
        self.names_lost += lost
        return lost


def lose_power(root: Path, journal: Path, chance: random.Random, kept: float = 0.5) -> PowerLoss:
    """Sets the files below `root` back; the journal is empty afterwards. `kept` 0: all that was not
    durable is gone.
    """
    found = list(records(journal))
    durable: dict[tuple[str, str], int] = {}
    for _, (kind, name, *rest) in found:
        if kind in (SYNCED, FOLDER_SYNCED):
            durable[kind, name] = max(rest[0], durable.get((kind, name), 0))
    loss = PowerLoss(chance, kept)
    for at, (kind, name, *rest) in reversed(found):
        path, file_safe = root / name, at < durable.get((SYNCED, name), 0)
        name_safe = at < durable.get((FOLDER_SYNCED, os.path.dirname(name)), 0)
        if kind == WRITE and not file_safe and path.is_file():
            _take_back(path, name, rest, loss)
        elif kind == CREATED and not name_safe and loss.name_lost():
            path.unlink(missing_ok=True)
        elif kind == EMPTIED and not file_safe and path.is_file() and loss.name_lost():
            path.write_bytes(rest[0])
        elif kind == RENAMED and not name_safe and path.is_file() and loss.name_lost():
            path.unlink() if rest[1] is None else path.write_bytes(rest[1])
        elif (
            kind == RENAMED
            and not _was_synced(found, at, rest[0], durable)
            and path.is_file()
            and loss.name_lost()
        ):
            path.write_bytes(b"")  # the name came before the bytes
    journal.write_bytes(b"")
    return loss


def _was_synced(
    found: list[tuple[int, tuple[Any, ...]]],
    before: int,
    name: str,
    durable: dict[tuple[str, str], int],
) -> bool:
    """Whether the last write to `name` in front of a record was durable."""
    last = max(
        (at for at, record in found if at < before and record[:2] == (WRITE, name)), default=-1
    )
    return last < durable.get((SYNCED, name), 0)


def _take_back(path: Path, name: str, rest: list[Any], loss: PowerLoss) -> None:
    position, length, before = rest
    before = (before or b"").ljust(length, b"\0")
    with path.open("r+b") as file:
        for start in range(position - position % PAGE_BYTES, position + length, PAGE_BYTES):
            first = max(
                position, start + loss.sectors_kept(name, start // PAGE_BYTES) * SECTOR_BYTES
            )
            last = min(position + length, start + PAGE_BYTES)
            if first < last:
                file.seek(first)
                file.write(before[first - position : last - position])
                loss.bytes_lost += last - first
