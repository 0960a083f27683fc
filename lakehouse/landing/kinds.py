"""Which table each kind of record becomes rows of, as one landing job knows it.

The release's own tables to begin with; wider ones when the tables in the lake are wider, or when a
record comes whose schema this release was not made with; new ones for kinds that it does not know.
Columns are added and never taken away.
Responsible for reading a record by whatever schema explains it, and for the tables that follow from
it.
Refuses to know where schemas are found and how tables are changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from events import codec
from lakehouse.tables.columns import Column, FieldColumn, wider
from lakehouse.tables.specs import (
    BY_NAME,
    COMMAND_TABLES,
    DECISIONS,
    EVENT_TABLES,
    TableSpec,
    kind_table,
    record_fields,
)


class Explained(Protocol):
    """A schema that was found elsewhere; see `late_schemas.LateSchema`."""

    @property
    def kind(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def document(self) -> Mapping[str, Any]: ...

    @property
    def decode(self) -> Callable[[bytes], Any]: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A record, the table it belongs to, and the columns that its own schema fills."""

    record: Any
    table: TableSpec
    fields: tuple[FieldColumn, ...]


class Catalogue:
    """Tables by name and by kind of record. Safe to call from the threads of several queries.

    Invariants: a table once known stays, and its columns keep their names, types and order.
    """

    def __init__(self, explain: Callable[[bytes], Explained | None] = lambda data: None) -> None:
        self._explain = explain
        self._lock = threading.Lock()
        self._tables = dict(BY_NAME)
        self._of_kind = {
            str(table.kind): table.name for table in (*COMMAND_TABLES, *EVENT_TABLES, DECISIONS)
        }
        self._late: dict[str, tuple[Explained, tuple[FieldColumn, ...]]] = {}

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """Every table by its name; the mapping is replaced when something is learned, and never
        changes.
        """
        return self._tables

    def read(self, data: bytes) -> Reading:
        """The record in the bytes. Raises `codec.CodecError`, with the reason, when nothing
        explains them.
        """
        try:
            record = codec.decode(data)
        except codec.UnknownFingerprint as error:
            return self._read_late(data, error)
        table = self._tables[self._of_kind[type(record).__name__]]
        return Reading(record, table, BY_NAME[table.name].fields)

    def fit(self, name: str, schema: pa.Schema) -> None:
        """Take over what a table in the lake has more than we know of. Raises `TypeError` when the
        two contradict.
        """
        columns = [
            Column(f.name, f.type, (f.metadata or {}).get(b"comment", b"").decode(), nullable=True)
            for f in schema
        ]
        with self._lock:
            self._widen(self._tables[name], columns)

    def _read_late(self, data: bytes, unknown: codec.UnknownFingerprint) -> Reading:
        mark = unknown.fingerprint_hex
        if mark not in self._late:
            schema = self._explain(data)
            if schema is None:
                raise unknown
            self._learn(mark, schema)
        late, fields = self._late[mark]
        return Reading(late.decode(data), self._tables[self._of_kind[late.kind]], fields)

    def _learn(self, mark: str, schema: Explained) -> None:
        try:
            with self._lock:
                fields = record_fields(schema.document)
                name = self._of_kind.get(schema.kind)
                if name is None:
                    table = kind_table(schema.kind, schema.topic, schema.document)
                    self._tables = {**self._tables, table.name: table}
                    self._of_kind = {**self._of_kind, schema.kind: table.name}
                else:
                    self._require_all(BY_NAME.get(name, self._tables[name]), fields)
                    self._widen(self._tables[name], [field.column for field in fields])
                self._late = {**self._late, mark: (schema, fields)}
        except TypeError as error:
            raise codec.MalformedRecord(
                f"schema {mark} of {schema.kind} does not fit its table: {error}"
            ) from error

    def _require_all(self, table: TableSpec, fields: tuple[FieldColumn, ...]) -> None:
        given = {field.column.name for field in fields}
        lacking = [
            f.column.name
            for f in table.fields
            if not f.column.nullable and f.column.name not in given
        ]
        if lacking:
            raise TypeError(f"it has no {', '.join(lacking)}")

    def _widen(self, table: TableSpec, columns: list[Column]) -> None:
        more = {column.name: column for column in columns}
        try:
            kept = [
                replace(c, type=wider(c.type, more.pop(c.name).type)) if c.name in more else c
                for c in table.columns
            ]
        except TypeError as error:
            raise TypeError(f"table {table.name}: {error}") from error
        new = [replace(column, nullable=True) for column in more.values()]
        if new or kept != list(table.columns):
            self._tables = {**self._tables, table.name: replace(table, columns=(*kept, *new))}


RELEASED = Catalogue()
"""What this release knows by itself; nobody teaches it more."""
