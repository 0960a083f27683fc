"""
Rows into a gold table by its key, with Spark.

Responsible for one MERGE: what has the key of a row is replaced by it, the rest is added. Refuses to
know what the rows say and when they are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa

from lakehouse.gold_tables import GoldTableSpec
from lakehouse.lake import Lake


def merge_rows(spark: Any, lake: Lake, table: GoldTableSpec, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put rows of the lake's cluster in place, in one commit; no two of them have the same key."""
    if rows:
        arrow = pa.Table.from_pylist(list(rows), schema=table.schema)
        merge_frame(spark, lake.spark_uri(table), table, spark.createDataFrame(arrow).coalesce(1), lake.cluster_id)


def merge_frame(spark: Any, uri: str, table: GoldTableSpec, frame: Any, cluster_id: str | None = None) -> None:
    """The same for a frame; of one cluster only when it is named, then other clusters' files are not opened."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as f

    same = [f.col(f"old.{name}") == f.col(f"new.{name}") for name in table.key]
    if cluster_id is not None:
        same.append(f.col("old.cluster_id") == f.lit(cluster_id))
    merge = DeltaTable.forPath(spark, uri).alias("old").merge(frame.alias("new"), reduce(and_, same))
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
