"""From a batch of the log to what each table appends.

Responsible for the order of rows, for leaving out what a table has already, and for refusing a
batch with a hole. Takes and gives Arrow tables; refuses to know Spark and Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from events.topics import KEPT_FOR_EVER, OUTCOMES_TOPIC
from lakehouse.landing.kinds import RELEASED, Catalogue
from lakehouse.landing.silver_rows import LogRecord, Row, silver_rows
from lakehouse.tables.high_water import HighWater, Partition, check_no_hole
from lakehouse.tables.specs import BRONZE, CLUSTER_ID, DECISIONS, TIMESTAMP, UNREADABLE

# What a batch holds, as Spark's Kafka source names it.
BATCH_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value")


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
    """The rows of the batch that bronze does not have yet of this cluster.

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


@dataclass(frozen=True, slots=True)
class Share:
    """What one query takes of the silver tables.

    The query that takes a topic's records into their first table also quarantines unreadable ones:
    were that another query's business, a schema that becomes known between the two would lose a
    record to both.
    """

    takes: Callable[[str, str], bool]
    """By topic of the record and name of the table."""
    topics: Collection[str] | None = None
    """The only topics that need to be read; None: all."""


EVERYTHING = Share(lambda topic, table: True)
DECIDED = Share(
    lambda topic, table: table in (DECISIONS.name, UNREADABLE.name) and topic == OUTCOMES_TOPIC,
    (OUTCOMES_TOPIC,),
)
DETAILED = Share(lambda topic, table: not DECIDED.takes(topic, table))


def silver_tables(
    cluster_id: str,
    batch: pa.Table,
    share: Share,
    marks: Mapping[str, HighWater],
    catalogue: Catalogue = RELEASED,
) -> dict[str, pa.Table]:
    """The rows of a share that the tables do not have yet, by table name; tables without any are
    left out.

    Unreadable records come first: should only some of the tables be appended to, a record whose
    schema becomes known later is in one of them. `batch` is in log order.
    """
    found: dict[str, list[Row]] = {}
    for record in _records(cluster_id, batch, share.topics):
        for name, row in silver_rows(record, catalogue):
            place = (record.topic, record.partition)
            if share.takes(record.topic, name) and marks[name].is_new(place, record.offset):
                found.setdefault(name, []).append(row)
    order = sorted(found, key=lambda name: name != UNREADABLE.name)
    return {
        name: pa.Table.from_pylist(found[name], schema=catalogue.tables[name].schema)
        for name in order
    }


def readable_again(
    rows: Iterable[Mapping[str, Any]],
    catalogue: Catalogue,
    has: Callable[[str], Collection[tuple[str, int, int]]],
) -> dict[str, pa.Table]:
    """What rows of `silver/unreadable` become by what is known now, by table name, without what is
    there already.

    `has(table)` gives topic, partition and offset of that table's rows of the same cluster.
    """
    found: dict[str, list[Row]] = {}
    known: dict[str, Collection[tuple[str, int, int]]] = {}
    for row in rows:
        place = (row["topic"], row["log_partition"], row["log_offset"])
        record = LogRecord(row[CLUSTER_ID], *place, row["log_timestamp"], row["value"])
        for name, made in silver_rows(record, catalogue):
            if name == UNREADABLE.name:
                continue
            if name not in known:
                known[name] = has(name)
            if place not in known[name]:
                found.setdefault(name, []).append(made)
    return {
        name: pa.Table.from_pylist(rows, schema=catalogue.tables[name].schema)
        for name, rows in found.items()
    }


def _records(
    cluster_id: str, batch: pa.Table, topics: Collection[str] | None
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
