"""
A disk that keeps what was flushed and may lose or tear the rest.

Responsible for: the bytes of one replica's log and its small files across crashes and power losses.
Refuses to know: what a message is; recovery is the product's own.
"""

from __future__ import annotations

from random import Random

TORN_BYTES_MAX = 64


class SimulatedDisk:
    """Log bytes in the page cache, a flushed prefix, and small files that are always synced (S12)."""

    def __init__(self) -> None:
        self.log = bytearray()
        self.flushed_bytes = 0
        self.identity: object | None = None
        self.temp_identity: object | None = None
        self.marker: dict[str, object] | None = None
        self.epochs = ""
        self.epoch_seen = 0
        self.confirm_offset = 0
        self.boot_id = 0

    def write(self, offset: int, data: bytes) -> None:
        """Write at `offset`; a hole would be a bug of the caller."""
        assert offset <= len(self.log), f"hole in the log: {offset} > {len(self.log)}"
        self.log[offset : offset + len(data)] = data

    def truncate(self, offset: int) -> None:
        del self.log[offset:]
        self.flushed_bytes = min(self.flushed_bytes, offset)

    def flush(self) -> None:
        self.flushed_bytes = len(self.log)

    def lose_power(self, chance: Random) -> int:
        """Drop a random part of what was not flushed, tear the end; return the bytes lost."""
        keep = chance.randint(self.flushed_bytes, len(self.log))
        lost = len(self.log) - keep
        del self.log[keep:]
        torn = min(chance.randrange(TORN_BYTES_MAX), keep - self.flushed_bytes)
        for position in range(keep - torn, keep):
            self.log[position] = chance.randrange(256)
        self.boot_id += 1
        return lost

    def wipe(self) -> None:
        """A new, empty disk."""
        self.__init__()
