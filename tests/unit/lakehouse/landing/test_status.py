import json
from pathlib import Path

import pytest

from lakehouse.errors import NotLanded
from lakehouse.landing.status import (
    STATUS_FILE,
    LandingStatus,
    StatusFile,
    missing_offsets,
    read_status,
    wait_for_landed,
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = StatusFile(tmp_path)
    file.update(stage="landing", ready=True)
    file.batch_done("landed", {"a-0": 5}, rows=7, ms=120)
    file.batch_done("landed", {"a-1": 2}, rows=1, ms=90)
    file.batch_done("detailed", {"a-0": 4}, rows=3, ms=80)
    status = read_status(tmp_path)
    assert status == file.status
    assert status is not None
    assert (status.landed, status.detailed) == ({"a-0": 5, "a-1": 2}, {"a-0": 4})
    assert (status.batches, status.rows, status.last_batch_ms) == (2, 8, 90)


def test_no_file_is_no_status(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None


def test_fields_of_a_newer_release_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / STATUS_FILE).write_text(json.dumps({"ready": True, "colour": "red"}))
    assert read_status(tmp_path) == LandingStatus(ready=True)


def test_a_partition_counts_as_landed_when_its_details_have_landed_too() -> None:
    status = LandingStatus(landed={"a-0": 9}, detailed={"a-0": 5})
    assert missing_offsets(status, {"a-0": 9, "b-0": 0}) == {"a-0": (5, 9)}
    assert missing_offsets(status, {"a-0": 9}, details=False) == {}
    assert missing_offsets(None, {"a-0": 1}) == {"a-0": (0, 1)}


def test_waiting_ends_when_all_has_landed(tmp_path: Path) -> None:
    file = StatusFile(tmp_path)
    file.batch_done("landed", {"a-0": 3}, 1, 1)
    file.batch_done("detailed", {"a-0": 3}, 1, 1)
    assert wait_for_landed(tmp_path, {"a-0": 3}, 0).landed == {"a-0": 3}


def test_waiting_ends_with_what_is_missing(tmp_path: Path) -> None:
    StatusFile(tmp_path).batch_done("landed", {"a-0": 2}, 1, 1)
    with pytest.raises(NotLanded, match="a-0 2 of 3"):
        wait_for_landed(tmp_path, {"a-0": 3}, 0, details=False)


def test_waiting_ends_at_once_when_the_job_has_failed(tmp_path: Path) -> None:
    StatusFile(tmp_path).update(error="disk full")
    with pytest.raises(NotLanded, match="disk full"):
        wait_for_landed(tmp_path, {"a-0": 3}, 60_000)
