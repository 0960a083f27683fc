"""Rows into a gold table by its key, without Spark.

Responsible for one MERGE: what has the key of a row is replaced by it, the rest is added. Gold
grows with decisions, not with messages, so a run merges some rows into some tables: by the Rust
library that is some tens of milliseconds a table, by Spark seconds of both cores, taken from
landing (`gold.merge_spark` is for the rest).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from lakehouse.errors import LakehouseError
from lakehouse.gold.specs import GoldTableSpec
from lakehouse.tables.delta import open_table, own_predicate
from lakehouse.tables.lake import Lake

Merge = Callable[[Lake, GoldTableSpec, Sequence[Mapping[str, Any]]], None]


def merge_rows(lake: Lake, table: GoldTableSpec, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put rows of the lake's cluster in place, in one commit; no two of them have the same key.

    Raises `NotLanded` when there is no such table, `LakehouseError` when another writer was faster.
    """
    if not rows:
        return
    new = pa.Table.from_pylist(list(rows), schema=table.schema)
    same = [f"old.{name} = new.{name}" for name in table.key]
    try:
        merge = open_table(lake, table).merge(
            new,
            " and ".join([*same, own_predicate(lake, "old.")]),
            source_alias="new",
            target_alias="old",
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    except (DeltaError, OSError) as error:
        raise LakehouseError(f"rows could not be merged into {table.name}: {error}") from error
