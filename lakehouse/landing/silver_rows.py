"""From one record of the log to its rows in the silver tables.

Responsible for reading bytes, choosing tables and filling columns; every record ends in at least
one row, unreadable ones in `silver/unreadable`.
Refuses to know Spark, Delta and which rows have landed already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events import codec
from events.changes import MasterElected
from events.commands import ElectMaster
from events.outcomes import Outcome
from lakehouse.landing.kinds import RELEASED, Catalogue
from lakehouse.tables.columns import FieldColumn
from lakehouse.tables.row_checks import first_broken
from lakehouse.tables.specs import CLUSTER_ID, ELECTIONS, UNREADABLE

REASON_CHARS_MAX = 500

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


def silver_rows(record: LogRecord, catalogue: Catalogue = RELEASED) -> list[tuple[str, Row]]:
    """The rows that `record` becomes, each with the name of its table."""
    rows = typed_rows(record, catalogue)
    for name, row in rows:
        broken = first_broken(row, catalogue.tables[name].checks)
        if broken is not None:
            return [_unreadable(record, f"{name}: {broken}")]
    return rows


def typed_rows(record: LogRecord, catalogue: Catalogue = RELEASED) -> list[tuple[str, Row]]:
    """The same, whatever the checks of their tables say."""
    try:
        reading = catalogue.read(record.value or b"")
    except codec.CodecError as error:
        return [_unreadable(record, f"{type(error).__name__}: {error}")]
    table, decoded = reading.table, reading.record
    if table.topic != record.topic:
        return [_unreadable(record, f"a {table.kind} does not belong in this topic")]
    rows = [(table.name, _filled(record, reading.fields, decoded))]
    if table.kind == Outcome.__name__ and decoded.kind == ElectMaster.__name__:
        rows.append((ELECTIONS.name, _election(record, decoded)))
    return rows


def _position(record: LogRecord) -> Row:
    return {
        CLUSTER_ID: record.cluster_id,
        "log_partition": record.partition,
        "log_offset": record.offset,
        "log_timestamp": record.timestamp,
    }


def _filled(record: LogRecord, fields: Sequence[FieldColumn], decoded: object) -> Row:
    row = _position(record)
    for field in fields:
        row[field.column.name] = field.value(decoded)
    return row


def _election(record: LogRecord, outcome: Any) -> Row:
    row = _filled(record, ELECTIONS.fields, outcome)
    elected = next((c for c in outcome.changes if type(c).__name__ == MasterElected.__name__), None)
    row["master_broker_id"] = elected and elected.master_broker_id
    row["master_address"] = elected and elected.master_address
    row["master_epoch"] = elected and elected.master_epoch
    row["sync_state_set"] = elected and list(elected.sync_state_set)
    row["sync_state_set_epoch"] = elected and elected.sync_state_set_epoch
    return row


def _unreadable(record: LogRecord, reason: str) -> tuple[str, Row]:
    row = {"topic": record.topic, **_position(record)}
    return UNREADABLE.name, {**row, "reason": reason[:REASON_CHARS_MAX], "value": record.value}
