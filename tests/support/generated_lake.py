"""A generated history as Delta tables, without Kafka and Spark.

Responsible for batches in log order, as the landing job would have taken them; the rows are what
the landing's pure part makes of them. Refuses to know tables and columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import deltalake
import pyarrow as pa

from lakehouse.landing import batches as landing
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.lake import Lake, lake_at
from lakehouse.tables.specs import BRONZE, BY_NAME, TABLES, TIMESTAMP
from tests.support.generated_history import GeneratedHistory, TimedRecord
from tests.support.landed_log import empty_tables

RECORDS_AT_ONCE = 50_000


def land_generated(
    root: str | Path, history: GeneratedHistory, records_at_once: int = RECORDS_AT_ONCE
) -> Lake:
    """All of it in the lake at `root`, which must have nothing of this cluster yet.

    A batch is `records_at_once` records of the topics in turn; smaller ones make more files.
    """
    lake = lake_at(root, history.cluster_id)
    empty_tables(lake)
    for number, rows in enumerate(batches(history, records_at_once)):
        land_batch(lake, rows, number)
    return lake


def batches(history: GeneratedHistory, records_at_once: int) -> Iterator[pa.Table]:
    """The records as Spark's Kafka source gives them, topic by topic."""
    records = history.records()
    while chunk := list(islice(records, records_at_once)):
        yield batch_of(chunk)


def batch_of(records: Sequence[TimedRecord]) -> pa.Table:
    """Records with their own timestamps in a batch."""
    topics, partitions, offsets, times, values = zip(*records, strict=True)
    count = len(records)
    return pa.table(
        {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array(times, pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP),
            "timestampType": pa.array([1] * count, pa.int32()),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def land_batch(lake: Lake, batch: pa.Table, number: int) -> None:
    """Append what the batch, which follows what is there, becomes in every table."""
    assert lake.cluster_id is not None
    mark, landed_at = HighWater(_before(batch)), datetime.now(UTC)
    new = landing.silver_tables(
        lake.cluster_id, batch, landing.EVERYTHING, {table.name: mark for table in TABLES}
    )
    new[BRONZE.name] = landing.bronze_rows(lake.cluster_id, batch, mark, number, landed_at)
    for name, rows in new.items():
        deltalake.write_deltalake(lake.uri(BY_NAME[name]), rows, mode="append")


def _before(batch: pa.Table) -> dict[tuple[str, int], int]:
    """The high water at which the batch goes on."""
    return {partition: offsets[0] - 1 for partition, offsets in landing.positions(batch).items()}
