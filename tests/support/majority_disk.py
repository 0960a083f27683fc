"""The folder of a member of a majority group on simulated blocks: killed and without power between
any two writes.

Responsible for: files of two logs and the small ones, what a sync makes safe, a start with the
product's own recovery. Refuses to know: what an entry is, which of them should be there.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from brokers.majority.entry import Place
from brokers.majority.store.entry_log import EntryLog
from brokers.majority.store.index import EntryIndex
from brokers.majority.store.layout import encode_filler
from brokers.majority.store.marks import (
    CHECKPOINT_NAME,
    OWED_NAME,
    Marks,
    format_checkpoint,
    format_owed,
    parse_checkpoint,
    parse_owed,
)
from brokers.majority.store.recovery import Found, recover
from brokers.store.files.errors import LogError
from brokers.store.log import segments
from tests.simulation.blocks import Blocks, PowerCut, SmallFiles
from tests.simulation.sim_log import SimulatedLog

DATA_FILE_BYTES, INDEX_FILE_BYTES = 2_048, 1_024


class Fate(random.Random):
    """What becomes of unsynced blocks, as `tests.simulation.world.World` says it."""

    def between(self, low: int, high: int) -> int:
        return self.randint(low, high)

    def count(self, name: str, times: int = 1) -> None:
        """Nobody asks."""


class SegmentLog(SimulatedLog):
    """With what a majority log asks of `brokers.store.log.commit_log.CommitLog` besides."""

    def __init__(self, written: Callable[[], None], file_bytes: int) -> None:
        super().__init__(Blocks(), written, file_bytes, encode_filler)
        self.flushed_offset = 0

    def make_file(self, start: int) -> None:
        """Files are there with their first byte."""

    def begin_within(self, offset: int) -> None:
        assert not self.file_starts
        self._written()
        self._blocks.begin_at(offset)
        self._first = self._first_on_disk = segments.file_start(offset, self.file_bytes)

    def truncate(self, offset: int) -> None:
        self._written()
        super().truncate(offset)

    def flush(self) -> int:
        self._written()
        self._blocks.sync(self._blocks.dirty())
        return self.end_offset

    def fail(self, action: str, error: OSError) -> LogError:
        return LogError(f"{action}: {error}")

    def close(self) -> None:
        """Nothing is open."""

    def is_durable(self, end: int) -> bool:
        return self._blocks.is_stable(self.min_offset, end)

    def flip(self, at: int) -> None:
        self._blocks.flip(at, 3)

    def lose_power(self, fate: Fate) -> None:
        self._blocks.lose_power(fate)  # type: ignore[arg-type]


class MajorityDisk:
    """`power_in`: writes until it is dark, None for never."""

    def __init__(self, seed: int) -> None:
        self.fate = Fate(seed)
        self.power_in: int | None = None
        self.data = SegmentLog(self._written, DATA_FILE_BYTES)
        self.index = SegmentLog(self._written, INDEX_FILE_BYTES)
        self._files = SmallFiles(self._written)
        self.log: EntryLog
        self.open(same_boot=True)

    def _written(self) -> None:
        if self.power_in is not None:
            self.power_in -= 1
            if self.power_in < 0:
                raise PowerCut

    def save_marks(self, marks: Marks) -> None:
        self._files.replace(CHECKPOINT_NAME, format_checkpoint(marks).encode())

    def save_owed(self, owed: Place | None) -> None:
        if owed is not None:
            self._files.replace(OWED_NAME, format_owed(owed).encode())
        else:
            self._files.remove(OWED_NAME)

    def open(self, *, same_boot: bool) -> Found:
        """A start, as `brokers.majority.store.folder` does it."""
        self.power_in = None
        for log in (self.data, self.index):
            log.open_files()
            log.flushed_offset = 0
        text = self._files.read(CHECKPOINT_NAME)
        marks = Marks(durable=None) if text is None else parse_checkpoint(text.decode())
        owed_text = self._files.read(OWED_NAME)
        owed = None if owed_text is None else parse_owed(owed_text.decode())

        def owe(place: Place) -> None:
            nonlocal owed
            owed = place if owed is None else max(owed, place)
            self.save_owed(owed)

        index = EntryIndex(self.index)  # type: ignore[arg-type]
        found = recover(self.data, index, marks, same_boot=same_boot, owe=owe)  # type: ignore[arg-type]
        self.log = EntryLog(self.data, index, self, found, marks, owed)  # type: ignore[arg-type]
        return found

    def lose_power(self) -> Found:
        """And start again. What was not synced is at the mercy of chance, block by block."""
        self.data.lose_power(self.fate)
        self.index.lose_power(self.fate)
        self._files.lose_power(self.fate)  # type: ignore[arg-type]
        return self.open(same_boot=False)
