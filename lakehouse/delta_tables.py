"""
The tables on disk, without Spark.

Responsible for making the tables of the catalogue, for bringing older ones up to it, for reading
them and for asking them how far they are. Appending is Spark's part (`landing_job`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.high_water import HighWater
from lakehouse.tables import TABLE_PROPERTIES, TABLES, TableSpec

# (column, operator, value), all of which must hold; see `deltalake.DeltaTable.to_pyarrow_table`.
Filters = Sequence[tuple[str, str, Any]]


def table_path(tables_dir: Path, table: TableSpec) -> Path:
    """Where a table lies."""
    return tables_dir / table.name


def ensure_tables(tables_dir: Path) -> int:
    """
    Make what is missing of the catalogue, return the number of tables made.

    An older table gets the columns that it lacks. Raises `LakehouseError` when a table has a
    column of another type.
    """
    made = 0
    for table in TABLES:
        path = table_path(tables_dir, table)
        if not deltalake.DeltaTable.is_deltatable(str(path)):
            deltalake.DeltaTable.create(
                str(path),
                table.schema,
                partition_by=list(table.partition_by) or None,
                description=table.meaning,
                configuration=dict(TABLE_PROPERTIES),
            )
            made += 1
        else:
            _bring_up(deltalake.DeltaTable(str(path)), table)
    return made


def open_table(tables_dir: Path, table: TableSpec) -> deltalake.DeltaTable:
    """The table as it is now. Raises `NotLanded` when there is none."""
    path = table_path(tables_dir, table)
    try:
        return deltalake.DeltaTable(str(path))
    except TableNotFoundError as error:
        raise NotLanded(f"no table {table.name} in {tables_dir}: has `regent land` run?") from error


def read(
    tables_dir: Path,
    table: TableSpec,
    *,
    columns: Sequence[str] | None = None,
    filters: Filters = (),
) -> pa.Table:
    """Rows of a table, in the order of landing. Raises `NotLanded`, `LakehouseError`."""
    partition, offset = table.partition_column, table.offset_column
    wanted = list(columns or table.schema.names)
    order = [name for name in ("topic", partition, offset) if name in table.schema.names]
    needed = list(dict.fromkeys((*wanted, *order)))
    try:
        found = open_table(tables_dir, table).to_pyarrow_table(
            columns=needed, filters=list(filters) or None
        )
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise LakehouseError(f"table {table.name} cannot be read: {error}") from error
    return found.sort_by([(name, "ascending") for name in order]).select(wanted)


def milliseconds(times: pa.ChunkedArray) -> list[int | None]:
    """A timestamp column as ms since 1970-01-01 UTC."""
    whole = pc.cast(times, pa.timestamp("ms", tz="UTC"), safe=False)
    return list(pc.cast(whole, pa.int64()).to_pylist())


def high_water(tables_dir: Path, table: TableSpec) -> HighWater:
    """How far the table is, from its own rows."""
    names = [table.partition_column, table.offset_column]
    if table.topic is None:
        names.insert(0, "topic")
    found = read(tables_dir, table, columns=names)
    last = found.group_by(names[:-1]).aggregate([(names[-1], "max")]).to_pylist()
    marks = {
        (row.get("topic", table.topic), row[names[-2]]): row[f"{names[-1]}_max"] for row in last
    }
    return HighWater(marks)


def high_waters(tables_dir: Path, tables: Sequence[TableSpec]) -> Mapping[str, HighWater]:
    """How far each of the tables is, by table name."""
    return {table.name: high_water(tables_dir, table) for table in tables}


def bronze_value(tables_dir: Path, bronze: TableSpec, topic: str, offset: int) -> bytes | None:
    """The value bytes of one record of partition 0, None if it has not landed."""
    filters = [("topic", "=", topic), ("partition", "=", 0), ("offset", "=", offset)]
    rows = read(tables_dir, bronze, columns=["value"], filters=filters)
    return rows["value"][0].as_py() if rows.num_rows else None


def active_files(
    tables_dir: Path, table: TableSpec, partition_column: str, values: Sequence[str]
) -> dict[str, list[str]]:
    """The files that make up the table now, per value of its partition column."""
    found = open_table(tables_dir, table)
    return {
        value: found.file_uris(file_pruning_predicate=[(partition_column, "=", value)])
        for value in values
    }


def count_rows(tables_dir: Path, table: TableSpec) -> int:
    """Number of rows of a table."""
    return int(read(tables_dir, table, columns=[table.offset_column]).num_rows)


def _bring_up(found: deltalake.DeltaTable, table: TableSpec) -> None:
    wanted = deltalake.Schema.from_arrow(table.schema)
    present = {field.name: field for field in found.schema().fields}
    missing = [field for field in wanted.fields if field.name not in present]
    for field in wanted.fields:
        old = present.get(field.name)
        if old is not None and old.type != field.type:
            raise LakehouseError(
                f"table {table.name} was written by another version: column {field.name} is "
                f"{old.type}, this release has {field.type}; land into a new folder"
            )
    if missing:
        found.alter.add_columns(
            [deltalake.Field(f.name, f.type, nullable=True, metadata=f.metadata) for f in missing]
        )
