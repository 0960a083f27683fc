"""The tables that the streaming analytics keep, as data.

Responsible for names, columns with meaning and unit, keys and checks. Refuses to know how the
counts come about (`aggregates`). Each row is about one stretch of event time and is replaced while
its stretch is open.
"""

from __future__ import annotations

import pyarrow as pa

from lakehouse.gold.specs import CLUSTER, SET_NAME, GoldTableSpec
from lakehouse.tables.columns import Column
from lakehouse.tables.row_checks import AtLeast

_LONG = pa.int64()

WINDOW = (
    Column(
        "window_start_ms", _LONG, "Beginning of the stretch, ms since 1970-01-01 UTC; it is in it."
    ),
    Column("window_end_ms", _LONG, "Its end, ms since 1970-01-01 UTC; it is not in it."),
)
ROWS = Column(
    "rows", _LONG, "Rows of the source that were counted in, those that say the same again too."
)

FAILOVER_RATES = GoldTableSpec(
    name="gold/failover_rates",
    meaning=(
        "Elections of each set by the hour in which the log took their outcome: how many, how "
        "they ended, how long they took."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        *WINDOW,
        Column("elections", _LONG, "Elections asked for, each once."),
        Column("won", _LONG, "Of these, those that made a master."),
        Column("refused", _LONG, "Of these, those that were refused."),
        Column(
            "at_risk",
            _LONG,
            "Of those won, those that may have lost acknowledged messages: AT_RISK or UNCLEAN.",
        ),
        Column(
            "took_ms_max",
            _LONG,
            "Longest time from the first to the last phase, ms; null without phases.",
            nullable=True,
        ),
        ROWS,
    ),
    key=("cluster_id", "broker_name", "window_start_ms"),
    checks=(AtLeast("elections", 0), AtLeast("rows", 1)),
    offset_column="window_start_ms",
)

REPLICA_LAG = GoldTableSpec(
    name="gold/replica_lag",
    meaning=(
        "How often each slave fell behind its master and caught up, by five minutes of the "
        "master's clock."
    ),
    columns=(
        CLUSTER,
        SET_NAME,
        Column("slave_broker_id", _LONG, "Controller id of the slave."),
        *WINDOW,
        Column(
            "fell_behind", _LONG, "Times that it left waiting bytes unacknowledged for too long."
        ),
        Column("caught_up", _LONG, "Times that it reached the confirm offset."),
        Column(
            "lag_bytes_max",
            _LONG,
            "Farthest that it was behind when it was said to be, bytes; null when it never was.",
            nullable=True,
        ),
        ROWS,
    ),
    key=("cluster_id", "broker_name", "slave_broker_id", "window_start_ms"),
    checks=(
        AtLeast("fell_behind", 0),
        AtLeast("caught_up", 0),
        AtLeast("lag_bytes_max", 0),
        AtLeast("rows", 1),
    ),
    offset_column="window_start_ms",
)

AGGREGATE_INPUTS = GoldTableSpec(
    name="gold/aggregate_inputs",
    meaning=(
        "What each aggregate was made of, as of the last moment at which it had taken in all that "
        "had landed."
    ),
    columns=(
        CLUSTER,
        Column("aggregate", pa.string(), "The table of the aggregate."),
        Column("received", _LONG, "Rows that its sources held."),
        Column("counted", _LONG, "Of these, rows in its windows."),
        Column(
            "late",
            _LONG,
            "Of these, rows whose window was closed by the watermark before they landed, or "
            "whose time no clock has: they are in none.",
        ),
        Column(
            "watermark_s",
            _LONG,
            "How late a row may land, seconds of event time behind the latest row, before its "
            "window may close.",
        ),
    ),
    key=("cluster_id", "aggregate"),
    checks=(AtLeast("received", 0), AtLeast("late", 0)),
    cluster_by=("cluster_id", "aggregate"),
    offset_column="received",
)

AGGREGATE_TABLES = (FAILOVER_RATES, REPLICA_LAG, AGGREGATE_INPUTS)
