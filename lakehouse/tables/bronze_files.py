"""Bronze by its files as they lie there: what a proof reads.

Neither sizes nor statistics of Delta's log are believed, so that a file that somebody altered is
read for what it holds, and the verdict names records instead of a file.
Responsible for which files are read, for finding those that cannot be, and for giving the rows of
a stretch of one partition. Refuses to know what is proven.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler

from lakehouse.tables.delta import open_table
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import file_troubles, reason
from lakehouse.tables.specs import BRONZE

UNREADABLE = (OSError, pa.ArrowException)
"""What reading a damaged file raises."""
FILE_SCHEMA = pa.schema([field for field in BRONZE.schema if field.name not in BRONZE.partition_by])


class BronzeFiles:
    """The files that make up a cluster's bronze, as the table was when this was made."""

    def __init__(self, lake: Lake) -> None:
        """Raises `NotLanded`, `LakehouseError`."""
        self._opened = opened = open_table(lake, BRONZE)
        self._lake = lake
        self._left_out: list[str] = []
        rows = pa.table(opened.get_add_actions(flatten=True)).select(
            ["path", *(f"partition.{name}" for name in BRONZE.partition_by)]
        )
        self._topics: dict[str, list[str]] = {}
        for path, cluster, topic in zip(*rows.to_pydict().values(), strict=True):
            if lake.cluster_id in (None, cluster):
                self._topics.setdefault(topic, []).append(unquote(path))
        self._system: pa_fs.FileSystem = (
            pa_fs.PyFileSystem(
                DeltaStorageHandler(lake.uri(BRONZE), dict(lake.storage_options) or None)
            )
            if lake.folder is None
            else pa_fs.SubTreeFileSystem(lake.uri(BRONZE), pa_fs.LocalFileSystem())
        )
        self._format = ds.ParquetFileFormat(
            read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"),
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True),
        )

    @property
    def topics(self) -> list[str]:
        """Those of which something landed."""
        return sorted(self._topics)

    def uris(self, topic: str) -> list[str]:
        """Where the files of a topic are, as a path or a URI each."""
        return [f"{self._lake.uri(BRONZE)}/{path}" for path in self._topics.get(topic, ())]

    def leave_out_damaged(self) -> list[str]:
        """Read every file to its end, and go on without those that cannot be; why, in words."""
        told = []
        for topic, paths in self._topics.items():
            for path in list(paths):
                why = self._damage(path)
                if why is not None:
                    paths.remove(path)
                    self._left_out.append(path)
                    told.append(f"{path} of {BRONZE.name} ({topic}) {why}")
        self.__dict__.pop("_datasets", None)
        self.__dict__.pop("offsets", None)
        return told

    def unlike_the_log(self) -> list[str]:
        """In words, files that are read here and are not what Delta's log says: whoever believes
        that log cannot read them.
        """
        told = file_troubles(self._lake, BRONZE, self._opened)
        return [text for text in told if not any(path in text for path in self._left_out)]

    @cached_property
    def offsets(self) -> dict[Partition, np.ndarray]:
        """Every offset that landed, by partition, ascending; one that landed twice stands twice.

        Raises `UNREADABLE`.
        """
        found: dict[Partition, np.ndarray] = {}
        for topic, dataset in self._datasets.items():
            rows = dataset.to_table(columns=["partition", "offset"])
            for partition in sorted(pc.unique(rows["partition"]).to_pylist()):
                mine = rows.filter(pc.field("partition") == partition)["offset"]
                found[topic, partition] = np.sort(mine.to_numpy())
        return found

    def rows(self, place: Partition, first: int, end: int, columns: Sequence[str]) -> pa.Table:
        """The rows of `first` up to, not including, `end`, by offset. Raises `UNREADABLE`."""
        topic, partition = place
        if topic not in self._datasets:
            return FILE_SCHEMA.empty_table().select(columns)
        wanted = (
            (pc.field("partition") == partition)
            & (pc.field("offset") >= first)
            & (pc.field("offset") < end)
        )
        found = self._datasets[topic].to_table(columns=list(columns), filter=wanted)
        return found.sort_by("offset")

    def pieces(
        self, place: Partition, first: int, end: int, size: int, columns: Sequence[str]
    ) -> Iterator[tuple[int, pa.Table]]:
        """The rows of a stretch, `size` offsets at a time, each with its first offset."""
        for start in range(first // size * size, end, size):
            yield start, self.rows(place, start, min(start + size, end), columns)

    @cached_property
    def _datasets(self) -> dict[str, ds.Dataset]:
        return {topic: self._dataset(paths) for topic, paths in self._topics.items() if paths}

    def _dataset(self, paths: Collection[str]) -> ds.Dataset:
        fragments = [self._format.make_fragment(path, filesystem=self._system) for path in paths]
        return ds.FileSystemDataset(fragments, FILE_SCHEMA, self._format, self._system)

    def _damage(self, path: str) -> str | None:
        try:
            if self._system.get_file_info(path).type == pa_fs.FileType.NotFound:
                return "is gone"
            for _ in self._dataset([path]).to_batches():
                pass
        except UNREADABLE as error:
            return f"is damaged: {reason(error)}"
        return None
