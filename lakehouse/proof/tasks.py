"""The pieces of a proof's work, each done by whoever is free: this process, or another beside it.

Holds a range of commands, and what was published of it. Refuses to know what is proven.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.proof.entries import BEGIN, COMMAND, SAID, Entries
from lakehouse.proof.known_names import Sizes
from lakehouse.proof.names import NAMED_COLUMNS, BlockName, block_names
from lakehouse.proof.pieces import (
    COMMANDS,
    NO_REACH,
    OUTCOMES,
    PUBLISHED_SCHEMA,
    Reach,
    publish_batches,
    reach_of,
)
from lakehouse.proof.refold import RangeFolded, prove
from lakehouse.proof.work import Outcomes, outcomes_of, unread_in
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition

PIECES_HELD_MAX = 3
"""Of outcomes: a range and its neighbours speak of the same ones."""


@dataclass(frozen=True, slots=True)
class RunOfRanges:
    """Ranges that are folded in one go, and what belongs to each."""

    ranges: tuple[int, ...]
    last: int
    """The last command that is wanted."""
    pieces: Mapping[int, tuple[int, ...]]
    """Range -> the pieces of the outcomes that speak of it."""
    begin: bytes | None
    """The kept state before the first one."""
    is_believed: bool
    """Whether what was published of the very state before them is compared."""


class Tasks:
    """Works on one lake's files."""

    def __init__(self, files: BronzeFiles, sizes: Sizes) -> None:
        self._files, self._sizes = files, sizes
        self._published: dict[int, pa.Table] = {}

    def names(
        self, place: Partition, first: int, end: int, cuts: Collection[int], landed: int
    ) -> tuple[dict[int, BlockName], Reach]:
        """The names of the blocks from `first` to `end`, of a partition in which records landed up
        to `landed`, and what they are about if they are outcomes.
        """
        rows = self._files.rows(place, first, end, NAMED_COLUMNS)
        reach = reach_of(rows["value"]) if place == OUTCOMES else NO_REACH
        return block_names(rows, landed, cuts, self._sizes.block), reach

    def said(self, piece: int) -> Outcomes:
        """What a piece of the outcomes is about."""
        return outcomes_of(self._piece(piece), self._sizes.piece)

    def unread(self, piece: int, folded: Collection[int]) -> list[tuple[int, str]]:
        """Its outcomes that are about none of the `folded` ranges and cannot be read."""
        rows = self._about(piece)
        beside = ~np.isin(rows["offset"].to_numpy() // self._sizes.piece, sorted(folded))
        rows = rows.filter(pa.array(beside))
        return unread_in(rows["log_offset"].to_pylist(), rows["value"].to_pylist())

    def folded(self, run: RunOfRanges) -> list[RangeFolded]:
        """Fold it."""
        return list(prove(self._entries(run), self._sizes.piece))

    def close(self) -> None:
        """Give back what is held."""
        self._published.clear()

    def _piece(self, piece: int) -> pa.Table:
        if piece not in self._published:
            while len(self._published) >= PIECES_HELD_MAX:
                del self._published[next(iter(self._published))]
            first = piece * self._sizes.piece
            rows = self._files.rows(OUTCOMES, first, first + self._sizes.piece, ("offset", "value"))
            self._published[piece] = pa.Table.from_batches(
                publish_batches(rows.to_batches()), PUBLISHED_SCHEMA
            )
        return self._published[piece]

    def _about(self, piece: int) -> pa.Table:
        """Those of which it is known what they are about."""
        rows = self._piece(piece)
        return rows.filter(rows["offset"].is_valid()) if rows["offset"].null_count else rows

    def _entries(self, run: RunOfRanges) -> Iterator[Entries]:
        """Those of one run, in order, range by range."""
        size, start = self._sizes.piece, run.ranges[0] * self._sizes.piece
        if run.begin is not None:
            yield _entries(start, [start - 1], [BEGIN], [-1], [run.begin])
        if run.is_believed:
            yield self._with_said(start, run.pieces.get(run.ranges[0] - 1, ()), start - 1, start)
        for r in run.ranges:
            first, end = r * size, min((r + 1) * size, run.last + 1)
            rows = self._files.rows(COMMANDS, first, end, ("offset", "value"))
            yield self._with_said(start, run.pieces.get(r, ()), first, (r + 1) * size, rows)

    def _with_said(
        self,
        start: int,
        pieces: Collection[int],
        first: int,
        end: int,
        commands: pa.Table | None = None,
    ) -> Entries:
        """Commands, and what these pieces say of the commands from `first` up to, not including,
        `end`.
        """
        tables = []
        for piece in pieces:
            rows = self._about(piece)
            about = rows["offset"].to_numpy()
            tables.append(rows.filter(pa.array((about >= first) & (about < end))))
        said = pa.concat_tables(tables) if tables else PUBLISHED_SCHEMA.empty_table()
        offset, value = said["offset"].to_numpy(), said["value"].to_pylist()
        place, what = said["log_offset"].to_numpy(), np.full(len(offset), SAID)
        if commands is not None:
            count = commands.num_rows
            offset = np.concatenate((commands["offset"].to_numpy(), offset))
            what = np.concatenate((np.full(count, COMMAND), what))
            place = np.concatenate((np.full(count, -1), place))
            value = [*commands["value"].to_pylist(), *value]
        order = np.lexsort((place, what, offset))
        values = [value[at] for at in order.tolist()]
        return _entries(start, offset[order], what[order], place[order], values)


def _entries(
    start: int,
    offset: np.ndarray | list[int],
    what: np.ndarray | list[int],
    place: np.ndarray | list[int],
    value: list[bytes | None],
) -> Entries:
    return Entries(
        np.full(len(value), start), np.asarray(offset), np.asarray(what), np.asarray(place), value
    )
