"""The tables in an Iceberg catalogue, over the very files that Delta lists: nothing is copied.

Responsible for a table of Iceberg beside each table of Delta, and for one commit a run that takes
in the files that Delta's log has added and gives up those that it has removed. What is registered
is a moment of the Delta table; readers of Iceberg see no row before the next run.
Refuses to write rows, and to remove a file: the files are Delta's, and the tables say so
(`gc.enabled` is false).

PyIceberg speaks to the catalogue. It is no part of Regent: who registers installs it beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.errors import LakehouseError
from lakehouse.tables.lake import Lake, open_delta
from lakehouse.tables.specs import TableSpec

WITH_PYICEBERG = "pip install 'pyiceberg[pyarrow]==0.12.0'"
DELTA_VERSION = "regent.delta-version"
"""In each snapshot: the version of the Delta table that it shows."""
PROPERTIES: Mapping[str, str] = {
    # What expires snapshots or drops a table would remove files that Delta lists.
    "gc.enabled": "false",
    "regent.source": "delta",
}


@dataclass(frozen=True, slots=True)
class Registered:
    """What a run did to one table."""

    name: str
    """In the catalogue, such as `gold.failovers`."""
    delta_version: int
    files: int
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Listed:
    """One file of Delta's log."""

    path: str
    partition: Mapping[str, str]


def open_catalogue(uri: str, properties: Mapping[str, str]) -> Any:
    """A catalogue of PyIceberg: `http…` speaks Iceberg REST, `sqlite:…` and `postgresql…` keep
    theirs in a database; `properties` as PyIceberg spells them. Raises `LakehouseError` when
    PyIceberg is not there or nobody answers.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise LakehouseError(f"PyIceberg is not installed: {WITH_PYICEBERG}") from error
    try:
        return load_catalog("regent", uri=uri, **properties)
    except Exception as error:  # Each catalogue has errors of its own.
        raise LakehouseError(f"the catalogue at {uri} cannot be opened: {error}") from error


def register(
    lake: Lake, catalogue: Any, specs: Sequence[TableSpec], prefix: str = ""
) -> Iterator[Registered]:
    """Bring each table in the catalogue up to its Delta table; namespaces are `prefix` and the
    layer. Rows of all clusters are in them.

    Raises `LakehouseError` for a table that cannot be read, and when the catalogue refuses.
    """
    namespaces: set[str] = set()
    for spec in specs:
        layer, _, noun = spec.name.partition("/")
        name = (f"{prefix}{layer}", noun)
        try:
            if name[0] not in namespaces:
                catalogue.create_namespace_if_not_exists(name[:1])
                namespaces.add(name[0])
            yield _brought_up(lake, catalogue, spec, name)
        except LakehouseError:
            raise
        except Exception as error:  # Each catalogue has errors of its own.
            raise LakehouseError(
                f"table {'.'.join(name)} cannot be registered: {type(error).__name__}: {error}"
            ) from error


def _brought_up(lake: Lake, catalogue: Any, spec: TableSpec, name: tuple[str, str]) -> Registered:
    opened = open_delta(lake, spec)
    listed = files_listed(lake, spec, opened)
    schema = _schema(opened)
    table = _loaded(catalogue, name)
    if table is None:
        table = _made(catalogue, name, schema, opened.metadata())
    known = {task.file.file_path: task.file for task in table.scan().plan_files()}
    added = [one for path, one in listed.items() if path not in known]
    removed = [one for path, one in known.items() if path not in listed]
    grown = set(schema.names) > {field.name for field in table.schema().fields}
    if added or removed or grown:
        with table.transaction() as change:
            if grown:
                with change.update_schema() as columns:
                    columns.union_by_name(schema)
            if added or removed:
                _commit(change, table, added, removed, opened.version())
    return Registered(".".join(name), opened.version(), len(listed), len(added), len(removed))


def _loaded(catalogue: Any, name: tuple[str, str]) -> Any:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return catalogue.load_table(name)
    except NoSuchTableError:
        return None


def files_listed(lake: Lake, spec: TableSpec, opened: Any) -> dict[str, Listed]:
    """The files of Delta's log by their place as Iceberg spells it."""
    # As it is, without %20 and the like: no reader of Iceberg decodes it.
    root = ("" if lake.folder is None else "file://") + lake.absolute_uri(spec)
    found = {}
    for row in pa.table(opened.get_add_actions(flatten=True)).to_pylist():
        path = f"{root}/{unquote(row['path'])}"
        values = {
            key.removeprefix("partition."): value
            for key, value in row.items()
            if key.startswith("partition.")
        }
        found[path] = Listed(path, values)
    return found


def _schema(opened: Any) -> pa.Schema:
    """With what each column means. Any column may be null: the files themselves say no other."""
    fields = []
    for field in pa.schema(opened.schema()):
        comment = (field.metadata or {}).get(b"comment", b"")
        fields.append(pa.field(field.name, field.type, True, {b"doc": comment}))
    return pa.schema(fields)


def _made(catalogue: Any, name: tuple[str, str], schema: pa.Schema, said: Any) -> Any:
    properties = {**PROPERTIES, "comment": said.description or ""}
    with catalogue.create_table_transaction(name, schema, properties=properties) as change:
        with change.update_spec() as partitions:
            for column in said.partition_columns:
                partitions.add_identity(column)
        # Delta's files have no field ids: readers find columns by their names.
        names = change.table_metadata.schema().name_mapping.model_dump_json()
        change.set_properties({"schema.name-mapping.default": names})
    return catalogue.load_table(name)


def _commit(
    change: Any, table: Any, added: Sequence[Listed], removed: Sequence[Any], version: int
) -> None:
    from pyiceberg.expressions import AlwaysTrue

    metadata = change.table_metadata
    update = change.update_snapshot({DELTA_VERSION: str(version)})
    with update.overwrite() if removed else update.fast_append() as snapshot:
        if removed:
            snapshot.delete_by_predicate(AlwaysTrue())
        for one in added:
            snapshot.append_data_file(_data_file(table.io, metadata, one))
        for gone in removed:
            snapshot.delete_data_file(gone)


class _IdsByPath(dict[str, int]):
    """Ids of columns by their paths in a file; writers differ in what they call a list's values."""

    def __missing__(self, path: str) -> int:
        usual = path.replace(".list.item", ".list.element")
        if usual == path:
            raise KeyError(path)
        return self[usual]


def _data_file(io: Any, metadata: Any, listed: Listed) -> Any:
    """What Iceberg says of a file; what it holds is read from its footer."""
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    schema, spec = metadata.schema(), metadata.spec()
    there = io.new_input(listed.path)
    with there.open() as stream:
        footer = pq.read_metadata(stream)
    said = data_file_statistics_from_parquet_metadata(
        footer,
        compute_statistics_plan(schema, metadata.properties),
        _IdsByPath(parquet_path_to_id_mapping(schema)),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=listed.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*(listed.partition[field.name] for field in spec.fields)),
        file_size_in_bytes=len(there),
        sort_order_id=None,
        spec_id=spec.spec_id,
        equality_ids=None,
        key_metadata=None,
        **said.to_serialized_dict(),
    )
