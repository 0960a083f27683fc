"""Room on the disk of a store: how much is used, and a little that is kept back for what must be
written on a full one.

Responsible for: the words for a full disk, and the spare file that is given up so that epochs and
cuts can be noted when nothing else can be written. Refuses to know: who fills the disk, what is
written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from brokers.store.files.disk import has_room, is_full, new_file, passes
from brokers.store.files.errors import DiskFull

SPARE_NAME = "spare"
SPARE_BYTES = 1 << 20
# The spare is taken again once this multiple of its size is free.
REFILL_FACTOR = 16

Result = TypeVar("Result")


def used_ratio(path: Path) -> float:
    """Share of the partition that is in use, 0 to 1, as RocketMQ counts it; 0 when the system does
    not tell.
    """
    try:
        space = os.statvfs(path)
    except OSError:
        return 0.0
    used = space.f_blocks - space.f_bfree
    return used / (used + space.f_bavail) if used + space.f_bavail else 0.0


def full_remark(store_root: Path) -> str:
    """RocketMQ's words for a send that a broker does not take: the usual reason is the disk."""
    log = used_ratio(store_root / "commitlog")
    queues = used_ratio(store_root / "consumequeue")
    index = used_ratio(store_root / "index") or queues
    return (
        "service not available now. It may be caused by one of the following reasons: the "
        f"broker's disk is full [CL: {log:5.2f} CQ: {queues:5.2f} INDEX: {index:5.2f}], messages "
        "are put to the slave, message store has been shut down, etc."
    )


@contextlib.contextmanager
def full_disk_told(what: str) -> Iterator[None]:
    """An OSError that passes, for want of room or of descriptors, becomes DiskFull; `what` could
    not be done.
    """
    try:
        yield
    except OSError as error:
        if passes(error):
            raise DiskFull(f"{what}: {error.strerror}") from error
        raise


class Spare:
    """The spare file of a store folder. Works without one where there was never room for it."""

    def __init__(self, root: Path, size: int = SPARE_BYTES) -> None:
        self._path = root / SPARE_NAME
        self._size = size

    def run(self, write: Callable[[], Result]) -> Result:
        """What `write` does; once more with the spare's room when there is none. OSError as before
        when that fails too.
        """
        try:
            return write()
        except OSError as error:
            if not is_full(error) or not self._give_up():
                raise
        return write()

    def _give_up(self) -> bool:
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def refill(self) -> bool:
        """Takes the room (again) unless it is held or scarce. True when it is held now."""
        if self._path.exists():
            return True
        with contextlib.suppress(OSError):
            if has_room(self._path.parent, REFILL_FACTOR * self._size):
                os.close(new_file(self._path, self._size))
                return True
        return False
