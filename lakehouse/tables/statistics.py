"""What Delta's log says of the rows of a file, held against the file's own footer.

Readers pass a file over by these numbers without opening it, so rows are hidden by a bound that is
too narrow. Responsible for what contradicts and for the numbers as Delta writes them. Refuses to
read rows, and to know which tables there are. A bound that is wider than need be hides nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NUM_RECORDS, NULL_COUNT, MIN, MAX = "num_records", "null_count", "min", "max"
TEXT_CHARS = 16
"""Delta and Parquet cut long texts, each at its own length: so many characters are in both."""
_MS = dt.timedelta(milliseconds=1)
"""Delta's times are cut to whole milliseconds."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a footer says of a column; None: nothing."""

    nulls: int | None
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class FooterFacts:
    """What a footer says of a file's rows; columns within columns are left out."""

    rows: int
    columns: Mapping[str, ColumnFacts]


def said_in_log(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a flattened add action what it says of rows: `num_records`, `null_count.…`, `min.…`,
    `max.…`.
    """
    return {
        name: value
        for name, value in row.items()
        if value is not None and name.partition(".")[0] in (NUM_RECORDS, NULL_COUNT, MIN, MAX)
    }


def facts_of(footer: pq.FileMetaData) -> FooterFacts:
    """The facts of all row groups together."""
    found: dict[str, ColumnFacts] = {}
    for group in range(footer.num_row_groups):
        for place in range(footer.num_columns):
            chunk = footer.row_group(group).column(place)
            if "." not in chunk.path_in_schema:
                name, facts = chunk.path_in_schema, _chunk(chunk)
                found[name] = _together(found[name], facts) if name in found else facts
    return FooterFacts(footer.num_rows, found)


def contradictions(said: Mapping[str, Any], there: FooterFacts) -> Iterator[str]:
    """In words, what the log says and the file does not."""
    if said.get(NUM_RECORDS, there.rows) != there.rows:
        yield f"holds {there.rows} rows, Delta's log says {said[NUM_RECORDS]}"
    for key, value in said.items():
        what, _, name = key.partition(".")
        facts = there.columns.get(name)
        if facts is None:
            continue
        if what == NULL_COUNT and facts.nulls not in (None, value):
            yield f"holds {facts.nulls} rows without {name}, Delta's log says {value}"
        if what == MIN and _is_below(facts.low, value):
            yield f"begins with {name} {_shown(facts.low)}, Delta's log says {_shown(value)}"
        if what == MAX and _is_below(value, facts.high, _MS):
            yield f"ends with {name} {_shown(facts.high)}, Delta's log says {_shown(value)}"


def as_delta_says(there: FooterFacts) -> dict[str, Any]:
    """The `stats` of an add action, of columns whose bounds are numbers, texts, days or times."""
    lows, highs = {}, {}
    for name, facts in there.columns.items():
        low, high = _written(facts.low), _written(facts.high, up=True)
        if low is not None and high is not None:
            lows[name], highs[name] = low, high
    return {
        "numRecords": there.rows,
        "minValues": lows,
        "maxValues": highs,
        "nullCount": {
            name: facts.nulls for name, facts in there.columns.items() if facts.nulls is not None
        },
    }


def _chunk(chunk: Any) -> ColumnFacts:
    known = chunk.statistics if chunk.is_stats_set else None
    if known is None:
        return ColumnFacts(None, None, None)
    nulls = known.null_count if known.has_null_count else None
    try:
        bounds = (known.min, known.max) if known.has_min_max else (None, None)
    except (pa.ArrowException, UnicodeDecodeError):  # Of a type, or a text cut within a letter.
        bounds = (None, None)
    return ColumnFacts(nulls, *bounds)


def _together(one: ColumnFacts, other: ColumnFacts) -> ColumnFacts:
    """A row group that has no bounds, for want of values, has none to add."""
    nulls = None if None in (one.nulls, other.nulls) else (one.nulls or 0) + (other.nulls or 0)
    lows = [low for low in (one.low, other.low) if low is not None]
    highs = [high for high in (one.high, other.high) if high is not None]
    return ColumnFacts(nulls, min(lows, default=None), max(highs, default=None))


def _is_below(one: Any, other: Any, by: dt.timedelta = dt.timedelta()) -> bool:
    """Whether one is less than the other, where both are known and of one kind."""
    one, other = _plain(one), _plain(other)
    if one is None or type(one) is not type(other):
        return False
    if isinstance(one, dt.datetime):
        return bool(one + by <= other if by else one < other)
    return bool(one < other)


def _plain(value: Any) -> Any:
    """As two sources of one value have it alike; None for what is not compared."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, str):
        return value[:TEXT_CHARS]
    return value if type(value) in (int, float, dt.date) else None


def _written(value: Any, *, up: bool = False) -> Any:
    """As Delta's log writes a bound; None for what it shall not have."""
    if isinstance(value, dt.datetime):
        rest = value.microsecond % 1000
        whole = value - dt.timedelta(microseconds=rest) + (_MS if up and rest else 0 * _MS)
        return whole.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return value if type(value) in (int, float, str) else None


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
