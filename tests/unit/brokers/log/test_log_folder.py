"""What a log's folder may hold; how the log treats it is in test_commit_log.py."""

import os
from pathlib import Path

import pytest

from brokers.log.errors import LogError
from brokers.log.log_folder import open_segments

FILE = 1024


def make(folder: Path, start: int, data: bytes = bytes(FILE)) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{start:020d}").write_bytes(data)


def opened(folder: Path) -> list[int]:
    found = open_segments(folder, FILE)
    for segment in found:
        os.close(segment.fd)
    return [segment.start for segment in found]


def test_files_are_opened_in_order_and_strangers_left_alone(tmp_path: Path) -> None:
    for start in (2 * FILE, FILE):
        make(tmp_path / "log", start)
    (tmp_path / "log" / "notes").write_bytes(b"x")
    assert opened(tmp_path / "log") == [FILE, 2 * FILE]
    assert opened(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("start", "size", "refusal"), [(3 * FILE, FILE, "is missing"), (FILE // 2, FILE, "is missing"), (FILE, FILE + 1, "are configured")]
)
def test_files_that_make_no_log_are_refused(tmp_path: Path, start: int, size: int, refusal: str) -> None:
    make(tmp_path, 0, b"x" * FILE)
    make(tmp_path, start, b"x" * size)
    with pytest.raises(LogError, match=refusal):
        open_segments(tmp_path, FILE)


def test_only_a_last_file_without_data_counts_as_unfinished(tmp_path: Path) -> None:
    make(tmp_path, 0)
    make(tmp_path, FILE, bytes(5))
    assert opened(tmp_path) == [0] and not (tmp_path / f"{FILE:020d}").exists()
