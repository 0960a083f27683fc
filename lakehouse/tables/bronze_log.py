"""A topic's partition as bronze has it, in the order of its offsets, without Spark.

Responsible for finding holes and rows that contradict each other before anyone relies on it, and
for giving the records in pieces that fit into memory. Refuses to know what is done with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError

from lakehouse.errors import LakehouseError
from lakehouse.tables.delta import milliseconds, open_table, own_rows
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import cannot_be_read
from lakehouse.tables.specs import BRONZE

RECORDS_AT_ONCE = 20_000
HOLES_TOLD_MAX = 5


@dataclass(frozen=True, slots=True)
class LandedRecord:
    """One record as it came; `value` and `key` are the very bytes."""

    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


class BronzeLog:
    """Partition `partition` of a cluster's `topic`. Reads the table as it was when this was
    made.
    """

    def __init__(
        self,
        lake: Lake,
        topic: str,
        partition: int = 0,
        rows: ds.Dataset | None = None,
        offsets: pa.ChunkedArray | None = None,
    ) -> None:
        """`rows` and `offsets` are those of bronze and of this partition, where they were read
        together with others.
        """
        self._lake, self._topic = lake, topic
        try:
            self._rows = _opened(lake) if rows is None else rows
            self._mine = (
                _own(lake) & (pc.field("topic") == topic) & (pc.field("partition") == partition)
            )
            if offsets is None:
                offsets = self._rows.to_table(columns=["offset"], filter=self._mine)["offset"]
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise cannot_be_read(lake, BRONZE, error) from error
        there = np.sort(offsets.to_numpy())
        self.doubled: list[int] = np.unique(there[1:][np.diff(there) == 0]).tolist()
        """Offsets that more than one row has, ascending."""
        self.holes = _holes(there)
        """Ranges of offsets, both ends included, that have not landed, from offset 0 on."""
        self.end = 0 if not len(offsets) else int(pc.max(offsets).as_py()) + 1
        """Offset behind the last record that landed."""

    def require_whole(self) -> None:
        """Raises LakehouseError when a record below `end` is missing."""
        if not self.holes:
            return
        told = ", ".join(
            (f"{first} to {last}") if last > first else str(first)
            for first, last in self.holes[:HOLES_TOLD_MAX]
        )
        more = (
            (f" and {len(self.holes) - HOLES_TOLD_MAX} more")
            if len(self.holes) > HOLES_TOLD_MAX
            else ""
        )
        raise LakehouseError(
            f"bronze of {self._topic} has a hole: offsets {told}{more} never landed"
        )

    def records(self) -> Iterator[LandedRecord]:
        """All records from offset 0 on. Raises LakehouseError for a hole and for two rows that
        contradict each other.
        """
        self.require_whole()
        for start in range(0, self.end, RECORDS_AT_ONCE):
            yield from self._piece(start, min(start + RECORDS_AT_ONCE, self.end))

    def landed(self, first: int = 0) -> Iterator[LandedRecord]:
        """What there is from `first` on, holes or not, ascending. Raises LakehouseError for two
        rows that contradict each other.
        """
        for start in range(first, self.end, RECORDS_AT_ONCE):
            yield from self._piece(start, min(start + RECORDS_AT_ONCE, self.end), holes=True)

    def _piece(self, start: int, end: int, *, holes: bool = False) -> Iterator[LandedRecord]:
        inside = self._mine & (pc.field("offset") >= start) & (pc.field("offset") < end)
        try:
            rows = self._rows.to_table(
                columns=["offset", "timestamp", "key", "value"], filter=inside
            )
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise cannot_be_read(self._lake, BRONZE, error) from error
        rows = rows.sort_by("offset")
        columns = (
            rows["offset"].to_pylist(),
            milliseconds(rows["timestamp"]),
            rows["key"].to_pylist(),
            rows["value"].to_pylist(),
        )
        last: LandedRecord | None = None
        for record in map(LandedRecord, *columns):
            if (
                last is None
                or record.offset == last.offset + 1
                or (holes and record.offset > last.offset)
            ):
                yield record
            elif record.offset != last.offset:
                raise LakehouseError(
                    f"bronze of {self._topic} changed while it was read, at offset {record.offset}"
                )
            elif (record.key, record.value) != (last.key, last.value):
                raise LakehouseError(
                    f"bronze of {self._topic} has two different records at offset {record.offset}"
                )
            last = record


def all_logs(lake: Lake) -> dict[Partition, BronzeLog]:
    """Every partition that has landed, of one and the same version of the table. Raises
    `NotLanded`, `LakehouseError`.
    """
    try:
        rows = _opened(lake)
        places = rows.to_table(columns=["topic", "partition", "offset"], filter=_own(lake))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise cannot_be_read(lake, BRONZE, error) from error
    found: dict[Partition, BronzeLog] = {}
    for one in (
        places.group_by(["topic", "partition"])
        .aggregate([])
        .sort_by([("topic", "ascending"), ("partition", "ascending")])
        .to_pylist()
    ):
        topic, partition = one["topic"], one["partition"]
        mine = places.filter((pc.field("topic") == topic) & (pc.field("partition") == partition))
        found[topic, partition] = BronzeLog(lake, topic, partition, rows, mine["offset"])
    return found


def _opened(lake: Lake) -> ds.Dataset:
    return open_table(lake, BRONZE).to_pyarrow_dataset()


def _own(lake: Lake) -> pc.Expression:
    return reduce(
        and_, (pc.field(column) == value for column, _, value in own_rows(lake)), pc.scalar(True)
    )


def _holes(offsets: np.ndarray) -> list[tuple[int, int]]:
    there = np.concatenate(([-1], offsets))
    return [
        (int(there[at]) + 1, int(there[at + 1]) - 1) for at in np.flatnonzero(np.diff(there) > 1)
    ]
