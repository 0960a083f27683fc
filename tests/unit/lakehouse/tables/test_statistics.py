"""What Delta's log says of a file is false when a reader would pass rows over by it."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.tables.statistics import (
    FooterFacts,
    as_delta_says,
    contradictions,
    facts_of,
    said_in_log,
)

AT = dt.datetime(2026, 1, 1, 0, 0, 0, 149_651, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "offset": pa.array([3, 4, None, 9], pa.int64()),
        "name": ["broker-000", "broker-001", "z" * 200, "broker-002"],
        "at": pa.array([AT, AT, AT, AT], pa.timestamp("us", tz="UTC")),
        "share": [0.5, 1.0, 0.25, 0.5],
        "day": [dt.date(2026, 1, 1)] * 4,
        "value": [b"a", b"b", b"c", b"d"],
        "inner": [{"offset": 1}] * 4,
        "none": pa.nulls(4, pa.int64()),
    }
)


def footer(groups_of: int = 4, **how: Any) -> FooterFacts:
    written = io.BytesIO()
    pq.write_table(ROWS, written, row_group_size=groups_of, **how)
    return facts_of(pq.read_metadata(written))


TRUE: dict[str, Any] = {
    "num_records": 4,
    "null_count.offset": 1,
    "min.offset": 3,
    "max.offset": 9,
    "min.name": "broker-000",
    # Delta cuts a text at 32 letters and raises the last one.
    "max.name": "z" * 31 + "{",
    "min.at": AT.replace(microsecond=149_000),
    "max.at": AT.replace(microsecond=149_000),
    "max.share": 1.0,
    "max.day": dt.date(2026, 1, 1),
    "min.inner.offset": 7,
    "max.of_no_column": 7,
}


@pytest.mark.parametrize("groups_of", [1, 4])
def test_what_is_true_cut_or_wider_than_need_be_is_not_told(groups_of: int) -> None:
    assert list(contradictions(TRUE, footer(groups_of))) == []
    wider = {"min.offset": 0, "max.offset": 99, "min.name": "a", "max.at": AT + dt.timedelta(1)}
    assert list(contradictions(wider, footer(groups_of))) == []


@pytest.mark.parametrize("groups_of", [1, 4])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"num_records": 3}, "holds 4 rows, Delta's log says 3"),
        ({"null_count.offset": 4}, "holds 1 rows without offset, Delta's log says 4"),
        ({"min.offset": 4}, "begins with offset 3, Delta's log says 4"),
        ({"max.offset": 8}, "ends with offset 9, Delta's log says 8"),
        ({"min.name": "c"}, "begins with name 'broker-000', Delta's log says 'c'"),
        ({"max.name": "broker-002"}, "ends with name 'zzz"),
        ({"max.at": AT - dt.timedelta(milliseconds=2)}, "ends with at 2026-01-01 00:00:00.149"),
        ({"max.share": 0.75}, "ends with share 1.0, Delta's log says 0.75"),
        ({"min.day": dt.date(2026, 1, 2)}, "begins with day 2026-01-01"),
    ],
)
def test_a_bound_that_hides_rows_is_told(said: dict[str, Any], told: str, groups_of: int) -> None:
    [found] = contradictions(TRUE | said, footer(groups_of))
    assert told in found


def test_a_footer_that_says_nothing_contradicts_nothing_but_the_count() -> None:
    silent = footer(write_statistics=False)
    assert list(contradictions(TRUE | {"max.offset": 1}, silent)) == []
    assert list(contradictions({"num_records": 5}, silent))


@pytest.mark.parametrize("groups_of", [1, 3, 4])
def test_what_is_written_down_anew_contradicts_nothing(groups_of: int) -> None:
    there = footer(groups_of)
    stats = as_delta_says(there)
    assert stats["numRecords"] == 4 and stats["nullCount"]["offset"] == 1
    assert stats["minValues"]["offset"] == 3 and stats["maxValues"]["offset"] == 9
    assert stats["minValues"]["at"] == "2026-01-01T00:00:00.149Z"
    assert stats["maxValues"]["at"] == "2026-01-01T00:00:00.150Z"
    assert not {"value", "none", "inner"} & stats["minValues"].keys()


def test_of_an_add_action_only_what_is_known_of_rows_is_taken() -> None:
    row = {"path": "p", "size_bytes": 1, "num_records": 2, "min.a": None, "max.a": 0}
    assert said_in_log(row) == {"num_records": 2, "max.a": 0}
