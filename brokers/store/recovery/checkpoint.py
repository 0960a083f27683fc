"""The store's checkpoint file, the marker of an unfinished run, and durable replacement of small
files.

Responsible for: broker-wire-and-storage.md 3.7, the `abort` marker and the `lock` file of 3.1, rule
S12 for small files.
Refuses to know: what the numbers are used for.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from brokers.store.files.disk import sync_directory
from brokers.store.log.commit_log import LogError

CHECKPOINT_NAME = "checkpoint"
ABORT_NAME = "abort"
CHECKPOINT_BYTES = 4096
# Recovery begins this much before the recorded times, as on the Java side.
RECOVERY_MARGIN_MS = 3000

# times of log, queues and index; masterFlushedOffset; confirm offset
_FIELDS = struct.Struct(">qqqqq")
# Behind what Java brokers know: our flushed offset, and a sum over all in front of it that their
# writing breaks.
_OURS = struct.Struct(">qI4x")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Times in ms since 1970, offsets in bytes; all 0 when nothing is known.

    Log and queues are durable up to `flushed_offset`; None: another broker wrote the file, which
    tells times only.
    """

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    flushed_offset: int | None = 0
    confirm_offset: int = 0

    @property
    def recovery_ms(self) -> int:
        """Messages stored before this time were durable."""
        return max(min(self.log_ms, self.queues_ms) - RECOVERY_MARGIN_MS, 0)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The 4096 bytes of the file. masterFlushedOffset stays 0: a Java broker would take it for its
    own (and tell 907).
    """
    times = checkpoint.log_ms, checkpoint.queues_ms, checkpoint.index_ms
    data = _FIELDS.pack(*times, 0, checkpoint.confirm_offset)
    if checkpoint.flushed_offset is not None:
        data += _OURS.pack(checkpoint.flushed_offset, _sum(data, checkpoint.flushed_offset))
    return data.ljust(CHECKPOINT_BYTES, b"\0")


def _sum(fields: bytes, flushed_offset: int) -> int:
    return zlib.crc32(fields + flushed_offset.to_bytes(8, "big")) or 1


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Checkpoint of a file's bytes; the defaults when they are torn or make no sense: recovery then
    reads more.
    """
    if len(data) != CHECKPOINT_BYTES:
        return Checkpoint()
    log_ms, queues_ms, index_ms, master_flushed, confirm_offset = values = _FIELDS.unpack_from(data)
    if min(values) < 0:
        return Checkpoint()
    flushed, total = _OURS.unpack_from(data, _FIELDS.size)
    known: int | None = flushed
    if not total and not flushed and master_flushed:  # as our own brokers wrote it once
        known = master_flushed
    elif flushed < 0 or total != _sum(data[: _FIELDS.size], flushed):
        known = None
    return Checkpoint(log_ms, queues_ms, index_ms, known, confirm_offset)


def content_mark(root: Path) -> int:
    """A number that says whether another broker wrote the checkpoint of this folder meanwhile; 0
    without one.
    """
    try:
        return zlib.crc32((root / CHECKPOINT_NAME).read_bytes()[: _FIELDS.size]) or 1
    except FileNotFoundError:
        return 0


def read_checkpoint(path: Path) -> Checkpoint:
    """Checkpoint of a file, the defaults when it is missing."""
    try:
        return decode_checkpoint(path.read_bytes())
    except FileNotFoundError:
        return Checkpoint()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replaces the file durably."""
    replace_file(path, encode_checkpoint(checkpoint))


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
