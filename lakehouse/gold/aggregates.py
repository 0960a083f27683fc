"""Counts over event time, as Spark plans: the same plan over a stream and over a table.

Responsible for what is counted, by which clock and in which windows. Rows that say the same again
(an outcome published twice after a change of leader, a broker event delivered twice) count once.
Refuses to know where rows come from and where counts go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from events.outcomes import LABEL_AT_RISK, LABEL_REPEAT, LABEL_UNCLEAN
from lakehouse.gold.aggregate_tables import FAILOVER_RATES, REPLICA_LAG
from lakehouse.gold.specs import GoldTableSpec
from lakehouse.tables.specs import BY_NAME, CLOCK_MS_MAX, CLOCK_UNKNOWN, ELECTIONS, TableSpec

EVENT_TIME = "event_time"


@dataclass(frozen=True)
class Aggregate:
    """One table of counts: its sources, the rows that are counted, and the plan."""

    table: GoldTableSpec
    sources: tuple[TableSpec, ...]
    rows_of: Callable[[Mapping[str, DataFrame]], DataFrame]
    """From the sources by name to rows with a column `EVENT_TIME`."""
    counts_of: Callable[[DataFrame], DataFrame]
    """From these rows to those of the table."""


def _elections(sources: Mapping[str, DataFrame]) -> DataFrame:
    """Elections by the log's clock: it decides what came first."""
    stamps = f.filter(f.map_values("phases"), _is_of_a_clock)
    labels = f.col("labels")
    return sources[ELECTIONS.name].select(
        "cluster_id",
        f.coalesce("broker_name", f.lit("")).alias("broker_name"),
        f.coalesce("log_timestamp", _time("published_at_ms")).alias(EVENT_TIME),
        (f.array_max(stamps) - f.array_min(stamps)).alias("took_ms"),
        f.struct(
            "command_offset",
            f.array_contains(labels, LABEL_REPEAT).alias("repeat"),
            f.col("master_broker_id").isNotNull().alias("won"),
            (~f.col("accepted")).alias("refused"),
            (
                f.array_contains(labels, LABEL_AT_RISK) | f.array_contains(labels, LABEL_UNCLEAN)
            ).alias("at_risk"),
        ).alias("asked"),
    )


def _failover_rates(rows: DataFrame) -> DataFrame:
    window = f.window(EVENT_TIME, "1 hour")
    # A set of what was asked: small, and a key that comes twice is in it once.
    counted = rows.groupBy("cluster_id", "broker_name", window).agg(
        f.collect_set("asked").alias("asked"),
        f.max("took_ms").alias("took_ms_max"),
        f.count(f.lit(1)).alias("rows"),
    )
    return _in_order(
        counted,
        FAILOVER_RATES,
        elections=_how_many(lambda one: ~one.repeat),
        won=_how_many(lambda one: ~one.repeat & one.won),
        refused=_how_many(lambda one: ~one.repeat & one.refused),
        at_risk=_how_many(lambda one: ~one.repeat & one.won & one.at_risk),
    )


def _how_many(which: Callable[[Column], Column]) -> Column:
    return f.size(f.filter("asked", which)).cast("long")


def _lag_reports(sources: Mapping[str, DataFrame]) -> DataFrame:
    """What masters say of their slaves, by the master's clock.

    A clock that is ahead must not close everybody's windows: nothing was later than the log took
    it.
    """
    fell, caught = sources[FELL_BEHIND.name], sources[CAUGHT_UP.name]
    reports = fell.withColumn("fell", f.lit(True)).unionByName(
        caught.withColumn("fell", f.lit(False)).withColumn("lag_bytes", f.lit(None).cast("long")),
        allowMissingColumns=True,
    )
    said = _time("at_ms")
    return reports.where(_is_of_a_clock(f.col("at_ms"))).select(
        "cluster_id",
        "broker_name",
        "slave_broker_id",
        "event_id",
        "fell",
        "lag_bytes",
        f.least(said, f.coalesce("log_timestamp", said)).alias(EVENT_TIME),
    )


def _is_of_a_clock(at_ms: Column) -> Column:
    """What landed before times were checked may hold some that no clock has: of these no
    timestamp can be made, and asking for one would end every run.
    """
    return at_ms.between(CLOCK_UNKNOWN, CLOCK_MS_MAX)


def _time(name: str) -> Column:
    return f.when(_is_of_a_clock(f.col(name)), f.timestamp_millis(name))


def _replica_lag(rows: DataFrame) -> DataFrame:
    window = f.window(EVENT_TIME, "5 minutes")
    counted = rows.groupBy("cluster_id", "broker_name", "slave_broker_id", window).agg(
        f.collect_set(f.when(f.col("fell"), f.col("event_id"))).alias("fell"),
        f.collect_set(f.when(~f.col("fell"), f.col("event_id"))).alias("caught"),
        f.max("lag_bytes").alias("lag_bytes_max"),
        f.count(f.lit(1)).alias("rows"),
    )
    return _in_order(
        counted,
        REPLICA_LAG,
        fell_behind=f.size("fell").cast("long"),
        caught_up=f.size("caught").cast("long"),
    )


def _in_order(counted: DataFrame, table: GoldTableSpec, **made: Column) -> DataFrame:
    made["window_start_ms"] = f.unix_millis(f.col("window.start"))
    made["window_end_ms"] = f.unix_millis(f.col("window.end"))
    return counted.select(*(made.get(name, f.col(name)).alias(name) for name in table.schema.names))


FELL_BEHIND, CAUGHT_UP = BY_NAME["silver/slave_fell_behind"], BY_NAME["silver/slave_caught_up"]
AGGREGATES = (
    Aggregate(FAILOVER_RATES, (ELECTIONS,), _elections, _failover_rates),
    Aggregate(REPLICA_LAG, (FELL_BEHIND, CAUGHT_UP), _lag_reports, _replica_lag),
)
