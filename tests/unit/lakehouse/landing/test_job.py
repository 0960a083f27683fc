"""What ends a landing job before it lands anything, and how it says so (landing itself:
tests/integration).
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakehouse.landing import writer_lock
from lakehouse.landing.config import LandConfig
from lakehouse.landing.job import OWN_LOCK, error_text, land
from lakehouse.landing.status import read_status


def test_tables_of_another_job_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = LandConfig(
        kafka={"bootstrap.servers": "none:1"},
        tables=str(tmp_path),
        checkpoint_dir=str(tmp_path),
        jars_dir=tmp_path,
        lock_wait_ms=0,
    )
    held = writer_lock.acquire(tmp_path / OWN_LOCK, 0, "it")
    try:
        assert land(config, threading.Event()) == 1
    finally:
        writer_lock.release(held)
    assert "written by another landing job" in caplog.text
    # The status is the other job's.
    assert read_status(tmp_path) is None


def test_what_stops_a_job_stands_in_its_status(tmp_path: Path) -> None:
    config = LandConfig(
        kafka={"bootstrap.servers": "none:1"},
        tables=str(tmp_path / "t"),
        checkpoint_dir=str(tmp_path),
        cluster_id="c",
        jars_dir=tmp_path,
    )
    assert land(config, threading.Event()) == 1
    status = read_status(tmp_path)
    assert status is not None
    assert "make setup" in (status.error or "")
    assert not status.ready


def test_lost_records_come_with_the_way_out() -> None:
    text = error_text(RuntimeError("Some data may have been lost ... set failOnDataLoss to false"))
    assert text.startswith("the log no longer holds records that have not landed")
    assert "new folder" in text


def test_a_full_disk_comes_with_the_way_out() -> None:
    text = error_text(RuntimeError("x" * 5000 + "java.io.IOException: No space left on device"))
    assert text.startswith("No space left on device") and "Make room and begin again" in text


def test_a_dead_java_process_is_called_that() -> None:
    assert "Java process has ended" in error_text(ConnectionRefusedError(111, "refused"))
