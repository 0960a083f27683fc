import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from events.broker_events import BrokerEventHeader, SlaveFellBehind
from events.codec import encode
from lakehouse.care.maintain import lake_locks, maintain
from lakehouse.errors import LakehouseError
from lakehouse.gold.aggregate_tables import (
    AGGREGATE_INPUTS,
    AGGREGATE_TABLES,
    FAILOVER_RATES,
    REPLICA_LAG,
)
from lakehouse.gold.aggregates import FELL_BEHIND
from lakehouse.gold.aggregates_job import CHECKPOINTS, AggregatesJob, Intake, _finish
from lakehouse.tables.commit_lock import LOCK_FOLDER, CommitLocks
from lakehouse.tables.delta import open_table, read
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
from tests.unit.lakehouse.gold.gold_cases import failed_over

MINUTE_MS = 60_000
HISTORY, _ = failed_over()
DECIDED = [*command_records(HISTORY.records), *outcome_records(HISTORY.records)]


def reports(*minutes: float) -> list[Record]:
    """A slave falls behind at each of these minutes, ascending or not; the log takes a report a
    second.
    """
    heads = [
        BrokerEventHeader(
            bytes([n] * 16), CLUSTER, NAME, 1, "i", BEGAN_MS + round(m * MINUTE_MS), n
        )
        for n, m in enumerate(minutes)
    ]
    return event_records(
        [encode(SlaveFellBehind(head, 2, 100 + n)) for n, head in enumerate(heads)]
    )


def job_of(spark: Any, lake: Lake, **other: Any) -> AggregatesJob:
    locks = CommitLocks(lake.folder, [table.name for table in AGGREGATE_TABLES])
    return AggregatesJob(spark, lake, locks, **{"watermark_s": 120, **other})


def lag(lake: Lake) -> list[tuple[int, int, int]]:
    """Minute of a window, how often the slave fell behind in it, and how far."""
    rows = read(lake, REPLICA_LAG).to_pylist()
    return [
        ((row["window_start_ms"] - BEGAN_MS) // MINUTE_MS, row["fell_behind"], row["lag_bytes_max"])
        for row in rows
    ]


@pytest.mark.spark
def test_a_table_that_is_made_anew_is_counted_anew(tmp_path: Path, spark: Any) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*DECIDED, *reports(-30, -29)])
    first = job_of(spark, lake).step()
    shutil.rmtree(lake.uri(REPLICA_LAG))
    assert job_of(spark, lake).step() == first
    assert lag(lake) == [(-30, 2, 101)]


@pytest.mark.spark
def test_what_lands_later_is_counted_on_and_what_is_too_late_is_told(
    tmp_path: Path, spark: Any
) -> None:
    lake = lake_in(tmp_path)
    # Event times cannot be after the log's, which takes report n in second n: so all go backwards
    # from there.
    land(lake, [*DECIDED, *reports(-30, -29)])
    assert job_of(spark, lake).step() == [
        Intake(FAILOVER_RATES.name, 2, 2, 0),
        Intake(REPLICA_LAG.name, 2, 2, 0),
    ]
    [rates] = read(lake, FAILOVER_RATES).to_pylist()
    assert (rates["elections"], rates["won"], rates["rows"]) == (2, 2, 2)
    assert lag(lake) == [(-30, 2, 101)]
    # -26 is inside the same window and in time, -20 closes that window at the next step.
    land(lake, [*DECIDED, *reports(-30, -29, -26, -20)])
    job_of(spark, lake).step()
    assert lag(lake) == [(-30, 3, 102), (-20, 1, 103)]
    land(lake, [*DECIDED, *reports(-30, -29, -26, -20, -28, -19)])
    assert job_of(spark, lake).step() == [
        Intake(FAILOVER_RATES.name, 2, 2, 0),
        Intake(REPLICA_LAG.name, 6, 5, 1),
    ]
    assert lag(lake) == [(-30, 3, 102), (-20, 2, 105)]
    noted = {row["aggregate"]: row["late"] for row in read(lake, AGGREGATE_INPUTS).to_pylist()}
    assert noted == {FAILOVER_RATES.name: 0, REPLICA_LAG.name: 1}
    # Without its checkpoint it counts anew; what comes all at once is not late.
    found = job_of(spark, lake, checkpoint=str(tmp_path / "other")).step()
    assert found is not None and [(one.counted, one.late) for one in found] == [(2, 0), (6, 0)]
    assert lag(lake) == [(-30, 4, 104), (-20, 2, 105)]


AWAY = (-30, -29, -26, -25, -24, -20)
"""The first two are counted, then the job is away while each of the others lands."""


