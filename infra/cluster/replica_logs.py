"""Compare the commit logs of replicas byte for byte, from their files.

Knows that a log is a row of files named by their first offset; refuses to know what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from brokers.store.log.segments import start_of_name

READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogComparison:
    """`first_difference` is an offset in bytes, None when all logs agree on [start, end)."""

    start: int
    end: int
    replicas: tuple[str, ...]
    first_difference: int | None

    @property
    def equal(self) -> bool:
        return self.first_difference is None and self.end >= self.start


class LogFiles:
    """Read access to the files of one commit log."""

    def __init__(self, directory: Path) -> None:
        found = {start_of_name(path.name): path for path in directory.iterdir() if path.is_file()}
        self._files = dict(sorted((s, p) for s, p in found.items() if s is not None))

    @property
    def start(self) -> int:
        """First offset that is there; 0 for an empty log."""
        return next(iter(self._files), 0)

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset`, never across a file's end; b'' past the last file."""
        starts = [start for start in self._files if start <= offset]
        if not starts:
            return b""
        with self._files[starts[-1]].open("rb") as source:
            source.seek(offset - starts[-1])
            return source.read(count)


def compare(directories: Mapping[str, Path], end: int) -> LogComparison:
    """Compare from the highest first offset of any replica up to `end` (exclusive, the confirm
    offset).
    """
    logs = {name: LogFiles(directory) for name, directory in directories.items()}
    start = max(log.start for log in logs.values())
    names = tuple(sorted(logs))
    at = start
    while at < end:
        blocks = [logs[name].read(at, min(READ_BYTES, end - at)) for name in names]
        size = min(map(len, blocks))
        if any(block[:size] != blocks[0][:size] for block in blocks) or size == 0:
            return LogComparison(start, end, names, at + _first_difference(blocks, size))
        at += size
    return LogComparison(start, end, names, None)


def _first_difference(blocks: list[bytes], size: int) -> int:
    for index in range(size):
        if any(block[index] != blocks[0][index] for block in blocks):
            return index
    return size
