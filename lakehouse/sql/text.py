"""The answer of a query as text: a table for people, CSV and JSON for programs.

Responsible for how each kind of value is written. Refuses to know the query.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakehouse import wording

CELL_CHARS_MAX = 80


def table_text(rows: pa.Table) -> str:
    """Columns of even width; a long value is cut, the end of a cut one is an ellipsis."""
    cells = [[_cell(value) for value in row] for row in _values(rows)]
    return wording.text_table(rows.column_names, cells)


def csv_text(rows: pa.Table) -> str:
    """A line of names and one for each row; NULL is empty, what holds several values is JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    for row in _values(rows):
        writer.writerow("" if value is None else _scalar(value) for value in row)
    return out.getvalue().removesuffix("\n")


def json_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """One object for each row; of columns with the same name the second is called name_2, and so
    on.
    """
    names = unique(rows.column_names)
    return [dict(zip(names, row, strict=True)) for row in _values(rows)]


def unique(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that came before."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in found:
            candidate, number = f"{name}_{number}", number + 1
        found.append(candidate)
    return found


def _values(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        [_plain(value, column.type) for value in column.to_pylist()] for column in rows.columns
    ]
    return list(zip(*columns, strict=True)) if columns else []


def _plain(value: Any, kind: pa.DataType) -> Any:
    """The value as JSON has it: a map is an object, bytes are hex, times are ISO in UTC."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {
            str(_plain(key, kind.key_type)): _plain(item, kind.item_type) for key, item in value
        }
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return (
        value
        if isinstance(value, (str, int, float, bool))
        else value.isoformat()
        if isinstance(value, date)
        else str(value)
    )


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(
            timespec="milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
        )
    return f"{_moment(value.astimezone(UTC).replace(tzinfo=None))}Z"


def _scalar(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _cell(value: Any) -> str:
    text = "NULL" if value is None else " ".join(_scalar(value).split("\n"))
    return text if len(text) <= CELL_CHARS_MAX else f"{text[: CELL_CHARS_MAX - 1]}…"
