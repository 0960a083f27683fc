"""Columns that are shown beside those of the tables."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

from lakehouse.sql import readable
from lakehouse.sql.named_tables import KNOWN
from lakehouse.sql.readable import MOMENTS, RESERVED, shown, shown_beside, sources_of

FAILOVERS = KNOWN["gold.failovers"]


def test_every_moment_of_every_table_is_one() -> None:
    """A column that says when, and not how long, says so in its meaning or its name."""
    for name, spec in KNOWN.items():
        for column in spec.columns:
            if column.name.endswith("_ms") and "since 1970" in column.meaning:
                assert column.name in MOMENTS, f"{name}.{column.name}"


def test_no_column_of_a_table_has_a_reserved_name_alone() -> None:
    words = {
        word
        for word, kind in duckdb.sql(
            "SELECT keyword_name, keyword_category FROM duckdb_keywords()"
        ).fetchall()
        if kind == "reserved"
    }
    for spec in KNOWN.values():
        found = {column.name for column in spec.columns if column.name in words}
        assert found <= set(RESERVED[spec.layer]), spec.name
        assert found <= {one.source for one in shown_beside(spec)}, spec.name


@pytest.mark.parametrize(
    ("at_ms", "wanted"),
    [
        (1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)),
        (0, None),
        (-1, None),
        (readable.MS_MAX, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        (readable.MS_MAX + 1, None),
        (2**63 - 1, None),
        (None, None),
    ],
)
def test_a_moment_is_the_same_in_arrow_and_in_sql(
    at_ms: int | None, wanted: datetime | None
) -> None:
    rows = pa.table({"at_ms": pa.array([at_ms], pa.int64())})
    (made,) = shown(rows, FAILOVERS, ["at_time"])["at_time"].to_pylist()
    assert made == wanted
    (text,) = [one for one in readable.in_duckdb(FAILOVERS) if "at_time" in one]
    with duckdb.connect(":memory:") as database:
        database.execute("SET TimeZone='UTC'")
        database.register("given", rows)
        assert database.sql(f"SELECT {text} FROM given").to_arrow_table()[
            "at_time"
        ].to_pylist() == [wanted]


def test_only_what_a_column_is_made_of_is_read() -> None:
    assert sources_of(FAILOVERS, ["command_offset", "at_time", "at_ms", "broker_name"]) == [
        "offset",
        "at_ms",
        "broker_name",
    ]
