"""What a log's folder may hold; how the log treats it is in test_commit_log.py."""

from pathlib import Path

import pytest

from brokers.store.files.errors import LogError
from brokers.store.log.log_folder import found_segments

FILE = 1024


def make(folder: Path, start: int, data: bytes = bytes(FILE)) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{start:020d}").write_bytes(data)


def found_in(folder: Path) -> list[int]:
    return [segment.start for segment in found_segments(folder, FILE)]


def test_files_are_found_in_order_and_strangers_left_alone(tmp_path: Path) -> None:
    for start in (2 * FILE, FILE):
        make(tmp_path / "log", start)
    (tmp_path / "log" / "notes").write_bytes(b"x")
    assert found_in(tmp_path / "log") == [FILE, 2 * FILE]
    assert found_in(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("start", "size", "refusal"),
    [
        (3 * FILE, FILE, "is missing"),
        (FILE // 2, FILE, "is missing"),
        (FILE, FILE + 1, "are configured"),
    ],
)
def test_files_that_make_no_log_are_refused(
    tmp_path: Path, start: int, size: int, refusal: str
) -> None:
    make(tmp_path, 0, b"x" * FILE)
    make(tmp_path, start, b"x" * size)
    with pytest.raises(LogError, match=refusal):
        found_segments(tmp_path, FILE)


def test_only_a_last_file_without_data_counts_as_unfinished(tmp_path: Path) -> None:
    make(tmp_path, 0)
    make(tmp_path, FILE, bytes(5))
    assert found_in(tmp_path) == [0] and not (tmp_path / f"{FILE:020d}").exists()
