"""The tables on disk, without Spark.

Responsible for making the tables of the catalogue, for bringing older ones up to it, for reading
them, for asking them how far they are, and for the few rows that no stream brings (`append_rows`,
`replace_rows`). What has landed is appended by Spark (`landing.job`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from lakehouse.errors import LakehouseError
from lakehouse.tables.columns import wider
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.lake import Lake, open_delta, require_clusters
from lakehouse.tables.listed_files import cannot_be_read
from lakehouse.tables.specs import CLUSTER_ID, LANDING_TABLES, TableSpec

# (column, operator, value), all of which must hold; see `deltalake.DeltaTable.to_pyarrow_table`.
Filters = Sequence[tuple[str, str, Any]]
LANDED = ("bronze", "silver")
"""Layers of which rows are added and never merged."""


def ensure_tables(lake: Lake, tables: Sequence[TableSpec] = LANDING_TABLES) -> int:
    """Make what is missing of the catalogue, return the number of tables made; see
    `ensure_table`.
    """
    return sum(ensure_table(lake, table)[0] for table in tables)


def ensure_table(lake: Lake, table: TableSpec) -> tuple[bool, pa.Schema]:
    """Make the table if it is missing; whether it was, and the columns that it has.

    An older table gets the columns that it lacks; what lacks within a column comes with the first
    append. Raises `LakehouseError` when a table has a column of another type, was made by a
    release that did not keep clusters apart, or cannot be written.
    """
    try:
        if deltalake.DeltaTable.is_deltatable(lake.uri(table), storage_options=_options(lake)):
            found = open_delta(lake, table)
            _bring_up(found, table)
            return False, arrow_schema(found)
        return True, arrow_schema(_made(lake, table))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise LakehouseError(f"table {table.name} cannot be written: {error}") from error


def _made(lake: Lake, table: TableSpec) -> deltalake.DeltaTable:
    return deltalake.DeltaTable.create(
        lake.uri(table),
        table.schema,
        partition_by=list(table.partition_by) or None,
        description=table.meaning,
        configuration=dict(table.properties),
        mode="ignore",  # another cluster's job may make it at the same moment
        storage_options=_options(lake),
    )


def _options(lake: Lake) -> dict[str, str] | None:
    return dict(lake.storage_options) or None


def open_table(lake: Lake, table: TableSpec) -> deltalake.DeltaTable:
    """The table as it is now, with the rows of all clusters: see `own_rows`.

    Raises `NotLanded` when there is none, `LakehouseError` when it cannot be read or is one of old.
    """
    found = open_delta(lake, table)
    require_clusters(found, table)
    return found


def own_rows(lake: Lake) -> list[tuple[str, str, Any]]:
    """The filter for the rows of the lake's cluster; none when it is of no cluster."""
    return [] if lake.cluster_id is None else [(CLUSTER_ID, "=", lake.cluster_id)]


def own_predicate(lake: Lake, prefix: str = "") -> str:
    """The same as SQL, for a lake of one cluster; `prefix` stands before the column."""
    quoted = str(lake.cluster_id).replace("'", "''")
    return f"{prefix}{CLUSTER_ID} = '{quoted}'"


def read(
    lake: Lake,
    table: TableSpec,
    *,
    columns: Sequence[str] | None = None,
    filters: Filters = (),
    opened: deltalake.DeltaTable | None = None,
) -> pa.Table:
    """The cluster's rows of a table, by their places in the log; as it is now, or as it was when
    it was `opened`.

    Raises `NotLanded`, `LakehouseError`.
    """
    partition, offset = table.partition_column, table.offset_column
    wanted = list(columns or table.schema.names)
    places = (*(() if lake.cluster_id else (CLUSTER_ID,)), "topic", partition, offset)
    order = [name for name in dict.fromkeys(places) if name in table.schema.names]
    needed = list(dict.fromkeys((*wanted, *order)))
    try:
        asked = [*own_rows(lake), *filters]
        found = dataset_of(opened or open_table(lake, table), table).to_table(
            columns=needed, filter=pq.filters_to_expression(asked) if asked else None
        )
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise cannot_be_read(lake, table, error) from error
    return found.sort_by([(name, "ascending") for name in order]).select(wanted)


def dataset_of(opened: deltalake.DeltaTable, table: TableSpec) -> ds.Dataset:
    """The rows of all clusters, for readers that filter.

    The Rust library's MERGE writes texts of a type (`string_view`) that Arrow compares with no
    other: any filter on one fails. Read by their dictionaries they are compared as texts.
    """
    if table.layer in LANDED:
        return opened.to_pyarrow_dataset()
    schema = arrow_schema(opened)
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    read_options = ds.ParquetReadOptions(dictionary_columns=texts)
    found = opened.to_pyarrow_dataset(parquet_read_options=read_options)
    return ds.FileSystemDataset(list(found.get_fragments()), schema, found.format, found.filesystem)


def milliseconds(times: pa.ChunkedArray) -> list[int | None]:
    """A timestamp column as ms since 1970-01-01 UTC."""
    whole = pc.cast(times, pa.timestamp("ms", tz="UTC"), safe=False)
    return list(pc.cast(whole, pa.int64()).to_pylist())


def high_water(lake: Lake, table: TableSpec) -> HighWater:
    """How far the table is with the lake's cluster, from its own rows; in memory for some of them
    at a time.
    """
    names = [table.partition_column, table.offset_column]
    if table.topic is None:
        names.insert(0, "topic")
    found = HighWater()
    try:
        for batch in _own_dataset(lake, table).to_batches(columns=names):
            last = pa.table(batch).group_by(names[:-1]).aggregate([(names[-1], "max")])
            places = zip(
                last["topic"].to_pylist() if table.topic is None else [table.topic] * last.num_rows,
                last[names[-2]].to_pylist(),
                strict=True,
            )
            found.raise_to(zip(places, last[f"{names[-1]}_max"].to_pylist(), strict=True))
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise cannot_be_read(lake, table, error) from error
    return found


