"""What a table shows beside its own columns: moments as timestamps, and a second name for a column
whose own is a reserved word of SQL.

The tables have neither: what folds and proves them counts in whole milliseconds. Responsible for
the names and for how each engine makes the values. Refuses to know who asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.tables.columns import Column
from lakehouse.tables.specs import TableSpec

MOMENTS = frozenset(
    {
        "at_ms",
        "from_ms",
        "to_ms",
        "issued_at_ms",
        "published_at_ms",
        "last_message_ms",
        "first_acknowledged_ms",
        "last_store_ms",
        "since_ms",
        "until_ms",
        "master_left_ms",
        "master_back_ms",
        "ready_ms",
        "last_word_ms",
    }
)
"""Columns that hold a moment. All others that end in `_ms` are lengths of time."""
MS_MAX = 253_402_300_799_999
"""The end of the year 9999. 0, -1 and what no calendar has stand for no moment."""
RESERVED: Mapping[str, Mapping[str, str]] = {
    "gold": {"offset": "command_offset"},
    "silver": {"offset": "byte_offset", "table": "table_name"},
    "bronze": {"offset": "log_offset"},
}
TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column that is made of `source`."""

    name: str
    source: str
    type: pa.DataType
    meaning: str

    @property
    def is_moment(self) -> bool:
        return self.source in MOMENTS


def shown_beside(spec: TableSpec) -> tuple[ShownColumn, ...]:
    """In the order of their sources; a name that the table has itself is left out."""
    own = {column.name for column in spec.columns}
    other = RESERVED.get(spec.layer, {})
    found = []
    for column in spec.columns:
        if column.name in MOMENTS:
            name = f"{column.name.removesuffix('_ms')}_time"
            meaning = f"{column.name} as a timestamp; null where that is no moment."
            found.append(ShownColumn(name, column.name, TIMESTAMP, meaning))
        elif column.name in other:
            meaning = f"{column.name}, under a name that needs no quotes."
            found.append(ShownColumn(other[column.name], column.name, column.type, meaning))
    return tuple(one for one in found if one.name not in own)


def columns_shown(spec: TableSpec) -> tuple[Column, ...]:
    """The table's own and those beside them."""
    beside = (Column(one.name, one.type, one.meaning, one.is_moment) for one in shown_beside(spec))
    return (*spec.columns, *beside)


def in_duckdb(spec: TableSpec) -> list[str]:
    """What follows `*` in a SELECT."""
    return _listed(spec, "make_timestamptz({} * 1000)", '"')


def in_spark(spec: TableSpec) -> list[str]:
    """The same in Spark's SQL."""
    return _listed(spec, "timestamp_millis({})", "`")


def _listed(spec: TableSpec, moment: str, quote: str) -> list[str]:
    texts = []
    for one in shown_beside(spec):
        source = f"{quote}{one.source}{quote}"
        if one.is_moment:
            made = moment.format(source)
            source = f"CASE WHEN {source} BETWEEN 1 AND {MS_MAX} THEN {made} END"
        texts.append(f"{source} AS {quote}{one.name}{quote}")
    return texts


def sources_of(spec: TableSpec, names: Sequence[str]) -> list[str]:
    """The columns of the table that these names are made of."""
    made = {one.name: one.source for one in shown_beside(spec)}
    return list(dict.fromkeys(made.get(name, name) for name in names))


def shown(rows: pa.Table, spec: TableSpec, names: Sequence[str] | None = None) -> pa.Table:
    """The rows with these columns; None: all of theirs and all that are made of them."""
    for one in shown_beside(spec):
        if one.source in rows.column_names and (names is None or one.name in names):
            value = rows[one.source]
            rows = rows.append_column(one.name, _moments(value) if one.is_moment else value)
    return rows if names is None else rows.select(list(names))


def _moments(times_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    is_one = pc.and_(pc.greater_equal(times_ms, 1), pc.less_equal(times_ms, MS_MAX))
    kept = pc.if_else(is_one, times_ms, pa.scalar(None, pa.int64()))
    return kept.cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)
