"""Landing of every record in Delta tables, and the questions that are asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.sql.frames import LakeTables


def open(
    path: str | Path, cluster: str | None = None, storage_options: Mapping[str, str] | None = None
) -> LakeTables:
    """The tables at `path`, a folder or the URI of an object store, as data frames: see
    `lakehouse.sql.frames`. The data folder of a local cluster (`.regent`) stands for its tables.

    `cluster` is needed where several clusters land in one place. Raises `NotLanded` when there are
    no tables, `LakehouseError` when there are several clusters and none is named.
    """
    # An import of one part of this package must not cost all of it.
    from lakehouse.sql.frames import LakeTables
    from lakehouse.tables.lake import open_lake, tables_at

    return LakeTables(open_lake(tables_at(path), cluster, storage_options))
