"""What the footers of Parquet files say of their rows, held against the rows.

Readers pass groups of rows over by these numbers, as they pass files over by those of Delta's log:
a bound that is too narrow hides rows from questions. Responsible for naming such files. Refuses to
know what rows mean.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import listed_files, way_out
from lakehouse.tables.specs import TableSpec


def false_footers(
    lake: Lake, table: TableSpec, opened: deltalake.DeltaTable, columns: Collection[str] = ()
) -> Iterator[str]:
    """In words, each file of which the footer says what its rows do not; of all columns, or of
    these. A file that cannot be read is another's finding.
    """
    for file in listed_files(lake, table, opened):
        try:
            with file.parquet() as there:
                wrong = next(_wrong(there, columns), None)
        except (OSError, pa.ArrowException):
            continue
        if wrong is not None:
            yield (
                f"{file.name} of {table.name} hides rows from questions: its footer says {wrong}; "
                f"{way_out(table)}"
            )


def _wrong(there: pq.ParquetFile, columns: Collection[str]) -> Iterator[str]:
    footer = there.metadata
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        chunks = {
            group.column(at).path_in_schema: group.column(at).statistics
            for at in range(group.num_columns)
            if group.column(at).is_stats_set
        }
        names = [name for name in chunks if "." not in name and name in (columns or chunks)]
        rows = there.read_row_group(number, columns=names)
        for name in names:
            yield from _of_column(name, rows[name], chunks[name])


def _of_column(name: str, rows: pa.ChunkedArray, said: Any) -> Iterator[str]:
    if said.has_null_count and said.null_count != rows.null_count:
        yield f"{said.null_count} rows without {name}, there are {rows.null_count}"
    if not said.has_min_max or rows.null_count == len(rows):
        return
    try:
        least, most = _plain(said.min), _plain(said.max)
    except (pa.ArrowException, UnicodeDecodeError):  # Of a type, or a text cut within a letter.
        return
    low, high = map(_plain, _bounds(rows))
    if type(low) is type(least) and low < least:
        yield f"that {name} begins with {least}, there is {low}"
    if type(high) is type(most) and high > most:
        yield f"that {name} ends with {most}, there is {high}"


def _bounds(rows: pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and the greatest value there is."""
    try:
        low, high = pc.min_max(rows).as_py().values()
    except pa.ArrowNotImplementedError:  # Texts as the Rust library's MERGE writes them.
        values = rows.drop_null().to_pylist()
        return min(values), max(values)
    return low, high


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
