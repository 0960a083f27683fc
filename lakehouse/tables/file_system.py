"""The files of a table, be it in a folder or in an object store.

Responsible for one way to list and to open them. Refuses to know which files there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler

from lakehouse.tables.specs import TableSpec

if TYPE_CHECKING:
    from lakehouse.tables.lake import Lake


def file_system(lake: Lake, table: TableSpec) -> pa_fs.FileSystem:
    """Its root is the table's folder."""
    if lake.folder is None:
        options = dict(lake.storage_options) or None
        return pa_fs.PyFileSystem(DeltaStorageHandler(lake.uri(table), options))
    return pa_fs.SubTreeFileSystem(lake.uri(table), pa_fs.LocalFileSystem())
