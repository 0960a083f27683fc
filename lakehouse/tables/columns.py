"""Avro fields as table columns.

Responsible for the mapping of types, for flattening the part that all records of a topic share,
and for turning a field's value, or those of many records at once, into what its column holds. The
schema files are the only place where a field's type and meaning are written down: columns take both
from there.
Refuses to know which tables exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec import Struct

from lakehouse.tables import column_arrays

# Fields that hold what every record of a topic carries: their own fields become columns.
SHARED_PARTS = ("envelope", "header")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its Arrow type, what it means and whether it may be null."""

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False

    def field(self) -> pa.Field:
        """The Arrow field; the meaning travels in the table's own metadata as `comment`."""
        metadata = {"comment": self.meaning}
        return pa.field(self.name, self.type, nullable=self.nullable, metadata=metadata)


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A column that is filled from a record: where its value is, and how it is converted."""

    column: Column
    path: tuple[str, ...]
    convert: Callable[[Any], Any] | None
    array: Callable[[list[Any]], pa.Array]
    """Of the values of many records."""

    def array_of(self, records: Sequence[object]) -> pa.Array:
        """The column's values for `records`: what `value` gives for each, some eight times as
        fast.
        """
        return self.array(list(map(attrgetter(".".join(self.path)), records)))

    def value(self, record: object) -> Any:
        """The column's value for `record`."""
        value: Any = record
        for name in self.path:
            value = getattr(value, name)
        return value if self.convert is None or value is None else self.convert(value)


def field_columns(schema: Mapping[str, Any]) -> tuple[FieldColumn, ...]:
    """The columns of a record schema that is complete in itself, in the order of its fields."""
    named = _named_types(schema)
    columns: list[FieldColumn] = []
    for field in schema["fields"]:
        if field["name"] in SHARED_PARTS:
            part = _resolved(field["type"], named)
            columns += (_field_column(f, (field["name"], f["name"]), named) for f in part["fields"])
        else:
            columns.append(_field_column(field, (field["name"],), named))
    return tuple(columns)


