"""Rows into a table by its key, with Spark: for tables that one machine does not merge.

Responsible for one MERGE: what has the key of a row is replaced by it, the rest is added. Refuses
to know what the rows say and when they are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa

from lakehouse.gold.merge import Merge
from lakehouse.gold.specs import GoldTableSpec
from lakehouse.tables.lake import Lake


def merge_in(spark: Any) -> Merge:
    """The merge of this session, for a gold job."""

    def merge(lake: Lake, table: GoldTableSpec, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            arrow = pa.Table.from_pylist(list(rows), schema=table.schema)
            _merge(spark, lake, table, spark.createDataFrame(arrow).coalesce(1))

    return merge


def _merge(spark: Any, lake: Lake, table: GoldTableSpec, frame: Any) -> None:
    from delta.tables import DeltaTable
    from pyspark.sql import functions as f

    same = [f.col(f"old.{name}") == f.col(f"new.{name}") for name in table.key]
    # Other clusters' files are not opened.
    same.append(f.col("old.cluster_id") == f.lit(lake.cluster_id))
    merge = (
        DeltaTable.forPath(spark, lake.spark_uri(table))
        .alias("old")
        .merge(frame.alias("new"), reduce(and_, same))
    )
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