def pieces(
    lake: Lake, table: TableSpec, columns: Sequence[str], rows_at_once: int
) -> Iterator[pa.Table]:
    """The cluster's rows of a table, some at a time, in no order. Raises `NotLanded`,
    `LakehouseError`.
    """
    try:
        dataset = _own_dataset(lake, table)
        for batch in dataset.to_batches(columns=list(columns), batch_size=rows_at_once):
            if batch.num_rows:
                yield pa.table(batch)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise cannot_be_read(lake, table, error) from error


def _own_dataset(
    lake: Lake, table: TableSpec, opened: deltalake.DeltaTable | None = None
) -> ds.Dataset:
    found = dataset_of(opened or open_table(lake, table), table)
    return (
        found if lake.cluster_id is None else found.filter(pc.field(CLUSTER_ID) == lake.cluster_id)
    )


def high_waters(lake: Lake, tables: Sequence[TableSpec]) -> Mapping[str, HighWater]:
    """How far each of the tables is, by table name."""
    return {table.name: high_water(lake, table) for table in tables}


def bronze_value(
    lake: Lake,
    bronze: TableSpec,
    place: tuple[str, int],
    offset: int,
    opened: deltalake.DeltaTable | None = None,
) -> bytes | None:
    """The value bytes of one record of a topic's partition, None if it has not landed; `opened` as
    for `read`.
    """
    topic, partition = place
    filters = [("topic", "=", topic), ("partition", "=", partition), ("offset", "=", offset)]
    rows = read(lake, bronze, columns=["value"], filters=filters, opened=opened)
    return rows["value"][0].as_py() if rows.num_rows else None


def active_files(
    lake: Lake, table: TableSpec, partition_column: str, values: Sequence[str]
) -> dict[str, list[str]]:
    """The files that hold the cluster's rows now, per value of a partition column."""
    found, own = open_table(lake, table), own_rows(lake)
    return {
        value: found.file_uris(file_pruning_predicate=[*own, (partition_column, "=", value)])
        for value in values
    }


def count_rows(lake: Lake, table: TableSpec, opened: deltalake.DeltaTable | None = None) -> int:
    """Number of the cluster's rows in a table, from its files' footers: no row is read; `opened`
    as for `read`.

    Raises `NotLanded`, `LakehouseError`.
    """
    try:
        return int(_own_dataset(lake, table, opened).count_rows())
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise cannot_be_read(lake, table, error) from error


class OpenTables:
    """Tables that one process appends to again and again: each stays open, so that an append reads
    only the commits that came since.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._found: dict[str, deltalake.DeltaTable] = {}

    def append(self, table: TableSpec, rows: pa.Table) -> None:
        """Append rows in one commit with one file per partition; a field that the table lacks is
        added to it. Raises `LakehouseError`: the commit may be there all the same.
        """
        found = self._found.pop(table.name, None)
        try:
            if found is None:
                found = open_table(self._lake, table)
            else:
                found.update_incremental()
            deltalake.write_deltalake(found, _bare(rows), mode="append", schema_mode="merge")
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise LakehouseError(f"table {table.name} cannot be written: {error}") from error
        self._found[table.name] = found


def _bare(rows: pa.Table) -> pa.Table:
    """Without what the columns mean: the table says so itself, and another release may word it
    otherwise, which the library takes for a conflict.
    """
    fields = [pa.field(one.name, one.type, one.nullable) for one in rows.schema]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def append_rows(lake: Lake, table: TableSpec, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add these in one commit; the table must be there. Raises `LakehouseError`."""
    _write(lake, table, rows, mode="append")


def replace_rows(lake: Lake, table: TableSpec, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put these in the place of the cluster's rows, in one commit. Raises `LakehouseError`, also
    when another writer was faster.
    """
    _write(lake, table, rows, mode="overwrite", predicate=own_predicate(lake))


def _write(lake: Lake, table: TableSpec, rows: Sequence[Mapping[str, Any]], **how: Any) -> None:
    try:
        deltalake.write_deltalake(
            open_table(lake, table),
            _bare(pa.Table.from_pylist(list(rows), schema=table.schema)),
            schema_mode="merge",  # Another tool may have added a column.
            **how,
        )
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise LakehouseError(f"table {table.name} cannot be written: {error}") from error


def arrow_schema(found: deltalake.DeltaTable) -> pa.Schema:
    """The columns of a table as it is."""
    return pa.schema(found.schema().to_arrow())


def _bring_up(found: deltalake.DeltaTable, table: TableSpec) -> None:
    require_clusters(found, table)
    present = arrow_schema(found)
    missing = [column for column in table.columns if column.name not in present.names]
    for column in table.columns:
        try:
            if column.name in present.names:
                wider(column.type, present.field(column.name).type)
        except TypeError as error:
            raise LakehouseError(
                f"table {table.name} was written by another version: column {column.name} is "
                f"{present.field(column.name).type}, this release has {column.type}; land into a "
                "new folder"
            ) from error
    if missing:
        wanted = deltalake.Schema.from_arrow(pa.schema([column.field() for column in missing]))
        found.alter.add_columns(
            [
                deltalake.Field(f.name, f.type, nullable=True, metadata=f.metadata)
                for f in wanted.fields
            ]
        )
