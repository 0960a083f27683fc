"""Batches go through real Spark into real tables; only Kafka is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import encode
from lakehouse import delta_tables
from lakehouse.commit_lock import CommitLocks
from lakehouse.errors import LakehouseError, LandingGap
from lakehouse.lake import Lake
from lakehouse.lander import Lander
from lakehouse.status import StatusFile, read_status
from lakehouse.tables import BRONZE, DECISIONS, TABLES
from tests.support.control_history import with_master
from tests.support.landed_log import Record, batch_of, command_records, event_records, lake_in, outcome_records
from tests.support.landed_log import land as land_without_spark

PAST = with_master(1, 2)
LINK = encode(HaLinkUp(BrokerEventHeader(bytes(16), "c", "broker-a", 1, "i", 5, 0), 2, "out"))
LOG: list[Record] = [
    *command_records(PAST.records),
    *outcome_records(PAST.records),
    *event_records([LINK, b"garbage"], 2),
]


def lander(lake: Lake) -> Lander:
    """A job as it starts: what it knows comes from the tables."""
    delta_tables.ensure_tables(lake)
    marks = delta_tables.high_waters(lake, TABLES)
    locks = CommitLocks(lake.folder, [table.name for table in TABLES])
    return Lander(lake, marks, StatusFile(Path(lake.root)), locks)


def content(lake: Lake) -> dict[str, list[Any]]:
    found = {}
    for table in TABLES:
        rows = delta_tables.read(lake, table)
        names = [name for name in rows.schema.names if name not in ("batch", "landed_at")]
        found[table.name] = rows.select(names).to_pylist()
    return found


@pytest.mark.spark
def test_spark_lands_what_the_transforms_say_and_a_repeat_changes_nothing(
    spark: Any, tmp_path: Path
) -> None:
    expects, own = lake_in(tmp_path / "expected"), lake_in(tmp_path / "t")
    land_without_spark(expects, LOG)
    expected = content(expects)
    batch = spark.createDataFrame(batch_of(LOG))
    job = lander(own)
    for number in range(2):
        job.land_first(batch, number)
        job.land_details(batch, number)
    assert content(own) == expected
    # A restart without checkpoint: another job gets the same records once more.
    again = lander(own)
    again.land_first(batch, 0)
    again.land_details(batch, 0)
    assert content(own) == expected
    status = read_status(tmp_path / "t")
    assert status is not None
    assert status.landed == status.detailed
    assert status.landed["regent.commands-0"] == len(PAST.records)


@pytest.mark.spark
def test_after_a_failed_batch_nothing_is_appended_any_more(spark: Any, lake: Lake) -> None:
    job = lander(lake)
    with pytest.raises(LandingGap, match="records 0 to 2 are missing"):
        job.land_first(spark.createDataFrame(batch_of(LOG[3:5])), 0)
    assert isinstance(job.failure, LandingGap)
    with pytest.raises(Exception, match="is stopping"):
        job.land_first(spark.createDataFrame(batch_of(LOG)), 1)
    assert delta_tables.count_rows(lake, BRONZE) == 0
    assert delta_tables.count_rows(lake, DECISIONS) == 0


def test_a_closed_job_refuses_batches_without_calling_it_a_failure(lake: Lake) -> None:
    job = lander(lake)
    job.close()
    with pytest.raises(Exception, match="is stopping"):
        job.land_details(None, 0)
    assert job.failure is None


def test_nothing_lands_without_knowing_whose_it_is(lake: Lake) -> None:
    with pytest.raises(LakehouseError, match="whose log"):
        Lander(lake.of(None), {}, StatusFile(Path(lake.root)), CommitLocks(None, ()))
