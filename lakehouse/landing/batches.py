"""From a batch of the log to what each table appends.

Responsible for the order of rows, for leaving out what a table has already, and for refusing a
batch with a hole. Takes and gives Arrow tables; refuses to know Spark and Delta.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from events.topics import KEPT_FOR_EVER, OUTCOMES_TOPIC
from lakehouse.landing.kinds import RELEASED, Catalogue
from lakehouse.landing.silver_columns import AT, Typed, typed_batch
from lakehouse.landing.silver_rows import LogRecord, Row, silver_rows
from lakehouse.tables.high_water import HighWater, Partition, check_no_hole
from lakehouse.tables.losses import NOTHING_LOST, Losses
from lakehouse.tables.specs import BRONZE, CLUSTER_ID, DECISIONS, TABLES, TIMESTAMP, UNREADABLE

# What a batch holds, as Spark's Kafka source names it.
BATCH_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value")
_OF_A_RECORD = ("topic", "partition", "offset", "timestamp", "value")
_POSITIONS = {"log_partition": "partition", "log_offset": "offset", "log_timestamp": "timestamp"}


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
    cluster_id: str,
    batch: pa.Table,
    mark: HighWater,
    batch_id: int,
    landed_at: datetime,
    noted: Losses = NOTHING_LOST,
) -> pa.Table:
    """The rows of the batch that bronze does not have yet of this cluster.

    `batch` is in log order; `noted` are losses that leave no hole. Raises `LandingGap` when a
    record is missing before one of them.
    """
    for partition, offsets in positions(batch).items():
        from_zero = partition[0] in KEPT_FOR_EVER
        check_no_hole(
            mark.of(partition), partition, offsets, from_zero=from_zero, behind=noted.behind
        )
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
    typed: Callable[[pa.Table, Collection[str]], Typed] = typed_batch,
) -> dict[str, pa.Table]:
    """The rows of a share that the tables do not have yet, by table name; tables without any are
    left out.

    Unreadable records come first: should only some of the tables be appended to, a record whose
    schema becomes known later is in one of them. `batch` is in log order. `typed` makes columns of
    the records' own fields.
    """
    if share.topics is not None:
        batch = batch.filter(pc.is_in(batch["topic"], value_set=pa.array(share.topics)))
    wanted = [
        one.name for one in TABLES if one.topic is not None and share.takes(one.topic, one.name)
    ]
    made = typed(batch, wanted)
    parts: dict[str, list[pa.Table]] = {}
    odd = _odd_rows(cluster_id, batch, made.left, share, catalogue)
    schemas = {name: table.schema for name, table in catalogue.tables.items()}
    for name, columns in made.tables.items():
        parts[name] = [_placed(cluster_id, batch, columns, schemas[name])]
    for name, (places, rows) in odd.items():
        found = pa.Table.from_pylist(rows, schema=schemas[name])
        parts.setdefault(name, []).append(found.append_column(AT, pa.array(places, pa.int32())))
    new = {
        name: _new_rows(name, several, batch, marks[name])
        for name, several in sorted(parts.items(), key=lambda one: one[0] != UNREADABLE.name)
    }
    return {name: rows for name, rows in new.items() if rows.num_rows}


def _odd_rows(
    cluster_id: str, batch: pa.Table, places: list[int], share: Share, catalogue: Catalogue
) -> dict[str, tuple[list[int], list[Row]]]:
    """Rows one by one, of the records at these places, by table name, each with its place."""
    found: dict[str, tuple[list[int], list[Row]]] = {}
    rows = batch.select(_OF_A_RECORD).take(pa.array(places, pa.int64()))
    for place, values in zip(places, zip(*rows.to_pydict().values(), strict=True), strict=True):
        record = LogRecord(cluster_id, *values)
        for name, row in silver_rows(record, catalogue):
            if share.takes(record.topic, name):
                into = found.setdefault(name, ([], []))
                into[0].append(place)
                into[1].append(row)
    return found


def _placed(cluster_id: str, batch: pa.Table, columns: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns of records as rows of their table, with their places in the log, and `AT` behind
    them. What the lake's table has more is null.
    """
    at, count = columns[AT], columns.num_rows
    there = {
        CLUSTER_ID: pa.repeat(cluster_id, count),
        **{name: batch[source].take(at) for name, source in _POSITIONS.items()},
    }
    made = [
        there[field.name]
        if field.name in there
        else _held_as(field.type, columns[field.name])
        if field.name in columns.schema.names
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(made, schema=schema).append_column(AT, at)


def _held_as(kind: pa.DataType, column: pa.ChunkedArray) -> pa.ChunkedArray:
    # Of a table in the lake that was made by a later release.
    return column if column.type == kind else column.cast(kind)


def _new_rows(name: str, parts: list[pa.Table], batch: pa.Table, mark: HighWater) -> pa.Table:
    """The parts together, in the order of the batch, without what the table has."""
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts).sort_by(AT)
    is_new = _new_to(mark, batch.select(["topic", "partition", "offset"]).take(rows[AT]))
    rows = rows.drop_columns([AT])
    return rows if pc.all(is_new).as_py() else rows.filter(is_new)


def _new_to(mark: HighWater, batch: pa.Table) -> pa.Array | pa.ChunkedArray:
    """A mask of the rows above the marks."""
    seen = pa.array([False] * batch.num_rows, pa.bool_())
    for (topic, partition), last in mark.marks.items():
        here = pc.and_(pc.equal(batch["topic"], topic), pc.equal(batch["partition"], partition))
        seen = pc.or_(seen, pc.and_(here, pc.less_equal(batch["offset"], last)))
    return pc.invert(seen)
