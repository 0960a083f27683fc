"""What proofs and others keep may be altered by whoever can write the lake: rows that lack values
are passed over, or told, and are never a stack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.invariants.kept import CHECKED
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.known_names import KNOWN
from lakehouse.proof.verify import Scope, verify_here
from lakehouse.proof.witnesses import checked
from lakehouse.tables.lake import Lake
from lakehouse.tables.left_states import LEFT_STATES
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.support.tampered_lake import with_sizes_put_right

RECORDS = with_master(1, 2, 3).records
LAST = len(RECORDS) - 1
SIZE = 4
SCOPE = Scope(range_records=SIZE)


@pytest.fixture
def proven(lake: Lake) -> Lake:
    """With all that is kept of it."""
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    job = job_of(lake, states_every=SIZE)
    bring_up(job)
    job.close()
    checked(lake)
    assert verify_here(lake, SCOPE).exit_code == 0
    return lake


def with_rows_that_lack(lake: Lake, table: Any) -> None:
    """Beside each row of a table's first file one for each column, without its value."""
    path = next(Path(lake.uri(table)).glob("cluster_id=*/**/*.parquet"))
    rows = pq.ParquetFile(path).read()
    schema = pa.schema([one.with_nullable(True) for one in rows.schema])
    lacking = [row | {name: None} for name in schema.names for row in rows.to_pylist()]
    pq.write_table(pa.Table.from_pylist([*rows.to_pylist(), *lacking], schema=schema), path)
    with_sizes_put_right(lake, table)


@pytest.mark.parametrize(
    "table", [KNOWN, PROVEN, LEFT_STATES, CHECKED], ids=lambda one: str(one.name)
)
def test_rows_that_lack_a_value_are_no_stack(proven: Lake, table: Any) -> None:
    with_rows_that_lack(proven, table)
    verdict = verify_here(proven, SCOPE)
    assert verdict.verified_up_to == LAST
    assert verdict.exit_code == (1 if table in (KNOWN, PROVEN) else 0), verdict.text()
    assert all("proof/names has no whole name of" in one for one in verdict.problems)
