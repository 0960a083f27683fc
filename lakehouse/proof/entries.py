"""Commands, what was published of them and kept states, as columns in the order in which they are
folded (P apart from its Arrow types).

Responsible for cutting columns where a range, or a run of ranges, ends, so that all that is of one
offset stays together. Refuses to know what is done with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

# What an entry is, in the order in which those of one offset are taken.
BEGIN, COMMAND, SAID = 0, 1, 2

ENTRY_COLUMNS = ("start", "offset", "what", "place", "value")

Value = bytes | None


@dataclass(frozen=True, slots=True)
class Entries:
    """They ascend by start, offset and what they are."""

    start: np.ndarray
    """First offset of the run of ranges that are folded in one go."""
    offset: np.ndarray
    """Of the command."""
    what: np.ndarray
    place: np.ndarray
    """Of an outcome: its own offset; else -1."""
    value: list[Value]
    """Bytes of the command, of the outcome, or of the kept state."""

    def __len__(self) -> int:
        return len(self.value)

    def part(self, first: int, end: int) -> Entries:
        """Those from place `first` up to, not including, `end`."""
        return Entries(
            self.start[first:end],
            self.offset[first:end],
            self.what[first:end],
            self.place[first:end],
            self.value[first:end],
        )

    def by_offset(self) -> Iterator[tuple[int, Entries]]:
        """Those of each offset."""
        bounds = [0, *(np.flatnonzero(np.diff(self.offset)) + 1).tolist(), len(self)]
        for first, end in pairwise(bounds):
            yield int(self.offset[first]), self.part(first, end)


def entries_of(batch: pa.RecordBatch | pa.Table) -> Entries:
    """The columns of `ENTRY_COLUMNS`."""
    start, offset, what, place = (
        np.asarray(batch.column(at)).astype(np.int64, copy=False) for at in range(4)
    )
    return Entries(start, offset, what, place, batch.column(4).to_pylist())


def cut_up(batches: Iterable[Entries], size: int) -> Iterator[Entries]:
    """The same entries in parts that are of one run and of one range of `size` offsets each, none
    of which ends within an offset.
    """
    left: Entries | None = None
    for batch in batches:
        if not len(batch):
            continue
        whole = batch if left is None else _joined(left, batch)
        others = (whole.start != whole.start[-1]) | (whole.offset != whole.offset[-1])
        last = int(np.flatnonzero(others)[-1]) + 1 if others.any() else 0
        yield from _parts(whole.part(0, last), size)
        left = whole.part(last, len(whole))
    if left is not None:
        yield from _parts(left, size)


def _joined(first: Entries, second: Entries) -> Entries:
    return Entries(
        np.concatenate((first.start, second.start)),
        np.concatenate((first.offset, second.offset)),
        np.concatenate((first.what, second.what)),
        np.concatenate((first.place, second.place)),
        [*first.value, *second.value],
    )


def _parts(entries: Entries, size: int) -> Iterator[Entries]:
    if not len(entries):
        return
    number = entries.offset // size
    bounds = np.flatnonzero((np.diff(entries.start) != 0) | (np.diff(number) != 0)) + 1
    ends = [0, *bounds.tolist(), len(entries)]
    for first, end in pairwise(ends):
        yield entries.part(first, end)
