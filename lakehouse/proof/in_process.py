"""The work of a proof within this process: for histories of which little is unproven, a start of
Spark costs more than all of it.

Holds a range of commands, and what was published of the folded ones. Refuses to know what is
proven.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.known_names import Sizes
from lakehouse.proof.names import NAMED_COLUMNS, BlockName, block_names
from lakehouse.proof.pieces import PUBLISHED_SCHEMA, publish_batches
from lakehouse.proof.plan import Plan
from lakehouse.proof.refold import BEGIN, COMMAND, SAID, Entry, prove
from lakehouse.proof.work import Ends, Folded, Outcomes, outcomes_of
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition

COMMANDS, OUTCOMES = (COMMANDS_TOPIC, 0), (OUTCOMES_TOPIC, 0)
_SAID_COLUMNS = ("offset", "digest", "outcome_hash", "publisher")


class InProcess:
    """See `proof.work.Work`."""

    def __init__(self, files: BronzeFiles, sizes: Sizes) -> None:
        self._files, self._sizes = files, sizes
        self._published: dict[int, pa.Table] = {}

    def names(
        self, ends: Ends, cuts: Mapping[Partition, Collection[int]]
    ) -> dict[Partition, dict[int, BlockName]]:
        found: dict[Partition, dict[int, BlockName]] = {}
        for place, end in ends.items():
            mine = found[place] = {}
            offsets = self._files.offsets[place]
            first = int(offsets[0]) if len(offsets) else 0
            for _, rows in self._files.pieces(place, first, end, self._sizes.piece, NAMED_COLUMNS):
                mine |= block_names(rows, end, cuts.get(place, ()), self._sizes.block)
        return found

    def outcomes(self, pieces: Sequence[int]) -> Outcomes:
        return outcomes_of(self._of(pieces), self._sizes.piece)

    def fold(self, made: Plan, begins: Mapping[int, bytes]) -> Folded:
        published = self._of(sorted(made.pieces)).select(_SAID_COLUMNS)
        published = published.filter(published["offset"].is_valid()).sort_by("offset")
        told: Folded = []
        for start in sorted(set(made.starts.values())):
            ranges = [r for r in made.folded if made.starts[r] == start]
            entries = self._entries(made, ranges, published, begins.get(start))
            told += prove(entries, self._sizes.piece)
        return told

    def close(self) -> None:
        self._published.clear()

    def _of(self, pieces: Sequence[int]) -> pa.Table:
        size = self._sizes.piece
        for piece in pieces:
            if piece not in self._published:
                rows = self._files.rows(
                    OUTCOMES, piece * size, (piece + 1) * size, ("offset", "value")
                )
                self._published[piece] = pa.Table.from_batches(
                    publish_batches(rows.to_batches()), PUBLISHED_SCHEMA
                )
        tables = [self._published[piece] for piece in pieces]
        return pa.concat_tables(tables) if tables else PUBLISHED_SCHEMA.empty_table()

    def _entries(
        self, made: Plan, ranges: Sequence[int], published: pa.Table, begin: bytes | None
    ) -> Iterator[Entry]:
        """Those of one run, in order, range by range."""
        size = self._sizes.piece
        start = ranges[0] * size
        if begin is not None:
            yield start, start - 1, BEGIN, begin, None, None, None
        about = published["offset"].to_numpy()
        if made.boundary is not None and start == made.boundary * size:
            yield from _said(published, about, start, start - 1, start)
        for r in ranges:
            first, end = r * size, min((r + 1) * size, made.asked.last + 1)
            rows = self._files.rows(COMMANDS, first, end, ("offset", "value"))
            commands: Iterator[Entry] = (
                (start, offset, COMMAND, value, None, None, None)
                for offset, value in zip(
                    rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True
                )
            )
            said = _said(published, about, start, first, (r + 1) * size)
            yield from sorted([*commands, *said], key=lambda entry: entry[1:3])


def _said(
    published: pa.Table, about: np.ndarray, start: int, first: int, end: int
) -> Iterator[Entry]:
    """What was published of the commands from `first` up to, not including, `end`."""
    low, high = (int(np.searchsorted(about, one)) for one in (first, end))
    rows = published.slice(low, high - low)
    for offset, digest, outcome, publisher in zip(
        *(rows[name].to_pylist() for name in _SAID_COLUMNS), strict=True
    ):
        yield start, offset, SAID, None, digest, outcome, publisher
