"""A table by its files as they lie there: what a proof reads.

Neither sizes nor statistics of Delta's log are believed, so that a file that somebody altered is
read for what it holds, and a verdict names rows instead of a file.
Responsible for which files are read and for finding those that cannot be. Refuses to know what is
in a table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs

from lakehouse.tables.delta import arrow_schema, open_table
from lakehouse.tables.file_system import file_system
from lakehouse.tables.footers import false_footers
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import file_troubles, reason, way_out
from lakehouse.tables.specs import CLUSTER_ID, TableSpec

UNREADABLE = (OSError, pa.ArrowException)
"""What reading a damaged file raises."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file, below the table's folder, and the partition that it is of."""

    path: str
    partition: Mapping[str, str]


class TableFiles:
    """The files that hold a cluster's rows of a table, as it was when this was made."""

    def __init__(self, lake: Lake, table: TableSpec) -> None:
        """Raises `NotLanded`, `LakehouseError`."""
        self._lake, self._table = lake, table
        self._opened = open_table(lake, table)
        names = [f"partition.{name}" for name in table.partition_by]
        rows = pa.table(self._opened.get_add_actions(flatten=True)).select(["path", *names])
        self.files = [
            TableFile(
                unquote(row["path"]),
                {name: row[column] for name, column in zip(table.partition_by, names, strict=True)},
            )
            for row in rows.to_pylist()
            if lake.cluster_id in (None, row[f"partition.{CLUSTER_ID}"])
        ]
        """Those that are read."""
        self._left_out: list[str] = []
        self._system = file_system(lake, table)
        self._format = ds.ParquetFileFormat(
            read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"),
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True),
        )
        self.schema = pa.schema(
            [one for one in arrow_schema(self._opened) if one.name not in table.partition_by]
        )
        """The columns that stand in the files: all but those that the table is partitioned by."""

    def dataset(self, files: Sequence[TableFile] | None = None) -> ds.Dataset:
        """All rows, or those of some files."""
        paths = [one.path for one in (self.files if files is None else files)]
        fragments = [self._format.make_fragment(path, filesystem=self._system) for path in paths]
        return ds.FileSystemDataset(fragments, self.schema, self._format, self._system)

    def uri(self, file: TableFile) -> str:
        """Where it is, as a path or a URI."""
        return f"{self._lake.uri(self._table)}/{file.path}"

    def leave_out_damaged(self) -> list[str]:
        """Read every file to its end, and go on without those that cannot be; why, in words."""
        told = []
        for one in list(self.files):
            why = self._damage(one)
            if why is not None:
                self.files.remove(one)
                self._left_out.append(one.path)
                told.append(f"{one.path} of {self._table.name} {why}: {way_out(self._table)}")
        return told

    def unlike_the_log(self) -> list[str]:
        """In words, files that are read here and are not what Delta's log says: whoever believes
        that log cannot read them.
        """
        told = file_troubles(self._lake, self._table, self._opened)
        return [text for text in told if not any(path in text for path in self._left_out)]

    def hiding(self, columns: Collection[str] = ()) -> list[str]:
        """In words, files whose own footers hide rows from whoever asks by a column; of all, or of
        these.
        """
        return list(false_footers(self._lake, self._table, self._opened, columns))

    def _damage(self, file: TableFile) -> str | None:
        try:
            if self._system.get_file_info(file.path).type == pa_fs.FileType.NotFound:
                return "is gone"
            for _ in self.dataset([file]).to_batches():
                pass
        except UNREADABLE as error:
            return f"is damaged: {reason(error)}"
        return None