def commits_forgotten(lake: Lake) -> None:
    """As care does once they are older than its window: the rows stay."""
    [done] = maintain(lake, lake_locks(lake), 0, [FELL_BEHIND])
    assert done.checkpointed and done.problem is None
    log = Path(lake.uri(FELL_BEHIND)) / "_delta_log"
    assert not (log / f"{3:020}.json").exists()


def files_merged(lake: Lake) -> None:
    """As care does: the commits are there, the files that they brought are not."""
    table = open_table(lake, FELL_BEHIND)
    table.optimize.compact()
    how = {"dry_run": False, "enforce_retention_duration": False, "full": True}
    assert table.vacuum(retention_hours=0, **how)


@pytest.mark.spark
@pytest.mark.parametrize(
    "forget", [pytest.param(commits_forgotten, marks=pytest.mark.long), files_merged]
)
def test_who_was_away_for_longer_than_commits_are_kept_counts_all_anew(
    forget: Callable[[Lake], None], tmp_path: Path, spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    lake = lake_in(tmp_path)
    for landed in range(2, len(AWAY) + 1):
        land(lake, [*DECIDED, *reports(*AWAY[:landed])])
        if landed == 2:
            job_of(spark, lake).step()
    forget(lake)
    assert job_of(spark, lake).step() == [
        Intake(FAILOVER_RATES.name, 2, 2, 0),
        Intake(REPLICA_LAG.name, 6, 6, 0),
    ]
    assert lag(lake) == [(-30, 3, 102), (-25, 2, 104), (-20, 1, 105)]
    assert "gold/replica_lag is counted anew" in caplog.text
    land(lake, [*DECIDED, *reports(*AWAY, -19, -26)])
    [_, found] = job_of(spark, lake).step() or []
    assert (found.counted, found.late) == (7, 1), "it goes on from there"
    [folder] = (tmp_path / CHECKPOINTS).glob("*/gold/replica_lag*")
    assert "gone" not in folder.name


@pytest.mark.spark
def test_what_ended_a_count_is_told_in_its_own_words(tmp_path: Path, spark: Any) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*DECIDED, *reports(-30, -29)])
    job = job_of(spark, lake)
    shutil.rmtree(tmp_path / LOCK_FOLDER)
    with pytest.raises(LakehouseError, match="was taken away") as told:
        job.step()
    assert "Traceback" not in str(told.value)


@pytest.mark.spark
@pytest.mark.parametrize("alone_for", [0, 1])
def test_who_is_no_longer_alone_commits_nothing(alone_for: int, tmp_path: Path, spark: Any) -> None:
    """Neither from the beginning on nor when that changes during a step."""
    lake = lake_in(tmp_path)
    land(lake, [*DECIDED, *reports(-30, -29)])
    asked = count()

    def not_alone() -> None:
        if next(asked) >= alone_for:
            raise LakehouseError("another one counts")

    with pytest.raises(LakehouseError, match="^another one counts$"):
        job_of(spark, lake, require_alone=not_alone).step()
    assert lag(lake) == []
    assert (tmp_path / CHECKPOINTS).exists() is (alone_for > 0)


class Died(Exception):
    """Stands for the end of the job at that point."""


@pytest.mark.spark
def test_ended_before_merging_nothing_is_lost_and_nothing_counted_twice(
    tmp_path: Path, spark: Any
) -> None:
    """Ended after merging: see `tests/integration/test_aggregates.py`."""
    lake = lake_in(tmp_path)
    land(lake, [*DECIDED, *reports(-30, -29)])
    job_of(spark, lake).step()
    land(lake, [*DECIDED, *reports(-30, -29, -26, -26, -20)])

    def dies(lake: Lake, table: Any, rows: Any) -> None:
        raise Died(table.name)

    with pytest.raises(LakehouseError, match="could not be counted on") as told:
        job_of(spark, lake, merge=dies).step()
    assert "\n" not in str(told.value) and "\tat " not in str(told.value)
    job_of(spark, lake).step()
    assert lag(lake) == [(-30, 4, 103), (-20, 1, 104)]


def test_without_a_cluster_nothing_is_counted(tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match="no cluster has landed"):
        job_of(None, lake_in(tmp_path).of(None))


class Hanging:
    """A query as the job sees it: batches that finish one after the other, then none any more."""

    name = "gold/replica_lag"

    def __init__(self, batches: int) -> None:
        self._left, self.stopped = list(range(batches)), False
        self.lastProgress: dict[str, int] | None = None

    def awaitTermination(self, timeout_s: float) -> bool:
        if self._left:
            self.lastProgress = {"batchId": self._left.pop(0)}
        return False

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("batches", [0, 3])
def test_a_query_that_finishes_no_batch_any_more_is_ended(batches: int) -> None:
    query = Hanging(batches)
    with pytest.raises(LakehouseError, match="finished no batch"):
        _finish(query)
    assert query.stopped and (query.lastProgress or {"batchId": -1})["batchId"] == batches - 1
