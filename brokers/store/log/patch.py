"""Replacing the bytes of a damaged message by those another replica has, and of a damaged blank
record by what it must be.

Responsible for: that only whole, sound bytes at their place get in. Refuses to know: where they
come from.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from brokers.store.log.integrity import Place, problem
from brokers.store.log.message_log import FileRange, MessageLog
from brokers.store.log.records import BLANK_BYTES_MIN, MESSAGE_BYTES_MIN, encode_blank
from brokers.store.log.segments import file_start


def patch(
    log: MessageLog, place: Place, data: bytes, confirm_offset: int
) -> Callable[[], None] | None:
    """Writes `data` at `place`; returns what makes that durable, for any thread. None when it does
    not belong there.

    Only confirmed bytes are replaced: those are the same on every replica of the set. OSError when
    the disk refuses.
    """
    piece = log.file_range(place.offset, place.size)
    if (
        piece is None
        or piece.count != place.size
        or len(data) != place.size
        or problem(data, place)
    ):
        return None
    if place.offset + place.size > confirm_offset:
        return None
    return _written(piece, data)


def patch_blank(
    log: MessageLog, offset: int, confirm_offset: int, told: bytes = b""
) -> Callable[[], None] | None:
    """As `patch`, of a blank record at `offset` (3.3). `told`: what another replica has there;
    without it only a rest of a file into which no message fits is known to be one.
    """
    file_end = file_start(offset, log.file_bytes) + log.file_bytes
    left = file_end - offset
    if log.starts is not None:
        return None  # files of entries are closed otherwise
    if left < BLANK_BYTES_MIN or file_end > confirm_offset:
        return None
    blank = encode_blank(left)
    if told[:BLANK_BYTES_MIN] != blank and (told or left >= MESSAGE_BYTES_MIN + BLANK_BYTES_MIN):
        return None
    piece = log.file_range(offset, BLANK_BYTES_MIN)
    return None if piece is None else _written(piece, blank)


def _written(piece: FileRange, data: bytes) -> Callable[[], None]:
    fd = os.dup(piece.fileno)
    try:
        if os.pwrite(fd, data, piece.position) != len(data):
            raise OSError("the repaired message was written in part")
    except BaseException:
        os.close(fd)
        raise

    def sync() -> None:
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    return sync
