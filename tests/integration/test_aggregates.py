"""The analytics job killed after its counts were merged and before Spark knew: counted on by
another process.

What is in the tables then is what one run over everything would have given.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from events.broker_events import BrokerEventHeader, SlaveFellBehind
from events.codec import encode
from lakehouse.gold.aggregate_tables import AGGREGATE_TABLES, FAILOVER_RATES, REPLICA_LAG
from lakehouse.gold.aggregates_job import AggregatesJob
from lakehouse.gold.merge import merge_rows
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from tests.support.control_history import CLUSTER, NAME
from tests.support.landed_log import (
    BEGAN_MS,
    Record,
    command_records,
    event_records,
    lake_in,
    land,
    outcome_records,
)
from tests.support.spark_session import shared_session
from tests.unit.lakehouse.gold.gold_cases import failed_over

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.processes,
    pytest.mark.timeout(1_200),
]

REPORTS, FIRST = 40, 25
SECOND_MS = 1000


def landed(lake: Lake, reports: int) -> None:
    """A failover, and so many times that a slave fell behind, one every ten seconds before the log
    began.
    """
    history, _ = failed_over()
    heads = [
        BrokerEventHeader(
            bytes([n] * 16), CLUSTER, NAME, 1, "i", BEGAN_MS - 10 * SECOND_MS * (REPORTS - n), n
        )
        for n in range(reports)
    ]
    told: list[Record] = event_records(
        [encode(SlaveFellBehind(head, 2, 100 + n)) for n, head in enumerate(heads)]
    )
    land(lake, [*command_records(history.records), *outcome_records(history.records), *told])


def job_of(lake: Lake, spark: Any, **other: Any) -> AggregatesJob:
    return AggregatesJob(
        spark, lake, CommitLocks(lake.folder, [table.name for table in AGGREGATE_TABLES]), **other
    )


def die_after_merging(lake: Lake) -> None:
    """What the child does: count a part, then die with the counts of the rest merged and nothing
    else done.
    """

    def merge(lake: Lake, table: Any, rows: Any) -> None:
        merge_rows(lake, table, rows)
        if table is REPLICA_LAG:
            os.kill(os.getpid(), signal.SIGKILL)

    job_of(lake, shared_session()).step()
    landed(lake, REPORTS)
    job_of(lake, shared_session(), merge=merge).step()


def test_killed_after_merging_nothing_is_lost_and_nothing_counted_twice(
    tmp_path: Path, spark: Any
) -> None:
    lake = lake_in(tmp_path)
    landed(lake, FIRST)
    child = subprocess.run(
        [sys.executable, "-m", "tests.integration.test_aggregates", lake.root],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    merged = read(lake, REPLICA_LAG).to_pylist()
    assert sum(row["fell_behind"] for row in merged) == REPORTS
    found = job_of(lake, spark).step()
    assert found is not None and [(one.aggregate, one.counted, one.late) for one in found] == [
        (FAILOVER_RATES.name, 2, 0),
        (REPLICA_LAG.name, REPORTS, 0),
    ]
    assert read(lake, REPLICA_LAG).to_pylist() == merged


if __name__ == "__main__":
    die_after_merging(lake_in(Path(sys.argv[1])))
