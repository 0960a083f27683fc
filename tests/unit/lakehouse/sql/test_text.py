import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from lakehouse.sql.text import CELL_CHARS_MAX, csv_text, json_rows, table_text, unique

ROWS = pa.table(
    {
        "n": pa.array([1, None], pa.int64()),
        "text": ['a,"b"\nc', "x" * 200],
        "at": pa.array(
            [datetime(2026, 1, 1, 12, 0, 0, 5000, UTC), None], pa.timestamp("us", tz="UTC")
        ),
        "day": pa.array([date(2026, 1, 2), None], pa.date32()),
        "phases": pa.array([[("applied", 5)], []], pa.map_(pa.string(), pa.int64())),
        "who": pa.array(
            [[{"id": 1, "ok": True}], []],
            pa.list_(pa.struct([("id", pa.int64()), ("ok", pa.bool_())])),
        ),
        "value": pa.array([b"\x00\xff", None], pa.binary()),
        "share": pa.array([float("nan"), 0.5]),
        "sum": pa.array([Decimal("12"), Decimal("1.5")], pa.decimal128(38, 1)),
    }
)


def test_json_knows_every_kind_of_value() -> None:
    first, second = json.loads(json.dumps(json_rows(ROWS), allow_nan=False))
    assert first == {
        "n": 1,
        "text": 'a,"b"\nc',
        "at": ("2026-01-01T12:00:00.005Z"),
        "day": "2026-01-02",
        "phases": {"applied": 5},
        "who": [{"id": 1, "ok": True}],
        "value": "00ff",
        "share": "nan",
        "sum": 12,
    }
    assert (second["n"], second["at"], second["phases"], second["sum"]) == (None, None, {}, 1.5)


def test_csv_can_be_read_again() -> None:
    head, first, second = csv.reader(io.StringIO(csv_text(ROWS)))
    assert head == ROWS.column_names
    assert first[1] == 'a,"b"\nc'
    assert json.loads(first[4]) == {"applied": 5}
    assert second[0] == ""


def test_a_table_has_one_line_for_each_row_and_cuts_what_is_long() -> None:
    lines = table_text(ROWS).splitlines()
    assert len(lines) == 3
    assert "NULL" in lines[2]
    assert "x" * (CELL_CHARS_MAX - 1) + "…" in lines[2]
    assert table_text(ROWS.slice(0, 0)).split() == ROWS.column_names


def test_columns_of_the_same_name_are_kept_apart() -> None:
    assert unique(["a", "a", "a_2", "a"]) == ["a", "a_2", "a_2_2", "a_3"]
    rows = pa.table([[1], [2]], names=["a", "a"])
    assert json_rows(rows) == [{"a": 1, "a_2": 2}]
