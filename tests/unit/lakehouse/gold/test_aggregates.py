"""The counts, over tables; over streams they are the same plans (`test_aggregates_job`)."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.gold.aggregates import AGGREGATES, CAUGHT_UP, FELL_BEHIND
from lakehouse.tables.row_checks import first_broken
from lakehouse.tables.specs import ELECTIONS, TableSpec

pytestmark = pytest.mark.spark
RATES, LAG = AGGREGATES
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
BASE: dict[str, Any] = {
    "cluster_id": "c",
    "broker_name": "broker-a",
    "accepted": True,
    "labels": [],
    "master_broker_id": 2,
    "phases": [],
    "published_at_ms": 0,
    "refusal": None,
}


def frame(spark: Any, source: TableSpec, rows: list[dict[str, Any]]) -> Any:
    """Rows of a table, of which only the named columns matter."""
    names = (
        [name for name in source.schema.names if any(name in row for row in rows)]
        if rows
        else source.schema.names
    )
    columns = [pa.field(name, source.schema.field(name).type) for name in names]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=pa.schema(columns)))


def counted(spark: Any, aggregate: Any, *sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    frames = {
        source.name: frame(spark, source, rows)
        for source, rows in zip(aggregate.sources, sources, strict=True)
    }
    found = aggregate.counts_of(aggregate.rows_of(frames)).toArrow()
    assert found.schema.names == aggregate.table.schema.names
    rows: list[dict[str, Any]] = found.cast(
        pa.schema([pa.field(f.name, f.type) for f in aggregate.table.schema])
    ).to_pylist()
    assert not [row for row in rows if first_broken(row, aggregate.table.checks)]
    return sorted(rows, key=lambda row: [str(row[name]).zfill(16) for name in aggregate.table.key])


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def election(offset: int, at_ms: int, **other: Any) -> dict[str, Any]:
    return {**BASE, "command_offset": offset, "log_timestamp": at(at_ms), **other}


def test_elections_are_counted_once_each_by_the_hour(spark: Any) -> None:
    rows = counted(
        spark,
        RATES,
        [
            election(1, 10, phases=[("asked", 100), ("applied", 130)]),
            election(1, 20, phases=[("asked", 100), ("applied", 130)]),
            election(2, HOUR_MS - 1, accepted=False, master_broker_id=None, refusal="NO"),
            election(3, HOUR_MS - 1, labels=["UNCLEAN"], phases=[("asked", 5), ("applied", 105)]),
            election(4, HOUR_MS - 1, labels=["REPEAT"], master_broker_id=None),
            election(5, HOUR_MS),
            election(6, HOUR_MS, broker_name="broker-b"),
        ],
    )
    assert [(row["broker_name"], row["window_start_ms"], row["elections"]) for row in rows] == [
        ("broker-a", 0, 3),
        ("broker-a", HOUR_MS, 1),
        ("broker-b", HOUR_MS, 1),
    ]
    assert rows[0] | {} == {
        "cluster_id": "c",
        "broker_name": "broker-a",
        "window_start_ms": 0,
        "window_end_ms": HOUR_MS,
        "elections": 3,
        "won": 2,
        "refused": 1,
        "at_risk": 1,
        "took_ms_max": 100,
        "rows": 5,
    }
    assert rows[1]["took_ms_max"] is None


def report(number: int, at_ms: int, landed_ms: int | None = None, **other: Any) -> dict[str, Any]:
    head = {
        "cluster_id": "c",
        "broker_name": "broker-a",
        "slave_broker_id": 2,
        "event_id": f"{number:032x}",
    }
    return {
        **head,
        "at_ms": at_ms,
        "log_timestamp": None if landed_ms is None else at(landed_ms),
        **other,
    }


def test_falling_behind_and_catching_up_are_counted_for_each_slave(spark: Any) -> None:
    five = 5 * MINUTE_MS
    fell = [
        report(1, 10, 20, lag_bytes=7),
        report(1, 10, 30, lag_bytes=7),
        report(2, five - 1, five, lag_bytes=900),
        report(3, five, None, lag_bytes=1),
        report(4, 10, 20, lag_bytes=5, slave_broker_id=3),
    ]
    rows = counted(spark, LAG, fell, [report(5, 20, 30), report(6, 2 * five, 2 * five)])
    told = [
        (
            row["slave_broker_id"],
            row["window_start_ms"],
            row["fell_behind"],
            row["caught_up"],
            row["lag_bytes_max"],
            row["rows"],
        )
        for row in rows
    ]
    assert told == [
        (2, 0, 2, 1, 900, 4),
        (2, five, 1, 0, 1, 1),
        (2, 2 * five, 0, 1, None, 1),
        (3, 0, 1, 0, 5, 1),
    ]


def test_times_that_no_clock_has_are_not_counted_and_end_nothing(spark: Any) -> None:
    """Rows of a release that let them in."""
    far = [report(n, at_ms, 20, lag_bytes=7) for n, at_ms in ((1, 2**63 - 1), (2, -(2**63)))]
    rows = counted(spark, LAG, [*far, report(3, 20, 30, lag_bytes=1)], [])
    assert [(row["window_start_ms"], row["rows"]) for row in rows] == [(0, 1)]
    mad = [("detected", -(2**63)), ("asked", 100), ("applied", 130), ("notified", 2**63 - 1)]
    [row] = counted(spark, RATES, [election(1, 10, phases=mad, published_at_ms=2**63 - 1)])
    assert (row["elections"], row["took_ms_max"]) == (1, 30)


def test_a_clock_ahead_of_the_log_counts_as_the_log(spark: Any) -> None:
    rows = counted(spark, LAG, [report(1, 10**14, 20, lag_bytes=7)], [report(5, 20, 10 * HOUR_MS)])
    assert [(row["window_start_ms"], row["rows"]) for row in rows] == [(0, 2)]
    assert (FELL_BEHIND.kind, CAUGHT_UP.kind, ELECTIONS.kind) == (
        "SlaveFellBehind",
        "SlaveCaughtUp",
        "Outcome",
    )
