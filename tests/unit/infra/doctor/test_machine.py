from __future__ import annotations

import resource
from pathlib import Path

import pytest

from infra.doctor import machine
from infra.doctor.findings import FAIL, OK, WARN

GIB = 1 << 30


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.lock"
    path.write_text("Some_Lib==1.2 \\\n    --hash=sha256:00\nother==3.0\n", encoding="utf-8")
    return path


def test_this_python_is_new_enough() -> None:
    assert machine.python().verdict == OK


def test_libraries_as_locked_are_fine_however_their_names_are_written(lock: Path) -> None:
    assert machine.libraries(lock, {"some-lib": "1.2", "other": "3.0", "more": "1"}).text == (
        "2 packages as locked"
    )


def test_another_version_is_a_warning_and_a_missing_library_a_failure(lock: Path) -> None:
    other = machine.libraries(lock, {"some-lib": "1.3", "other": "3.0"})
    assert (other.verdict, other.text) == (WARN, "Some_Lib 1.3 instead of 1.2")
    missing = machine.libraries(lock, {"some-lib": "1.2"})
    assert (missing.verdict, missing.text) == (FAIL, "not installed: other")


def test_without_a_list_nothing_is_compared(tmp_path: Path) -> None:
    assert machine.libraries(tmp_path / "none").verdict == OK


@pytest.mark.parametrize(
    ("limit", "verdict"), [(100, FAIL), (1_024, WARN), (8_192, OK), (resource.RLIM_INFINITY, OK)]
)
def test_few_open_files_are_noticed(limit: int, verdict: str) -> None:
    assert machine.open_files(limit).verdict == verdict


@pytest.mark.parametrize(("free", "verdict"), [(GIB - 1, FAIL), (GIB, WARN), (5 * GIB, OK)])
def test_a_disk_without_room_is_noticed(free: int, verdict: str) -> None:
    assert machine.disk(Path("/d"), free).verdict == verdict


def test_folders_on_one_file_system_are_one_line_also_when_they_are_not_made_yet(
    tmp_path: Path,
) -> None:
    assert len(machine.disks([tmp_path / "a" / "b", tmp_path / "c"])) == 1


def test_java_is_needed_only_where_kafka_or_spark_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.java, "find_java", _none)
    assert (
        machine.java_found(needed=True).verdict == FAIL
        and machine.java_found(needed=False).verdict == WARN
    )


def _none() -> None:
    raise machine.Problem("no usable Java", "Install one.")


@pytest.mark.parametrize(
    ("used", "limit", "verdicts"),
    [(80.0, 90, []), (88.0, 90, [WARN]), (90.5, 90, [FAIL]), (99.9, 100, [])],
)
def test_a_broker_s_own_limit_is_told_beforehand(
    used: float, limit: int, verdicts: list[str]
) -> None:
    """A large disk has gigabytes free when its broker already refuses sends."""
    found = machine.near_limit(Path("/d"), used, limit)
    assert [one.verdict for one in found] == verdicts
    assert all("disk_full_percent" in one.text and one.command for one in found)
