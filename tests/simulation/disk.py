"""
A disk that keeps what was flushed and may lose or tear the rest.

Responsible for: the bytes of one replica's log and its small files across crashes and power losses.
Refuses to know: what a message is; recovery is the product's own.
"""

from __future__ import annotations

from random import Random

from brokers.log.scan import LogWalk, end_of_valid_log, is_record_boundary
from brokers.registration import Identity, TempIdentity

FILE_BYTES = 4_096
TORN_BYTES_MAX = 64


class SimulatedDisk:
    """
    Log bytes in the page cache, a flushed prefix, and small files that are always synced (S12).

    It is the store of a replica as `brokers.replica.store_port.ReplicaStore` wants it.
    """

    log_min = 0

    def __init__(self) -> None:
        self.log = bytearray()
        self.flushed_bytes = 0
        self.dispatched_offset = 0
        self.identity: Identity | None = None
        self.temp_identity: TempIdentity | None = None
        self.marker: dict[str, object] | None = None
        self.epochs = ""
        self.epoch_seen = 0
        self.confirm_offset = 0
        self.boot_id = 0
        self.errors_due = 0
        self.distrusted = False  # bytes were lost and not caught up since
        self.trusted_end: int | None = None  # kept with the marker, as brokers.boot does

    # -- the store of a replica --------------------------------------------------------------------

    @property
    def log_end(self) -> int:
        return len(self.log)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """Write at the end; a hole would be a bug of the caller. OSError while the disk is in trouble."""
        self._trouble()
        assert offset == len(self.log), f"hole in the log: {offset}, it ends at {len(self.log)}"
        self.log += data

    def truncate(self, to_offset: int) -> int:
        """Cut, durably; the new end."""
        del self.log[to_offset:]
        self.flushed_bytes = min(self.flushed_bytes, to_offset)
        self.dispatched_offset = min(self.dispatched_offset, to_offset)
        return len(self.log)

    def is_message_start(self, offset: int) -> bool:
        return is_record_boundary(self.read_log, offset, len(self.log), FILE_BYTES)

    def read_log(self, offset: int, max_bytes: int) -> bytes:
        """Bytes from `offset`, never across the end of a file."""
        file_end = offset - offset % FILE_BYTES + FILE_BYTES
        return bytes(self.log[offset : min(offset + max_bytes, file_end)])

    def write_epochs(self, text: str, epoch_seen: int) -> None:
        self._trouble()
        self.epochs, self.epoch_seen = text, epoch_seen

    def _trouble(self) -> None:
        if self.errors_due:
            self.errors_due -= 1
            raise OSError("simulated disk error")

    def dispatch_to(self, confirm_offset: int) -> None:
        """Queues are built for complete records only."""
        walk = LogWalk(self.read_log, self.dispatched_offset, confirm_offset, FILE_BYTES, check_body=False)
        for _ in walk:
            pass
        self.dispatched_offset = walk.end

    # -- life --------------------------------------------------------------------------------------

    def recover(self) -> None:
        """What opening the store does: cut what follows the last complete record, confirm what is there."""
        end, _ = end_of_valid_log(self.read_log, 0, len(self.log), FILE_BYTES)
        durable, _ = end_of_valid_log(self.read_log, 0, min(self.flushed_bytes, self._trusted()), FILE_BYTES)
        self.trusted_end = durable if self.distrusted else None
        self.truncate(end)
        self.errors_due = 0
        walk = LogWalk(self.read_log, 0, min(self.confirm_offset, end), FILE_BYTES, check_body=False)
        for _ in walk:
            pass
        self.confirm_offset = self.dispatched_offset = walk.end

    def _trusted(self) -> int:
        return len(self.log) if self.trusted_end is None else self.trusted_end

    def flush(self, confirm_offset: int) -> None:
        """Everything so far survives a power loss; the checkpoint tells the confirm offset."""
        self.flushed_bytes = len(self.log)
        self.confirm_offset = confirm_offset

    def lose_power(self, chance: Random) -> int:
        """Drop a random part of what was not flushed, tear the end; return the bytes lost."""
        keep = chance.randint(self.flushed_bytes, len(self.log))
        lost = len(self.log) - keep
        del self.log[keep:]
        torn = min(chance.randrange(TORN_BYTES_MAX), keep - self.flushed_bytes)
        for position in range(keep - torn, keep):
            self.log[position] = chance.randrange(256)
        self.boot_id += 1
        self.distrusted = True
        return lost

    def wipe(self) -> None:
        """A new, empty disk."""
        self.__init__()  # type: ignore[misc]
