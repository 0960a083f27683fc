"""From many records of the log to the columns of the silver tables, table by table.

What `silver_rows` makes of one record after the other, made for all records of a kind at once: a
quarter of the time. Only what is as this release writes it comes this way; a record that nothing
explains, that stands in the wrong topic or that breaks a check of its table is left to
`silver_rows`, so that there is one place that says what becomes of it.
Responsible for reading bytes and for filling the columns that a record's own fields fill.
Refuses to know where a record stands, wider tables of the lake and which rows have landed already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from events import codec
from events.changes import MasterElected
from events.commands import ElectMaster
from events.outcomes import Outcome
from lakehouse.tables.row_checks import Check, broken_rows
from lakehouse.tables.specs import (
    COMMAND_TABLES,
    DECISIONS,
    ELECTIONS,
    EVENT_TABLES,
    TABLES,
    TableSpec,
)

AT = "at"
"""Column of each table that is made here: the place of the row's record among those given."""

_TABLE_OF_KIND = {str(table.kind): table for table in (*COMMAND_TABLES, *EVENT_TABLES, DECISIONS)}
ALL = frozenset(table.name for table in TABLES)


class Typed(NamedTuple):
    """Columns by table name, and the places of the records that became none, ascending."""

    tables: dict[str, pa.Table]
    left: list[int]


class _Kind:
    """The records of one kind, and where they stand among those given."""

    __slots__ = ("places", "records", "table")

    def __init__(self, table: TableSpec) -> None:
        self.table = table
        self.records: list[Any] = []
        self.places: list[int] = []

    def without(self, places: Collection[int]) -> None:
        kept = [i for i, place in enumerate(self.places) if place not in places]
        self.keep(kept)

    def keep(self, kept: Sequence[int]) -> None:
        self.records = [self.records[i] for i in kept]
        self.places = [self.places[i] for i in kept]


def typed_batch(batch: pa.Table, wanted: Collection[str] = ALL) -> Typed:
    """The columns of a batch's records (columns `topic` and `value`) in the tables that are
    `wanted`, in the order of the records.
    """
    kinds, left = _by_kind(batch["topic"].to_pylist(), batch["value"].to_pylist())
    tables: dict[str, pa.Table] = {}
    for kind in kinds.values():
        if kind.table is DECISIONS:
            left += _outcomes(kind, wanted, tables)
        elif kind.table.name in wanted:
            left += _records(kind, tables)
    return Typed(tables, sorted(left))


def _by_kind(
    topics: Sequence[str], values: Sequence[bytes | None]
) -> tuple[dict[tuple[type, str], _Kind], list[int]]:
    """The records by class and topic, and the places of those that do not belong there."""
    decode, unknown = codec.decode, codec.CodecError
    kinds: dict[tuple[type, str], _Kind | None] = {}
    left: list[int] = []
    for place, (topic, value) in enumerate(zip(topics, values, strict=True)):
        try:
            record = decode(value or b"")
        except unknown:
            left.append(place)
            continue
        key = (type(record), topic)
        if key not in kinds:
            table = _TABLE_OF_KIND[type(record).__name__]
            kinds[key] = _Kind(table) if table.topic == topic else None
        kind = kinds[key]
        if kind is None:
            left.append(place)
        else:
            kind.records.append(record)
            kind.places.append(place)
    return {key: kind for key, kind in kinds.items() if kind is not None}, left


def _records(kind: _Kind, tables: dict[str, pa.Table]) -> list[int]:
    """Fill the table of a kind that has one; the places of those that break a check."""
    columns = _columns(kind, kind.table)
    broken = _broken(kind, kind.table.checks, columns)
    if broken:
        kind.without(broken)
        columns = _columns(kind, kind.table)
    _put(kind, kind.table, columns, tables)
    return sorted(broken)


def _outcomes(kind: _Kind, wanted: Collection[str], tables: dict[str, pa.Table]) -> list[int]:
    """Decisions and elections. What breaks a check of one of the two is a row of neither."""
    if DECISIONS.name not in wanted:
        kind.keep([i for i, one in enumerate(kind.records) if one.kind == ElectMaster.__name__])
    checks = tuple(dict.fromkeys((*DECISIONS.checks, *ELECTIONS.checks)))
    by_name = {one.column.name: one for one in DECISIONS.fields}
    judged = {
        name: by_name[name].array_of(kind.records)
        for name in dict.fromkeys(check.column for check in checks)
    }
    broken = _broken(kind, checks, judged)
    if broken:
        kind.without(broken)
    if DECISIONS.name in wanted:
        known = {} if broken else judged
        _put(kind, DECISIONS, _columns(kind, DECISIONS, known), tables)
    if ELECTIONS.name in wanted:
        kind.keep([i for i, one in enumerate(kind.records) if one.kind == ElectMaster.__name__])
        columns = {**_columns(kind, ELECTIONS), **_elected(kind.records)}
        _put(kind, ELECTIONS, columns, tables)
    return sorted(broken)


def _columns(
    kind: _Kind, table: TableSpec, known: dict[str, pa.Array] | None = None
) -> dict[str, pa.Array]:
    """A table's columns for the records; those `known` are not made again."""
    there = known or {}
    return {
        name: there[name] if name in there else field.array_of(kind.records)
        for field in table.fields
        for name in (field.column.name,)
    }


def _elected(outcomes: Sequence[Outcome]) -> dict[str, pa.Array]:
    """The columns of elections that come from what the election changed."""
    elected = [
        next((one for one in outcome.changes if type(one) is MasterElected), None)
        for outcome in outcomes
    ]
    return {
        name: pa.array(
            [None if one is None else getattr(one, name) for one in elected],
            ELECTIONS.schema.field(name).type,
        )
        for name in (
            "master_broker_id",
            "master_address",
            "master_epoch",
            "sync_state_set",
            "sync_state_set_epoch",
        )
    }


def _broken(kind: _Kind, checks: Sequence[Check], columns: dict[str, pa.Array]) -> set[int]:
    return {
        kind.places[row] for check in checks for row in broken_rows(check, columns[check.column])
    }


def _put(
    kind: _Kind, table: TableSpec, columns: dict[str, pa.Array], tables: dict[str, pa.Table]
) -> None:
    if kind.places:
        tables[table.name] = pa.table({AT: pa.array(kind.places, pa.int32()), **columns})