def wider(ours: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type that holds values of both: `ours`, with the fields that only `other` has at the end
    of each struct.

    Raises `TypeError` when they differ in anything else.
    """
    if pa.types.is_struct(ours) and pa.types.is_struct(other):
        own = {field.name: field.type for field in ours}
        theirs = {field.name: field.type for field in other}
        merged = {name: wider(kind, theirs.get(name, kind)) for name, kind in own.items()}
        return pa.struct(
            [
                pa.field(name, kind)
                for name, kind in {
                    **merged,
                    **{n: theirs[n] for n in theirs if n not in own},
                }.items()
            ]
        )
    if pa.types.is_list(ours) and pa.types.is_list(other):
        return pa.list_(wider(ours.value_type, other.value_type))
    if pa.types.is_map(ours) and pa.types.is_map(other):
        return pa.map_(wider(ours.key_type, other.key_type), wider(ours.item_type, other.item_type))
    if ours != other:
        raise TypeError(f"{other} is not {ours}")
    return ours


def record_json(record: object) -> str:
    """A record, or a sequence of records, as compact JSON; each record names its kind."""
    return _JSON.encode(_plain(record))


class _Held(NamedTuple):
    """How values of an Avro type are held: in which Arrow type, how one of them is converted (None:
    as it is), and how an array of many is made.
    """

    type: pa.DataType
    convert: Callable[[Any], Any] | None
    array: Callable[[list[Any]], pa.Array]


_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _field_column(
    field: Mapping[str, Any], path: tuple[str, ...], named: Mapping[str, Any]
) -> FieldColumn:
    kind, nullable = _without_null(field["type"])
    held = _mapping(kind, named)
    column = Column(field["name"], held.type, field.get("doc", ""), nullable)
    return FieldColumn(column, path, held.convert, held.array)


def _mapping(kind: Any, named: Mapping[str, Any]) -> _Held:
    kind = _resolved(kind, named)
    simple = {
        "string": pa.string(),
        "long": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "double": pa.float64(),
        "float": pa.float32(),
    }
    if isinstance(kind, str) and kind in simple:
        return _Held(simple[kind], None, partial(pa.array, type=simple[kind]))
    shape = kind if isinstance(kind, str) else kind["type"]
    match shape:
        case "bytes" | "fixed":
            # Ids and digests are compared and read by people, so they are hex text.
            return _Held(pa.string(), bytes.hex, column_arrays.of_hex)
        case "map":
            return _map_mapping(_mapping(kind["values"], named))
        case "array" if _is_union(kind["items"]):
            # Records of several kinds have no common columns.
            each = partial(column_arrays.of_each, record_json, pa.string())
            return _Held(pa.string(), record_json, each)
        case "array":
            return _list_mapping(_mapping(kind["items"], named))
        case "record":
            return _struct_mapping(kind, named)
    raise TypeError(f"no column type for {kind!r}")


def _map_mapping(values: _Held) -> _Held:
    arrow, convert_value = pa.map_(pa.string(), values.type), values.convert

    def convert(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
        pairs = sorted(value.items())
        return pairs if convert_value is None else [(k, convert_value(v)) for k, v in pairs]

    return _Held(arrow, convert, partial(column_arrays.of_maps, arrow, values.array))


def _list_mapping(item: _Held) -> _Held:
    arrow, convert_item = pa.list_(item.type), item.convert

    def convert(values: Sequence[Any]) -> list[Any]:
        return list(values) if convert_item is None else [convert_item(one) for one in values]

    return _Held(arrow, convert, partial(column_arrays.of_lists, arrow, item.array))


def _struct_mapping(schema: Mapping[str, Any], named: Mapping[str, Any]) -> _Held:
    columns = [_field_column(f, (f["name"],), named) for f in schema["fields"]]
    arrow = pa.struct([pa.field(c.column.name, c.column.type) for c in columns])

    def convert(record: object) -> dict[str, Any]:
        return {c.column.name: c.value(record) for c in columns}

    def array(records: list[Any]) -> pa.Array:
        if not records or None in records:
            return column_arrays.of_each(convert, arrow, records)
        return pa.StructArray.from_arrays(
            [c.array_of(records) for c in columns], fields=list(arrow)
        )

    return _Held(arrow, convert, array)


def _without_null(kind: Any) -> tuple[Any, bool]:
    if not isinstance(kind, list):
        return kind, False
    rest = [branch for branch in kind if branch != "null"]
    return (rest[0] if len(rest) == 1 else rest), len(rest) < len(kind)


def _is_union(kind: Any) -> bool:
    return isinstance(kind, list) and len(kind) > 1


def _named_types(schema: Any) -> dict[str, Any]:
    """Every record and fixed type that stands in `schema`, by its name with namespace."""
    found: dict[str, Any] = {}
    if isinstance(schema, list):
        for branch in schema:
            found.update(_named_types(branch))
    elif isinstance(schema, Mapping):
        if schema.get("type") in ("record", "fixed"):
            found[f"{schema.get('namespace', 'regent')}.{schema['name']}"] = schema
        for part in ("type", "items", "values"):
            found.update(_named_types(schema.get(part)))
        for field in schema.get("fields", ()):
            found.update(_named_types(field["type"]))
    return found


def _resolved(kind: Any, named: Mapping[str, Any]) -> Any:
    return named.get(kind, kind) if isinstance(kind, str) else kind


_AS_IN_JSON = frozenset({str, int, bool, type(None)})


def _plain(value: Any) -> Any:
    # Asked for every field of every change: the usual kinds first.
    if type(value) in _AS_IN_JSON:
        return value
    if isinstance(value, Struct):
        found = {"kind": type(value).__name__}
        for name in value.__struct_fields__:
            found[name] = _plain(getattr(value, name))
        return found
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
