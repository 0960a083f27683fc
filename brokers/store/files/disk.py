"""What the file system is asked for beyond reading and writing: durable names, wiped ranges, where
data ends, room.

Responsible for: doing these without reading what was never written; telling what passes, a full
disk, from a broken one.
Refuses to know: what the files hold.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from brokers.store.files.errors import is_unreadable

WINDOW_BYTES = 1 << 20
WINDOW_BYTES_MIN = 4096
# What a disk loses at once.
PAGE_BYTES = 4096
_ZEROS = bytes(WINDOW_BYTES)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# Of this process, or of the machine: descriptors and memory come back.
_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_full(error: OSError) -> bool:
    """Whether the disk, or what this user may take of it, has no room: it may have again."""
    return error.errno in _FULL


def passes(error: OSError) -> bool:
    """Whether something ran out that comes back: room on the disk, descriptors, memory. All else is
    a broken disk.
    """
    return error.errno in _FULL or error.errno in _SHORT


def has_room(folder: Path, size: int) -> bool:
    """Whether the disk of `folder` has `size` bytes left for this user, as far as it tells."""
    space = os.statvfs(folder)
    return not space.f_blocks or space.f_bavail * space.f_frsize >= size


def new_file(path: Path, size: int) -> int:
    """Makes a file of `size` zero bytes that has its room already, durably with its name; returns
    its descriptor.

    OSError, and no file, when that fails. Where the room is plainly missing none of it is taken,
    not even for a moment.
    """
    if not has_room(path.parent, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            os.ftruncate(fd, size)
        os.fsync(fd)  # its size must outlive a loss of power, or the file would be refused
        sync_directory(path.parent)
    except OSError:
        os.close(fd)
        path.unlink(missing_ok=True)
        raise
    return fd


def write_all(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Writes all of `data`, or OSError: then nothing of it stays but zeros, as far as the disk lets
    them be written.
    """
    view, done = memoryview(data), 0
    try:
        while done < len(view):
            written = os.pwrite(fd, view[done:], position + done)
            if not written:
                raise OSError(errno.EIO, "nothing was written")
            done += written
    except OSError:
        _write_zeros(fd, position, position + done)
        raise


def _write_zeros(fd: int, first: int, last: int) -> None:
    while first < last:
        written = os.pwrite(fd, memoryview(_ZEROS)[: min(WINDOW_BYTES, last - first)], first)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        first += written


def wipe(fd: int, first: int, last: int) -> int:
    """Zeroes [first, last) of a file and syncs it; returns the bytes from `first` to the last one
    that was not zero.

    A full disk that writes elsewhere than where the bytes were (btrfs, ZFS) has no room for zeros
    either: there the rest of the file is cut off and becomes a hole, if nothing behind `last` is in
    use.
    """
    used = last_used_or_unreadable_byte(fd, first, last)
    try:
        _write_zeros(fd, first, used)
    except OSError as error:
        size = os.fstat(fd).st_size
        if not is_full(error) or last_used_byte(fd, last, size) > last:
            raise
        os.ftruncate(fd, first)
        os.ftruncate(fd, size)
    if used > first:
        os.fdatasync(fd)
    return used - first


def is_page_unreadable(fd: int, position: int) -> bool:
    """Whether the disk cannot give the page that begins there."""
    try:
        os.pread(fd, PAGE_BYTES, position)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return True
    return False


def last_used_or_unreadable_byte(fd: int, first: int, last: int) -> int:
    """As `last_used_byte`, of bytes that go anyway: where the disk cannot read them, all may have
    been in use.
    """
    try:
        return last_used_byte(fd, first, last)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return last


def last_used_byte(fd: int, first: int, last: int) -> int:
    """Position behind the last byte in [first, last) of a file that is not zero; `first` when all
    are zero.
    """
    for begin, end in reversed(_data_ranges(fd, first, last)):
        window = WINDOW_BYTES_MIN
        while end > begin:
            start = max(begin, end - window)
            filled = os.pread(fd, end - start, start).rstrip(b"\0")
            if filled:
                return start + len(filled)
            end, window = start, min(2 * window, WINDOW_BYTES)
    return first


def _data_ranges(fd: int, first: int, last: int) -> list[tuple[int, int]]:
    """Where [first, last) of a file was ever written to, ascending; where the file system keeps no
    book, all of it.
    """
    found: list[tuple[int, int]] = []
    at = first
    while at < last:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        if begin >= last:
            break
        at = min(os.lseek(fd, begin, os.SEEK_HOLE), last)
        found.append((begin, at))
    return found


def remove_files(paths: Iterable[Path]) -> None:
    """One after the other, in this order, durably. OSError."""
    folders = []
    for path in paths:
        path.unlink()
        folders.append(path.parent)
    for folder in dict.fromkeys(folders):
        sync_directory(folder)


def sync_directory(directory: Path) -> None:
    """Makes names created, renamed or removed in `directory` durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
