"""The store's checkpoint file.

Responsible for: PROTOCOL 3.7.
Refuses to know: what the numbers are used for.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from brokers.store.files.durable import replace_file

CHECKPOINT_NAME = "checkpoint"
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

    Log and queues are durable up to `flushed_offset`; None: another broker wrote the file, with
    times only.
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
