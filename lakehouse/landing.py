"""
From a batch of the log to what each table appends (P).

Responsible for the order of rows, for leaving out what a table has already, and for refusing a
batch with a hole. Takes and gives Arrow tables; refuses to know Spark and Delta.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from events.topics import TOPICS
from lakehouse.high_water import HighWater, Partition, check_no_hole
from lakehouse.rows import LogRecord, Row, silver_rows
from lakehouse.tables import BRONZE, BY_NAME, CLUSTER_ID, TIMESTAMP, TableSpec

# What a batch holds, as Spark's Kafka source names it.
BATCH_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value")
KEPT_FOR_EVER = frozenset(
    spec.name for spec in TOPICS if spec.created.get("retention.ms") == "-1"
)


def in_log_order(batch: pa.Table) -> pa.Table:
    """The batch by topic, partition and offset."""
    order = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    return batch.sort_by(order)


def positions(batch: pa.Table) -> dict[Partition, list[int]]:
    """The offsets per partition, in the order of the batch."""
    found: dict[Partition, list[int]] = {}
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    for topic, partition, offset in zip(*columns, strict=True):
        found.setdefault((topic, partition), []).append(offset)
    return found


def last_positions(batch: pa.Table) -> dict[Partition, int]:
    """The last offset per partition."""
    return {partition: max(offsets) for partition, offsets in positions(batch).items()}


def bronze_rows(
    cluster_id: str, batch: pa.Table, mark: HighWater, batch_id: int, landed_at: datetime
) -> pa.Table:
    """
    The rows of the batch that bronze does not have yet of this cluster.

    `batch` is in log order. Raises `LandingGap` when a record is missing before one of them.
    """
    for partition, offsets in positions(batch).items():
        from_zero = partition[0] in KEPT_FOR_EVER
        check_no_hole(mark.of(partition), partition, offsets, from_zero=from_zero)
    new = batch.filter(_new_to(mark, batch))
    count = new.num_rows
    columns = {
        CLUSTER_ID: pa.array([cluster_id] * count, pa.string()),
        "topic": new["topic"],
        "partition": new["partition"],
        "offset": new["offset"],
        "timestamp": new["timestamp"],
        "timestamp_type": new["timestampType"],
        "key": new["key"],
        "value": new["value"],
        "landed_at": pa.array([landed_at] * count, TIMESTAMP),
        "batch": pa.array([batch_id] * count, pa.int64()),
    }
    return pa.table({name: columns[name] for name in BRONZE.schema.names}).cast(BRONZE.schema)


def silver_tables(
    cluster_id: str, batch: pa.Table, tables: Sequence[TableSpec], marks: Mapping[str, HighWater]
) -> dict[str, pa.Table]:
    """
    The rows that `tables` do not have yet, by table name; tables without any are left out.

    Only topics that one of the tables takes are read. `batch` is in log order.
    """
    names = {table.name for table in tables}
    topics = {table.topic for table in tables}
    found: dict[str, list[Row]] = {}
    for record in _records(cluster_id, batch, None if None in topics else topics):
        for name, row in silver_rows(record):
            if name in names and marks[name].is_new(
                (record.topic, record.partition), record.offset
            ):
                found.setdefault(name, []).append(row)
    return {
        name: pa.Table.from_pylist(rows, schema=BY_NAME[name].schema)
        for name, rows in found.items()
    }


def _records(
    cluster_id: str, batch: pa.Table, topics: Collection[str | None] | None
) -> Iterator[LogRecord]:
    names = ("topic", "partition", "offset", "timestamp", "value")
    for values in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
        if topics is None or values[0] in topics:
            yield LogRecord(cluster_id, *values)


def _new_to(mark: HighWater, batch: pa.Table) -> pa.Array | pa.ChunkedArray:
    """A mask of the rows above the marks."""
    seen = pa.array([False] * batch.num_rows, pa.bool_())
    for (topic, partition), last in mark.marks.items():
        here = pc.and_(pc.equal(batch["topic"], topic), pc.equal(batch["partition"], partition))
        seen = pc.or_(seen, pc.and_(here, pc.less_equal(batch["offset"], last)))
    return pc.invert(seen)
