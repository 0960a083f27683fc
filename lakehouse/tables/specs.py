"""The catalogue: every table of the lakehouse, as data.

Responsible for names, layers, columns with their meaning, keys and checks.
Refuses to know how tables are written (`landing.job`) and asked (`history`, `explain`, ...).

Several clusters may land in one place, so each row says whose it is: `cluster_id` begins every key
and every partitioning. It is the cluster whose log the record stood in, whatever the record says.
Bronze is one table for all topics, because the columns are the same and a table more costs a
commit more in every batch; it is partitioned by topic too, so whoever reads only the commands opens
only their files. Silver is one table per kind of record, made from the schema files, and
`decisions` and `elections`, made from outcomes.
All tables are append-only and have no deletion vectors: any Delta reader can read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from re import sub
from typing import Any

import pyarrow as pa

import schemas
from events.outcomes import LABELS
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.tables.columns import Column, FieldColumn, field_columns
from lakehouse.tables.row_checks import AtLeast, Between, Check, OneOf, TextLength

TIMESTAMP = pa.timestamp("us", tz="UTC")

WALL_CLOCK = "ms since 1970-01-01 UTC"
"""How a schema says that a field, or each value of a map, is a time of some clock."""
CLOCK_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: no clock is later, and no calendar counts further."""
CLOCK_UNKNOWN = -1


def is_of_a_clock(at_ms: int) -> bool:
    """Whether it is a time, ms since 1970-01-01 UTC, or `CLOCK_UNKNOWN`."""
    return CLOCK_UNKNOWN <= at_ms <= CLOCK_MS_MAX


# What Delta keeps in each table. Short commits come often, so its own checkpoints come seldom.
TABLE_PROPERTIES: Mapping[str, str] = {
    "delta.appendOnly": "true",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "100",
}


CLUSTER_ID = "cluster_id"
CLUSTER = Column(CLUSTER_ID, pa.string(), "The cluster whose log it is.")
STATED_CLUSTER_ID = "stated_cluster_id"
"""A record's own field `cluster_id`, as a column."""


