"""A table's files have the same names in a folder and in an object store."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.fs as pa_fs

from lakehouse.tables.file_system import file_system
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land


def test_both_list_and_open_the_same_names(lake: Lake) -> None:
    land(lake, command_records(with_master(1).records))
    far = replace(lake, root=f"file://{lake.root}")
    here, there = file_system(lake, BRONZE), file_system(far, BRONZE)
    log = pa_fs.FileSelector("_delta_log")
    names = sorted(one.path for one in here.get_file_info(log))
    assert names == sorted(one.path for one in there.get_file_info(log)) and len(names) == 2
    for one in names:
        with here.open_input_file(one) as raw, there.open_input_file(one) as same:
            assert raw.read() == same.read()
    assert here.get_file_info("no").type == there.get_file_info("no").type
