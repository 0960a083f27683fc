"""States that are left for proofs, as rows, and what is there when nobody left any."""

import shutil
import zlib
from datetime import timedelta
from pathlib import Path

from lakehouse.tables import left_states
from lakehouse.tables.delta import ensure_tables, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.left_states import LEFT_STATES
from tests.support.landed_log import BEGAN


def test_states_are_found_by_range_and_size(lake: Lake) -> None:
    assert left_states.ranges(lake, 4) == frozenset()
    assert left_states.states(lake, 4, [0]) == {} == left_states.states(lake, 4, [])
    ensure_tables(lake, (LEFT_STATES,))
    left_states.leave(lake, 4, {0: b"old", 2: b"two"}, BEGAN)
    left_states.leave(lake, 5, {1: b"other"}, BEGAN)
    left_states.leave(lake, 4, {0: b"zero", 2: b"two"}, BEGAN + timedelta(seconds=1))
    assert left_states.ranges(lake, 4) == {0, 2}
    found = left_states.states(lake, 4, [0, 1, 2])
    assert read(lake, LEFT_STATES).num_rows == 4, "what is there is not left again"
    assert {r: zlib.decompress(one) for r, one in found.items()} == {0: b"zero", 2: b"two"}


def test_a_table_that_cannot_be_read_holds_none(lake: Lake) -> None:
    ensure_tables(lake, (LEFT_STATES,))
    left_states.leave(lake, 4, {0: b"zero"}, BEGAN)
    for path in Path(lake.uri(LEFT_STATES)).glob("**/*.parquet"):
        path.unlink()
    assert left_states.ranges(lake, 4) == frozenset()
    assert left_states.states(lake, 4, [0]) == {}
    shutil.rmtree(lake.uri(LEFT_STATES))
    assert left_states.ranges(lake, 4) == frozenset()
