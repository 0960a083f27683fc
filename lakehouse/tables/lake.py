"""Which lake, and whose history in it.

Responsible for naming a table's place, be it a folder or an object store, and for finding out which
clusters have landed there. Refuses to know what tables hold, apart from the partitions of bronze.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables.listed_files import cannot_be_read
from lakehouse.tables.specs import BRONZE, CLUSTER_ID, TableSpec

IN_DATA_FOLDER = Path("data", "tables")
"""Where a local cluster's data folder has its tables."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of one cluster among those of all that land in the same place.

    Invariants: `root` is a folder's path or a URI, without a slash at its end and never `file:`.
    """

    root: str
    cluster_id: str | None = None
    """None only while landing has not learned one, and for work on whole tables: then rows of all
    clusters are meant.
    """
    storage_options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What an object store wants to know, as `deltalake` spells it; secrets are better left to the
    environment.
    """

    @property
    def folder(self) -> Path | None:
        """The folder that it is; None for an object store."""
        return None if "://" in self.root else Path(self.root)

    def uri(self, table: TableSpec) -> str:
        """Where a table lies: a path, or a URI in an object store."""
        return f"{self.root}/{table.name}"

    def absolute_uri(self, table: TableSpec) -> str:
        """The same for whoever stands elsewhere."""
        here = self.uri(table)
        return here if self.folder is None else str(Path(here).absolute())

    def spark_uri(self, table: TableSpec) -> str:
        """The same place for Spark: what has no scheme would be looked for in the cluster's own
        file system.
        """
        return spark_path(self.uri(table))

    def of(self, cluster_id: str | None) -> Lake:
        """The same place for another cluster."""
        return replace(self, cluster_id=cluster_id)


def spark_path(place: str) -> str:
    """A path or URI as Hadoop's file systems spell it."""
    if "://" not in place:
        return f"file:{Path(place).absolute()}"
    return f"s3a{place[2:]}" if place.startswith("s3://") else place


def tables_at(place: str | Path) -> str | Path:
    """The tables themselves where `place` is the data folder of a local cluster."""
    inside = Path(place, IN_DATA_FOLDER)
    is_data_folder = "://" not in str(place) and inside.is_dir()
    return inside if is_data_folder and not Path(place, BRONZE.layer).exists() else place


def lake_at(
    root: str | Path,
    cluster_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Lake:
    """A lake by its place alone, whether or not anything has landed. `file:` URIs become paths."""
    text = str(root)
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    return Lake(text.rstrip("/") or "/", cluster_id, dict(storage_options or {}))


def open_lake(
    root: str | Path,
    cluster_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Lake:
    """The lake of one cluster: the named one, or the only one that has landed; of none while
    nothing has landed.

    Raises `NotLanded` without tables and for a cluster that never landed, `LakehouseError` when
    there are several and none is named.
    """
    place = lake_at(root, None, storage_options)
    known = clusters(place)
    if cluster_id is not None:
        if known and cluster_id not in known:
            raise NotLanded(
                f"cluster {cluster_id} has not landed in {place.root}; known clusters: "
                f"{', '.join(known)}"
            )
        return place.of(cluster_id)
    if len(known) > 1:
        raise LakehouseError(
            f"{place.root} holds {len(known)} clusters ({', '.join(known)}): name one with "
            "--cluster"
        )
    return place.of(known[0] if known else None)


def clusters(place: Lake) -> list[str]:
    """Ids of the clusters that have landed. Raises `NotLanded` without tables, `LakehouseError` for
    tables of old.
    """
    bronze = open_delta(place, BRONZE)
    require_clusters(bronze, BRONZE)
    return sorted({str(values[CLUSTER_ID]) for values in bronze.partitions()})


def open_delta(place: Lake, table: TableSpec) -> deltalake.DeltaTable:
    """A table as it is now, of all clusters. Raises `NotLanded` when there is none,
    `LakehouseError` when it cannot be read.
    """
    try:
        return deltalake.DeltaTable(
            place.uri(table), storage_options=dict(place.storage_options) or None
        )
    except TableNotFoundError as error:
        raise NotLanded(f"no table {table.name} in {place.root}: has `regent land` run?") from error
    except (DeltaError, OSError, ValueError) as error:  # The last: a partition without a value.
        raise cannot_be_read(place, table, error) from error


def require_clusters(found: deltalake.DeltaTable, table: TableSpec) -> None:
    """Raises `LakehouseError` for a table that an earlier release made: its rows do not say whose
    they are.
    """
    if list(found.metadata().partition_columns)[:1] != [CLUSTER_ID]:
        raise LakehouseError(
            f"table {table.name} was made by a release that did not keep clusters apart: land into "
            "a new folder, the log gives all of it again"
        )
