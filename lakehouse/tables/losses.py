"""Records that were gone from the log before they landed, as rows: what is noted here is missing
from bronze for good, and nobody waits for it.

Responsible for reading the table, and for which offsets it covers. Refuses to know who
notes a loss and when one may be noted (`landing.log_losses`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
from msgspec import Struct

from lakehouse import wording
from lakehouse.errors import NotLanded
from lakehouse.tables.delta import milliseconds, read
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import ACCEPTED, CLUSTER_ID, LOSSES, RETENTION

_WORDS = {
    RETENTION: "the log had dropped them",
    ACCEPTED: "the log lost them, and an operator accepted that",
}


class Loss(Struct, frozen=True):
    """A stretch of one partition that never landed; offsets are both included."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    why: str = RETENTION
    found_ms: int = 0
    """When it was found, ms since 1970-01-01 UTC."""

    @property
    def place(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def records(self) -> int:
        """How many are missing."""
        return self.to_offset + 1 - self.from_offset

    @property
    def said(self) -> str:
        """One line for people."""
        which = (
            f"offset {self.from_offset}"
            if self.records == 1
            else f"offsets {self.from_offset} to {self.to_offset}"
        )
        return (
            f"{self.topic}-{self.partition} {which} never landed: "
            f"{_WORDS.get(self.why, self.why)} (found {wording.moment(self.found_ms)} UTC)"
        )

    @property
    def row(self) -> dict[str, object]:
        """As the table has it, without the cluster."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from_offset": self.from_offset,
            "to_offset": self.to_offset,
            "found_at": datetime.fromtimestamp(self.found_ms / 1000, UTC),
            "why": self.why,
        }


class Losses:
    """Every noted loss of one cluster.

    Invariants: of one partition no two overlap, and they ascend.
    """

    def __init__(self, noted: Iterable[Loss] = ()) -> None:
        self.noted = tuple(sorted(noted, key=lambda one: (one.place, one.from_offset)))
        self._of: dict[Partition, list[Loss]] = {}
        for one in self.noted:
            self._of.setdefault(one.place, []).append(one)

    def behind(self, place: Partition, offset: int) -> int:
        """The first offset, from this one on, that is not noted as lost."""
        mine = self._of.get(place, ())
        at = bisect_right(mine, offset, key=lambda one: one.from_offset) - 1
        while 0 <= at < len(mine) and mine[at].from_offset <= offset <= mine[at].to_offset:
            offset, at = mine[at].to_offset + 1, at + 1
        return offset

    def covers(self, place: Partition, offset: int) -> bool:
        """Whether it is noted as lost."""
        return self.behind(place, offset) > offset

    def left_of(self, place: Partition, first: int, last: int) -> Iterator[tuple[int, int]]:
        """What is not noted of a stretch, both ends included."""
        for one in self._of.get(place, ()):
            if one.to_offset < first or one.from_offset > last:
                continue
            if one.from_offset > first:
                yield first, one.from_offset - 1
            first = one.to_offset + 1
        if first <= last:
            yield first, last

    def missing(
        self, landed: Mapping[Partition, tuple[Iterable[tuple[int, int]], int]]
    ) -> list[Loss]:
        """Those of which a record is missing; `landed`: the holes of each partition, both ends
        included, and the offset behind its last record.
        """
        return [
            one
            for one in self.noted
            if one.to_offset >= (there := landed.get(one.place, ((), 0)))[1]
            or any(one.from_offset <= last and one.to_offset >= a for a, last in there[0])
        ]

    def behind_ends(self, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """These ends with what is noted right behind them: silver may have had rows of it, for its
        query may be ahead of that of bronze.
        """
        return {place: self.behind(place, end) for place, end in ends.items()}

    def records(self) -> dict[str, int]:
        """How many are missing, by `topic-partition`."""
        found: dict[str, int] = {}
        for one in self.noted:
            name = f"{one.topic}-{one.partition}"
            found[name] = found.get(name, 0) + one.records
        return found


NOTHING_LOST = Losses()


def read_losses(lake: Lake) -> Losses:
    """What is noted in the lake; nothing where nothing ever was. Raises `LakehouseError`."""
    try:
        rows = read(lake, LOSSES).drop_null()  # What lacks a place notes nothing.
    except NotLanded:
        return NOTHING_LOST
    times = milliseconds(rows["found_at"])
    plain = [name for name in Loss.__struct_fields__ if name != "found_ms"]
    return Losses(
        Loss(**row, found_ms=at_ms or 0)
        for row, at_ms in zip(rows.select(plain).to_pylist(), times, strict=True)
    )


def loss_rows(cluster_id: str, losses: Iterable[Loss]) -> pa.Table:
    """These as rows of the table."""
    rows = [{CLUSTER_ID: cluster_id, **one.row} for one in losses]
    return pa.Table.from_pylist(rows, schema=LOSSES.schema)
