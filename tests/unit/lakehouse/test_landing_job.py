"""Batches go through real Spark into real tables; only Kafka is left out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from events.broker_events import BrokerEventHeader, HaLinkUp
from events.codec import encode
from lakehouse import delta_tables, writer_lock
from lakehouse.config import LandConfig
from lakehouse.errors import LandingGap
from lakehouse.landing_job import Lander, error_text, land
from lakehouse.status import StatusFile, read_status
from lakehouse.tables import BRONZE, DECISIONS, TABLES
from tests.support.control_history import with_master
from tests.support.landed_log import Record, batch_of, command_records, event_records, outcome_records
from tests.support.landed_log import land as land_without_spark

PAST = with_master(1, 2)
LINK = encode(HaLinkUp(BrokerEventHeader(bytes(16), "c", "broker-a", 1, "i", 5, 0), 2, "out"))
LOG: list[Record] = [
    *command_records(PAST.records),
    *outcome_records(PAST.records),
    *event_records([LINK, b"garbage"], 2),
]


def lander(tables_dir: Path) -> Lander:
    """A job as it starts: what it knows comes from the tables."""
    delta_tables.ensure_tables(tables_dir)
    marks = delta_tables.high_waters(tables_dir, TABLES)
    return Lander(tables_dir, marks, StatusFile(tables_dir))


def content(tables_dir: Path) -> dict[str, list[Any]]:
    found = {}
    for table in TABLES:
        rows = delta_tables.read(tables_dir, table)
        names = [name for name in rows.schema.names if name not in ("batch", "landed_at")]
        found[table.name] = rows.select(names).to_pylist()
    return found


@pytest.mark.spark
def test_spark_lands_what_the_transforms_say_and_a_repeat_changes_nothing(
    spark: Any, tmp_path: Path
) -> None:
    land_without_spark(tmp_path / "expected", LOG)
    expected = content(tmp_path / "expected")
    batch = spark.createDataFrame(batch_of(LOG))
    job = lander(tmp_path / "t")
    for number in range(2):
        job.land_first(batch, number)
        job.land_details(batch, number)
    assert content(tmp_path / "t") == expected
    # A restart without checkpoint: another job gets the same records once more.
    again = lander(tmp_path / "t")
    again.land_first(batch, 0)
    again.land_details(batch, 0)
    assert content(tmp_path / "t") == expected
    status = read_status(tmp_path / "t")
    assert status is not None
    assert status.landed == status.detailed
    assert status.landed["regent.commands-0"] == len(PAST.records)


@pytest.mark.spark
def test_after_a_failed_batch_nothing_is_appended_any_more(spark: Any, tmp_path: Path) -> None:
    job = lander(tmp_path)
    with pytest.raises(LandingGap, match="records 0 to 2 are missing"):
        job.land_first(spark.createDataFrame(batch_of(LOG[3:5])), 0)
    assert isinstance(job.failure, LandingGap)
    with pytest.raises(Exception, match="is stopping"):
        job.land_first(spark.createDataFrame(batch_of(LOG)), 1)
    assert delta_tables.count_rows(tmp_path, BRONZE) == 0
    assert delta_tables.count_rows(tmp_path, DECISIONS) == 0


def test_a_closed_job_refuses_batches_without_calling_it_a_failure(tmp_path: Path) -> None:
    job = lander(tmp_path)
    job.close()
    with pytest.raises(Exception, match="is stopping"):
        job.land_details(None, 0)
    assert job.failure is None


def test_tables_of_another_job_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = LandConfig(
        kafka={"bootstrap.servers": "none:1"}, tables_dir=tmp_path, checkpoint_dir=tmp_path,
        jars_dir=tmp_path, lock_wait_ms=0,
    )  # fmt: skip
    held = writer_lock.acquire(tmp_path / ".writer.lock", 0)
    try:
        assert land(config, threading.Event()) == 1
    finally:
        writer_lock.release(held)
    assert "written by another landing job" in caplog.text
    # The status is the other job's.
    assert read_status(tmp_path) is None


def test_what_stops_a_job_stands_in_its_status(tmp_path: Path) -> None:
    config = LandConfig(
        kafka={"bootstrap.servers": "none:1"}, tables_dir=tmp_path, checkpoint_dir=tmp_path / "c",
        jars_dir=tmp_path,
    )  # fmt: skip
    assert land(config, threading.Event()) == 1
    status = read_status(tmp_path)
    assert status is not None
    assert "make setup" in (status.error or "")
    assert not status.ready


def test_lost_records_come_with_the_way_out() -> None:
    text = error_text(RuntimeError("Some data may have been lost ... set failOnDataLoss to false"))
    assert text.startswith("the log no longer holds records that have not landed")
    assert "new folder" in text


def test_a_dead_java_process_is_called_that() -> None:
    assert "Java process has ended" in error_text(ConnectionRefusedError(111, "refused"))
