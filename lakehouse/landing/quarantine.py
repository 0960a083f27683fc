"""Unreadable records read again, once a schema that explains them is known.

Responsible for which of them become rows now. Their rows in `silver/unreadable` stay. Refuses to
append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakehouse.landing import batch_reading
from lakehouse.landing.finished import Finished
from lakehouse.landing.kinds import Catalogue
from lakehouse.landing.silver_rows import LogRecord, Row, silver_rows
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLUSTER_ID, UNREADABLE

RECORDS_AT_ONCE = 2_000
"""Less where they are large: a piece has the bytes of a piece of a micro-batch."""
COLUMNS = (CLUSTER_ID, "topic", "log_partition", "log_offset", "log_timestamp", "value")

Place = tuple[str, int, int]
"""Topic, partition, offset."""


class Quarantine:
    """The quarantine of the lake's cluster, read once.

    `places_in(table)` gives the places of that table's rows of the same cluster.
    """

    def __init__(
        self,
        lake: Lake,
        catalogue: Catalogue,
        finished: Finished,
        places_in: Callable[[str], set[Place]],
    ) -> None:
        self._lake = lake
        self._catalogue = catalogue
        self._finished = finished
        self._places_in = places_in
        self._known: dict[str, set[Place]] = {}
        self.waiting = 0
        """Records that can be read, and lie above what their query has finished: a later reading
        takes them, or their query does.
        """

    def readable(self) -> Iterator[dict[str, pa.Table]]:
        """What the records become by what is known now, by table name, some records at a time,
        without what is there already.
        """
        for many in delta.pieces(self._lake, UNREADABLE, COLUMNS, RECORDS_AT_ONCE):
            for rows in batch_reading.cut(many):
                found: dict[str, list[Row]] = {}
                for row in rows.to_pylist():
                    self._take(row, found)
                yield {
                    name: pa.Table.from_pylist(made, schema=self._catalogue.tables[name].schema)
                    for name, made in found.items()
                }

    def _take(self, row: Mapping[str, Any], found: dict[str, list[Row]]) -> None:
        place = (row["topic"], row["log_partition"], row["log_offset"])
        record = LogRecord(row[CLUSTER_ID], *place, row["log_timestamp"], row["value"])
        for name, made in silver_rows(record, self._catalogue):
            if name == UNREADABLE.name:
                continue
            if not self._finished.covers(name, place[:2], place[2]):
                self.waiting += 1
                continue
            if name not in self._known:
                self._known[name] = self._places_in(name)
            if place not in self._known[name]:
                self._known[name].add(place)
                found.setdefault(name, []).append(made)
