"""Descriptors by use, and what awaits a sync."""

import os
import resource
from pathlib import Path

import pytest

from brokers.store.files.errors import DiskFull
from brokers.store.files.open_files import OpenFiles
from tests.support.descriptors import none_left, open_count


def test_the_least_recently_used_file_is_closed_first(tmp_path: Path) -> None:
    before = open_count(tmp_path)
    files = OpenFiles(2)
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        files.write(path, path.encode(), 0, create_bytes=64)
    assert open_count(tmp_path) == before + 2
    for path in paths:
        assert os.pread(files.fd(path), len(path), 0) == path.encode()
    files.close()
    assert open_count(tmp_path) == before


def test_a_new_file_is_sparse_and_has_its_size(tmp_path: Path) -> None:
    files = OpenFiles(2)
    files.write(str(tmp_path / "f"), b"x", 0, create_bytes=6_000_000)
    status = os.stat(tmp_path / "f")
    assert status.st_size == 6_000_000
    assert status.st_blocks < 100
    files.close()


def unsynced(files: OpenFiles) -> tuple[list[str], list[str]]:
    taken = files.take_unsynced()
    return taken.files, taken.folders


def test_what_was_written_awaits_a_sync_once(tmp_path: Path) -> None:
    files = OpenFiles(1)
    folder = tmp_path / "topic" / "0"
    folder.mkdir(parents=True)
    for name in "ab":
        files.write(str(folder / name), b"x", 0, create_bytes=64)
    files.write(str(folder / "a"), b"y", 1)
    taken = files.take_unsynced()
    assert taken.files == [str(folder / "a"), str(folder / "b")]
    assert taken.folders == sorted([str(folder), str(folder.parent), str(tmp_path)])
    files.remove(str(folder / "a"))
    taken.folders.append(str(tmp_path / "gone"))
    taken.sync()
    assert unsynced(files) == ([], [])
    files.close()


def test_a_removed_file_may_be_gone_already(tmp_path: Path) -> None:
    files = OpenFiles(1)
    files.write(str(tmp_path / "f"), b"x", 0, create_bytes=64)
    os.unlink(tmp_path / "f")
    files.remove(str(tmp_path / "f"))
    assert files.take_unsynced().files == []


def test_what_is_not_durable_yet_is_taken_once_more(tmp_path: Path) -> None:
    files, path = OpenFiles(1), str(tmp_path / "a")
    files.write(path, b"x", 0, create_bytes=64)
    taken = files.take_unsynced()
    with none_left(), pytest.raises(DiskFull, match="cannot be opened to be made durable"):
        taken.sync()
    late = files.take_unsynced()  # its sync is another thread's, which has not begun
    assert (late.files, late.folders) == (taken.files, taken.folders)
    files.write(str(tmp_path / "b"), b"x", 0, create_bytes=64)
    last = files.take_unsynced()
    assert last.files == [path, str(tmp_path / "b")]
    late.sync()
    assert files.take_unsynced().files == last.files, "the last one took it too"
    files.take_unsynced().sync()
    assert unsynced(files) == ([], [])
    files.close()


def test_a_file_whose_room_is_refused_leaves_no_descriptor(tmp_path: Path) -> None:
    before, files = open_count(tmp_path), OpenFiles(4)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, usual[1]))
    try:
        for _ in range(3):
            with pytest.raises(OSError):
                files.fd(str(tmp_path / "f"), create_bytes=1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert open_count(tmp_path) == before
