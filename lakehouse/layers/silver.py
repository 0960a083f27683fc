"""Silver beside bronze: every row is made again of its record and compared.

In pieces of some thousand records, so that it needs no more memory for a long history.
Responsible for what a row may be: what its record gives, nothing when the record cannot be read or
broke a check, and missing for a moment while landing is on its way. Tables of kinds that this
release does not know are named and not compared. Refuses to know how rows are made
(`landing.silver_rows`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import NotLanded
from lakehouse.invariants.lengths import AHEAD_MAX_MS
from lakehouse.landing.kinds import Catalogue
from lakehouse.landing.silver_rows import LogRecord, Row, typed_rows
from lakehouse.layers.difference import Compared, differing, runs, same
from lakehouse.proof.finding import Finding
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import cannot_be_read
from lakehouse.tables.losses import read_losses
from lakehouse.tables.row_checks import first_broken
from lakehouse.tables.specs import UNREADABLE, TableSpec
from lakehouse.tables.table_files import UNREADABLE as DAMAGED
from lakehouse.tables.table_files import TableFiles

RECORDS_AT_ONCE = 10_000
COLUMNS = ("offset", "timestamp", "value", "landed_at")
WHAT_TO_DO = (
    "bronze is what counts: stop the landing job, remove the table's folder and the job's "
    "checkpoint folder and start it: it fills the table again"
)
BEHIND_TO_DO = "'regent status' shows how far the landing job is; if it is there, " + WHAT_TO_DO
AGAIN_TO_DO = "start the landing job anew: it reads what it could not read before"

Offsets = Mapping[int, Any]


def compare_silver(
    lake: Lake, files: BronzeFiles, catalogue: Catalogue, now_ms: int | None = None
) -> Compared:
    """All silver tables of a cluster beside what landed. Raises `LakehouseError`."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    names = [name for name, table in catalogue.tables.items() if table.layer == "silver"]
    tables = [_Table(lake, name, catalogue) for name in names]
    found = Compared()
    beside = _Beside(lake, files, catalogue, tables, found, now_ms)
    for place, offsets in files.offsets.items():
        first, end = int(offsets[0]), int(offsets[-1]) + 1
        for start in range(first // RECORDS_AT_ONCE * RECORDS_AT_ONCE, end, RECORDS_AT_ONCE):
            lowest = 0 if start <= first else start
            beside.compare(place, lowest, min(start + RECORDS_AT_ONCE, end))
    for table in tables:
        found.found(table.of_no_record(files.offsets))
        found.problems += table.problems()
    if not found.findings and not found.problems:
        found.notices.append(f"silver: {found.rows} rows are what bronze gives")
    found.notices += [*beside.notices(), *_not_known(lake, catalogue)]
    return found


class _Table:
    """One silver table as it lies there."""

    def __init__(self, lake: Lake, name: str, catalogue: Catalogue) -> None:
        self._lake = lake
        self._told: list[str] = []
        try:
            self._files: TableFiles | None = TableFiles(lake, catalogue.tables[name])
        except NotLanded:
            self._files = None
        else:
            catalogue.fit(name, self._files.schema)
        self.spec: TableSpec = catalogue.tables[name]
        self._rows = self._opened()

    def rows(self, place: Partition, first: int, end: int) -> pa.Table:
        """Those of records of a stretch."""
        wanted = (
            (pc.field("log_partition") == place[1])
            & (pc.field("log_offset") >= first)
            & (pc.field("log_offset") < end)
        )
        if self.spec.topic is None:
            wanted = wanted & (pc.field("topic") == place[0])
        return self._read(wanted, None)

    def of_no_record(self, landed: Collection[Partition]) -> Iterator[Finding]:
        """Rows of partitions of which bronze has nothing, and rows that are at no place of one:
        none is among those of a stretch.
        """
        names = ["log_partition", "log_offset"]
        of_any = self.spec.topic is None
        rows = self._read(None, ["topic", *names] if of_any else names)
        topics = rows["topic"] if of_any else pa.repeat(str(self.spec.topic), rows.num_rows)
        places = pa.table({"topic": topics, **{name: rows[name] for name in names}})
        by_place = places.group_by(["topic", "log_partition"]).aggregate(
            [("log_offset", "min"), ("log_offset", "max")]
        )
        without = rows.filter(pc.is_null(rows["log_offset"])).num_rows
        if without:
            self._told.append(f"{self.spec.name}: {without} rows have no offset: {WHAT_TO_DO}")
        for row in by_place.to_pylist():
            place = (row["topic"], row["log_partition"])
            first, last = row["log_offset_min"], row["log_offset_max"]
            if place not in landed and None not in (*place, first):
                said = "rows that no record of bronze gives: nothing of that partition is there"
                yield Finding(self.spec.name, *place, first, last, said, WHAT_TO_DO)
            elif None in place:
                self._told.append(f"{self.spec.name}: rows have no partition: {WHAT_TO_DO}")
            elif first is not None and first < 0:
                said = "rows that no record of bronze gives: no log has such an offset"
                yield Finding(self.spec.name, *place, first, -1, said, WHAT_TO_DO)

    def problems(self) -> list[str]:
        """What is wrong with its files."""
        if self._files is None:
            return self._told
        return [*self._told, *self._files.unlike_the_log(), *self._files.hiding()]

    def _opened(self) -> Any:
        return None if self._files is None else self._files.dataset()

    def _columns(self) -> pa.Schema:
        return pa.schema(
            [one for one in self.spec.schema if one.name not in self.spec.partition_by]
        )

    def _read(self, wanted: Any, columns: list[str] | None) -> pa.Table:
        """Of the files that can be read."""
        if self._files is None or not self._files.files:
            empty = self._columns().empty_table()
            return empty if columns is None else empty.select(columns)
        try:
            return self._rows.to_table(filter=wanted, columns=columns)
        except DAMAGED as error:
            damaged = self._files.leave_out_damaged()
            if not damaged:
                raise cannot_be_read(self._lake, self.spec, error) from error
            self._told += damaged
            self._rows = self._opened()
            return self._read(wanted, columns)


class _Made:
    """What some records give."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, Row]] = {}
        """Table -> offset -> row."""
        self.broken: dict[int, str] = {}
        """Offset -> which check it broke, or why it cannot be read: it may be in
        `silver/unreadable` alone.
        """
        self.unknown: set[int] = set()
        """Offsets of records whose schema nobody here knows."""
        self.landed_ms: dict[int, int] = {}
        self.values: dict[int, bytes | None] = {}


class _Beside:
    """Compares stretch by stretch."""

    def __init__(
        self,
        lake: Lake,
        files: BronzeFiles,
        catalogue: Catalogue,
        tables: Sequence[_Table],
        found: Compared,
        now_ms: int,
    ) -> None:
        self._cluster_id = str(lake.cluster_id)
        self._files, self._catalogue = files, catalogue
        self._tables, self._found = tables, found
        self._now_ms = now_ms
        self._noted = read_losses(lake)
        self._of_lost = 0
        self._on_their_way = 0
        self._unknown = 0

    def compare(self, place: Partition, first: int, end: int) -> None:
        made = self._made(place, first, end)
        self._unknown += len(made.unknown)
        typed = [table for table in self._tables if table.spec.topic == place[0]]
        quarantined = self._quarantined(place, first, end, made)
        for table in typed:
            there = table.rows(place, first, end)
            mine = made.rows.get(table.spec.name, {})
            self._found.rows += there.num_rows
            if not self._is_same(table, there, mine, made):
                self._tell(table, place, there, mine, made, quarantined)
        self._found.found(self._lost(place, made, quarantined))

    def notices(self) -> Iterator[str]:
        """What is no finding."""
        if self._on_their_way:
            yield f"{self._on_their_way} rows of silver are still on their way"
        if self._of_lost:
            yield (
                f"{self._of_lost} rows of silver are of records that are noted as lost before "
                "bronze had them"
            )
        if self._unknown:
            yield (
                f"{self._unknown} records have a schema that this release does not know: what "
                "became of them was not compared (--schemas FOLDER may explain them)"
            )

    def _made(self, place: Partition, first: int, end: int) -> _Made:
        made = _Made()
        rows = self._files.rows(place, first, end, COLUMNS)
        landed_ms = pc.cast(rows["landed_at"], pa.timestamp("ms", tz="UTC"), safe=False)
        columns = [rows[name].to_pylist() for name in COLUMNS[:3]]
        for offset, at, value, landed in zip(
            *columns, pc.cast(landed_ms, pa.int64()).to_pylist(), strict=True
        ):
            record = LogRecord(self._cluster_id, *place, offset, at, value)
            made.landed_ms[offset], made.values[offset] = landed, value
            for name, row in typed_rows(record, self._catalogue):
                if name == UNREADABLE.name:
                    made.broken[offset] = row["reason"]
                    if row["reason"].startswith("UnknownFingerprint"):
                        made.unknown.add(offset)
                    continue
                made.rows.setdefault(name, {})[offset] = row
                broken = first_broken(row, self._catalogue.tables[name].checks)
                if broken is not None:
                    made.broken[offset] = str(broken)
        return made

    def _quarantined(self, place: Partition, first: int, end: int, made: _Made) -> set[int]:
        """Offsets in `silver/unreadable`; a row there must be of its record."""
        [table] = [one for one in self._tables if one.spec.name == UNREADABLE.name]
        there = table.rows(place, first, end)
        self._found.rows += there.num_rows
        offsets, values = there["log_offset"].to_pylist(), there["value"].to_pylist()
        wrong = [
            offset
            for offset, value in zip(offsets, values, strict=True)
            if offset not in made.values or made.values[offset] != value
        ]
        wrong = self._without_lost(place, wrong)
        said = "a row that is not of the record of bronze"
        self._found.found(_findings(table.spec, place, runs(sorted(wrong)), said, WHAT_TO_DO))
        return set(offsets)

    def _is_same(self, table: _Table, there: pa.Table, mine: Offsets, made: _Made) -> bool:
        if any(offset in made.broken for offset in mine):
            return False
        schema = pa.schema(
            [one for one in table.spec.schema if one.name not in table.spec.partition_by]
        )
        rows = pa.Table.from_pylist(list(mine.values()), schema=schema)
        return same(there, rows, ("log_offset",))

    def _tell(
        self,
        table: _Table,
        place: Partition,
        there: pa.Table,
        mine: Offsets,
        made: _Made,
        quarantined: set[int],
    ) -> None:
        own = table.spec
        by_offset: dict[int, list[Row]] = {}
        for row in there.to_pylist():
            by_offset.setdefault(row["log_offset"], []).append(row)
        twice = sorted(offset for offset, rows in by_offset.items() if len(rows) > 1)
        strange = self._without_lost(place, sorted(by_offset.keys() - mine.keys() - made.unknown))
        self._found.found(_findings(own, place, runs(twice), "a row stands twice", WHAT_TO_DO))
        self._found.found(
            _findings(own, place, runs(strange), "a row that no record of bronze gives", WHAT_TO_DO)
        )
        names = {name: None for name in own.schema.names if name not in own.partition_by}
        for offset in sorted(by_offset.keys() & mine.keys()):
            wanted = names | {name: mine[offset].get(name) for name in names}
            for row in by_offset[offset][:1]:
                said = differing(row, wanted)
                if said:
                    self._found.found([Finding(own.name, *place, offset, offset, said, WHAT_TO_DO)])
        missing = sorted(
            offset for offset in mine.keys() - by_offset.keys() if offset not in made.broken
        )
        self._missing(own, place, missing, made, quarantined, max(by_offset, default=-1))

    def _without_lost(self, place: Partition, offsets: Sequence[int]) -> list[int]:
        """Without those of records that the silver query had and bronze's had not, when the log
        dropped them.
        """
        found = [offset for offset in offsets if not self._noted.covers(place, offset)]
        self._of_lost += len(offsets) - len(found)
        return found

    def _missing(
        self,
        table: TableSpec,
        place: Partition,
        missing: Sequence[int],
        made: _Made,
        quarantined: set[int],
        last: int,
    ) -> None:
        """`last`: the last row there is. What lacks in front of it is on no way: rows come in
        order.
        """
        waiting = [offset for offset in missing if offset in quarantined]
        new = {
            offset
            for offset in missing
            if offset > last
            and self._now_ms - made.landed_ms[offset] <= AHEAD_MAX_MS
            and offset not in quarantined
        }
        self._on_their_way += len(new)
        gone = [one for one in missing if one not in new and one not in quarantined]
        said = "stands in silver/unreadable and can be read by this release"
        self._found.found(_findings(table, place, runs(waiting), said, AGAIN_TO_DO))
        said = "no row, although the record landed: it was taken away, or landing is behind"
        self._found.found(_findings(table, place, runs(gone), said, BEHIND_TO_DO))

    def _lost(self, place: Partition, made: _Made, quarantined: set[int]) -> Iterator[Finding]:
        """Records that cannot be read and are not quarantined either."""
        lost = sorted(
            offset
            for offset in made.broken
            if offset not in quarantined
            and offset not in made.unknown
            and not any(offset in rows for rows in made.rows.values())
            and self._now_ms - made.landed_ms[offset] > AHEAD_MAX_MS
        )
        said = "no row, although the record landed and cannot be read"
        return _findings(UNREADABLE, place, runs(lost), said, BEHIND_TO_DO)


def _findings(
    table: TableSpec,
    place: Partition,
    ranges: Iterable[tuple[int, int]],
    said: str,
    what_to_do: str,
) -> Iterator[Finding]:
    return (Finding(table.name, *place, first, last, said, what_to_do) for first, last in ranges)


def _not_known(lake: Lake, catalogue: Catalogue) -> Iterator[str]:
    """Tables of kinds that came with later releases."""
    if lake.folder is None:
        return
    for log in sorted(lake.folder.glob("silver/*/_delta_log")):
        name = f"silver/{log.parent.name}"
        if name not in catalogue.tables:
            yield f"{name} is of a kind that this release does not know: it was not compared"
