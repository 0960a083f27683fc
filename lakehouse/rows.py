"""
From one record of the log to its rows in the silver tables (P).

Responsible for reading bytes, choosing tables and filling columns; every record ends in at least
one row, unreadable ones in `silver/unreadable`.
Refuses to know Spark, Delta and which rows have landed already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events import codec
from events.changes import MasterElected
from events.commands import ElectMaster
from events.outcomes import Outcome
from lakehouse.checks import first_broken
from lakehouse.tables import (
    BY_NAME,
    CLUSTER_ID,
    COMMAND_TABLES,
    DECISIONS,
    ELECTIONS,
    EVENT_TABLES,
    UNREADABLE,
    TableSpec,
)

REASON_CHARS_MAX = 500

_KIND_TABLES: Mapping[str, TableSpec] = {
    str(table.kind): table for table in (*COMMAND_TABLES, *EVENT_TABLES, DECISIONS)
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record as the log of a cluster gave it."""

    cluster_id: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    value: bytes | None


def silver_rows(record: LogRecord) -> list[tuple[str, Row]]:
    """The rows that `record` becomes, each with the name of its table."""
    try:
        decoded = codec.decode(record.value or b"")
    except codec.CodecError as error:
        return [_unreadable(record, f"{type(error).__name__}: {error}")]
    table = _KIND_TABLES[type(decoded).__name__]
    if table.topic != record.topic:
        return [_unreadable(record, f"a {table.kind} does not belong in this topic")]
    rows = [(table.name, _filled(record, table, decoded))]
    if isinstance(decoded, Outcome) and decoded.kind == ElectMaster.__name__:
        rows.append((ELECTIONS.name, _election(record, decoded)))
    for name, row in rows:
        broken = first_broken(row, BY_NAME[name].checks)
        if broken is not None:
            return [_unreadable(record, f"{name}: {broken}")]
    return rows


def _position(record: LogRecord) -> Row:
    return {
        CLUSTER_ID: record.cluster_id,
        "log_partition": record.partition,
        "log_offset": record.offset,
        "log_timestamp": record.timestamp,
    }


def _filled(record: LogRecord, table: TableSpec, decoded: object) -> Row:
    row = _position(record)
    for field in table.fields:
        row[field.column.name] = field.value(decoded)
    return row


def _election(record: LogRecord, outcome: Outcome) -> Row:
    row = _filled(record, ELECTIONS, outcome)
    elected = next((c for c in outcome.changes if isinstance(c, MasterElected)), None)
    row["master_broker_id"] = elected and elected.master_broker_id
    row["master_address"] = elected and elected.master_address
    row["master_epoch"] = elected and elected.master_epoch
    row["sync_state_set"] = elected and list(elected.sync_state_set)
    row["sync_state_set_epoch"] = elected and elected.sync_state_set_epoch
    return row


def _unreadable(record: LogRecord, reason: str) -> tuple[str, Row]:
    row = {"topic": record.topic, **_position(record)}
    return UNREADABLE.name, {**row, "reason": reason[:REASON_CHARS_MAX], "value": record.value}