@dataclass(frozen=True)
class TableSpec:
    """One table.

    Invariants: column names are unique; every key column exists; key and partitioning begin with
    the cluster; within one cluster and `topic`, the position columns say which record a row comes
    from and grow in the order of landing.
    """

    name: str
    """Path below the folder of tables: layer, slash, noun."""
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """Columns that name a row; no two rows have the same."""
    topic: str | None = None
    """Where all rows come from; None: from any topic, named in the column `topic`."""
    kind: str | None = None
    """Class name of the records that become rows."""
    fields: tuple[FieldColumn, ...] = ()
    checks: tuple[Check, ...] = ()
    partition_by: tuple[str, ...] = (CLUSTER_ID,)
    partition_column: str = "log_partition"
    offset_column: str = "log_offset"
    cluster_by: tuple[str, ...] = ()
    """Columns by which files are ordered when they are merged; none: the order of landing, that is
    by offset.
    """
    retention_days: int | None = None
    """After how many days a row is dropped; None: never. What is append-only is never dropped."""
    properties: Mapping[str, str] = field(default_factory=lambda: TABLE_PROPERTIES, hash=False)
    """What Delta keeps in the table."""

    @property
    def layer(self) -> str:
        """bronze or silver."""
        return self.name.partition("/")[0]

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema."""
        return pa.schema([column.field() for column in self.columns])


BRONZE = TableSpec(
    name="bronze/records",
    meaning="Every record of every topic, as it came.",
    columns=(
        CLUSTER,
        Column("topic", pa.string(), "Topic of the record."),
        Column("partition", pa.int32(), "Partition of the topic."),
        Column("offset", pa.int64(), "Offset in the partition."),
        Column("timestamp", TIMESTAMP, "The log's timestamp of the record.", nullable=True),
        Column("timestamp_type", pa.int32(), "0 set by the producer, 1 set by the log."),
        Column("key", pa.binary(), "Key bytes.", nullable=True),
        Column("value", pa.binary(), "Value bytes: the record itself.", nullable=True),
        Column("landed_at", TIMESTAMP, "When the landing job took it."),
        Column(
            "batch", pa.int64(), "Batch of the landing query; starts again with its checkpoint."
        ),
    ),
    key=(CLUSTER_ID, "topic", "partition", "offset"),
    partition_by=(CLUSTER_ID, "topic"),
    partition_column="partition",
    offset_column="offset",
)

RETENTION, ACCEPTED = "RETENTION", "ACCEPTED"

LOSSES = TableSpec(
    name="bronze/losses",
    meaning=(
        "Records that were gone from the log before they landed: each row is a stretch of offsets "
        "that is missing from `bronze/records` for good."
    ),
    columns=(
        CLUSTER,
        Column("topic", pa.string(), "Topic of the records."),
        Column("partition", pa.int32(), "Partition of the topic."),
        Column("from_offset", pa.int64(), "The first offset that is missing."),
        Column("to_offset", pa.int64(), "The last offset that is missing."),
        Column("found_at", TIMESTAMP, "When the landing job found that they are gone."),
        Column(
            "why",
            pa.string(),
            f"{RETENTION}: the log had dropped records that may be lost. {ACCEPTED}: of a topic "
            "that is kept for ever; an operator accepted their loss.",
        ),
    ),
    key=(CLUSTER_ID, "topic", "partition", "from_offset"),
    partition_column="partition",
    offset_column="from_offset",
)

POSITION_COLUMNS = (
    CLUSTER,
    Column("log_partition", pa.int32(), "Partition of the record that this row was made from."),
    Column("log_offset", pa.int64(), "Offset of that record."),
    Column("log_timestamp", TIMESTAMP, "The log's timestamp of that record.", nullable=True),
)
POSITION_KEY = (CLUSTER_ID, "log_partition", "log_offset")

UNREADABLE = TableSpec(
    name="silver/unreadable",
    meaning="Records that became no row of another silver table, with the reason.",
    columns=(
        *POSITION_COLUMNS,
        Column("topic", pa.string(), "Topic of the record."),
        Column("reason", pa.string(), "Why it could not be read, or which check it broke."),
        Column("value", pa.binary(), "Value bytes.", nullable=True),
    ),
    key=(CLUSTER_ID, "topic", "log_partition", "log_offset"),
)


def snake_case(name: str) -> str:
    """`ElectMaster` -> `elect_master`."""
    return sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def record_fields(schema: Mapping[str, Any]) -> tuple[FieldColumn, ...]:
    """Columns for the record's own fields. A field `cluster_id` becomes `stated_cluster_id`;
    `cluster_id` is the log's.
    """
    renamed = (
        replace(field, column=replace(field.column, name=STATED_CLUSTER_ID))
        if field.column.name == CLUSTER_ID
        else field
        for field in field_columns(schema)
    )
    return tuple(renamed)


def time_checks(fields: Iterable[FieldColumn]) -> tuple[Between, ...]:
    """What must be true of every column that holds times of a clock: sums and differences of
    others have no room in a column.
    """
    return tuple(
        Between(one.column.name, CLOCK_UNKNOWN, CLOCK_MS_MAX)
        for one in fields
        if WALL_CLOCK in one.column.meaning
        and (one.column.type == pa.int64() or pa.types.is_map(one.column.type))
    )


def kind_table(kind: str, topic: str, schema: Mapping[str, Any]) -> TableSpec:
    """The table of a kind of record, from its schema. Raises `TypeError` for a field that no column
    can hold.
    """
    fields = record_fields(schema)
    return TableSpec(
        name=f"silver/{snake_case(kind)}",
        meaning=schema.get("doc", ""),
        columns=(*POSITION_COLUMNS, *(field.column for field in fields)),
        key=POSITION_KEY,
        topic=topic,
        kind=kind,
        fields=fields,
        checks=(
            *(_COMMAND_CHECKS if topic == COMMANDS_TOPIC else _EVENT_CHECKS),
            *time_checks(fields),
        ),
    )


_COMMAND_CHECKS = (
    TextLength("command_id", (32,)),
    TextLength("applied_digest", (0, 64)),
    AtLeast("term", 0),
    AtLeast("applied_offset", -1),
)
_EVENT_CHECKS = (TextLength("event_id", (32,)), AtLeast("sequence", 0), AtLeast("broker_id", -1))

_outcome_schema = schemas.load("Outcome")
# What proves snapshots is of use to controllers only, and stays in bronze.
_outcome_fields = tuple(
    one for one in record_fields(_outcome_schema) if one.column.name != "state_digest"
)

DECISIONS = TableSpec(
    name="silver/decisions",
    meaning="What each record of the command log led to, as published. After a change of leader "
    "an outcome can stand here twice: readers take the first row of a command_offset.",
    columns=(*POSITION_COLUMNS, *(field.column for field in _outcome_fields)),
    key=POSITION_KEY,
    topic=OUTCOMES_TOPIC,
    kind="Outcome",
    fields=_outcome_fields,
    checks=(
        TextLength("command_id", (32,)),
        TextLength("digest", (64,)),
        AtLeast("command_offset", 0),
        OneOf("labels", LABELS),
        *time_checks(_outcome_fields),
    ),
)

_SHARED_WITH_ELECTIONS = (
    "command_offset",
    "command_id",
    "term",
    "broker_name",
    "cause",
    "accepted",
    "refusal",
    "code",
    "labels",
    "candidates",
    "publisher",
    "published_at_ms",
    "phases",
)

ELECTIONS = TableSpec(
    name="silver/elections",
    meaning="One row per outcome of an ElectMaster, with its result in columns of their own.",
    columns=(
        *POSITION_COLUMNS,
        *(c.column for c in _outcome_fields if c.column.name in _SHARED_WITH_ELECTIONS),
        Column("master_broker_id", pa.int64(), "The new master.", nullable=True),
        Column("master_address", pa.string(), "Its address, host:port.", nullable=True),
        Column("master_epoch", pa.int64(), "Its epoch.", nullable=True),
        Column("sync_state_set", pa.list_(pa.int64()), "Members of the new set.", nullable=True),
        Column("sync_state_set_epoch", pa.int64(), "Epoch of the new set.", nullable=True),
    ),
    key=POSITION_KEY,
    topic=OUTCOMES_TOPIC,
    kind="Outcome",
    fields=tuple(c for c in _outcome_fields if c.column.name in _SHARED_WITH_ELECTIONS),
    checks=DECISIONS.checks[:1],
)

COMMAND_TABLES = tuple(
    kind_table(kind, COMMANDS_TOPIC, schemas.load(kind)) for kind in schemas.names("commands")
)
EVENT_TABLES = tuple(
    kind_table(kind, BROKER_EVENTS_TOPIC, schemas.load(kind))
    for kind in schemas.names("broker_events")
)

CLOCK_SLACK_MS = 2_000
"""How far a broker's clock, which times its events, may be behind that of the controllers."""

EPOCH_COLUMNS = {
    "role_changed": "master_epoch",
    "epoch_appended": "epoch",
    "first_message_acknowledged": "epoch",
}
"""Where a broker says of which epoch an event is; of the others the time tells."""

# Landed first, so that a decision can be asked for soon after it was made.
FIRST_TABLES = (BRONZE, DECISIONS)
DETAIL_TABLES = (UNREADABLE, ELECTIONS, *COMMAND_TABLES, *EVENT_TABLES)
TABLES: tuple[TableSpec, ...] = (*FIRST_TABLES, *DETAIL_TABLES)
LANDING_TABLES: tuple[TableSpec, ...] = (*TABLES, LOSSES)
"""What landing makes: tables that records become rows of, and the one of those that never came."""
BY_NAME: Mapping[str, TableSpec] = {table.name: table for table in TABLES}
