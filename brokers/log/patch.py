"""Replacing the bytes of a damaged message by those another replica has.

Responsible for: that only whole, sound bytes at their place get in. Refuses to know: where they come from.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from brokers.log.commit_log import CommitLog
from brokers.log.integrity import Place, problem


def patch(log: CommitLog, place: Place, data: bytes, confirm_offset: int) -> Callable[[], None] | None:
    """Writes `data` at `place`; returns what makes that durable, for any thread. None when it does not belong there.

    Only confirmed bytes are replaced: those are the same on every replica of the set. OSError when the disk refuses.
    """
    piece = log.file_range(place.offset, place.size)
    if piece is None or piece.count != place.size or len(data) != place.size or problem(data, place):
        return None
    if place.offset + place.size > confirm_offset:
        return None
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
