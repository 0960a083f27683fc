"""Wiping and finding data in files with holes."""

import os
from pathlib import Path

import pytest

from brokers.log.disk import last_used_byte, sync_directory, wipe

SIZE = 3 * (1 << 20) + 17


def sparse_file(path: Path, data: dict[int, bytes]) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, SIZE)
    for position, piece in data.items():
        os.pwrite(fd, piece, position)
    return fd


@pytest.mark.parametrize("position", [0, 1, 4095, 4096, (1 << 20) - 1, 1 << 20, SIZE - 1])
def test_the_last_byte_in_use_is_found(tmp_path: Path, position: int) -> None:
    fd = sparse_file(tmp_path / "f", {position: b"x"})
    assert last_used_byte(fd, 0, SIZE) == position + 1
    assert last_used_byte(fd, position + 1, SIZE) == position + 1
    assert last_used_byte(fd, 0, position) == 0
    os.close(fd)


def test_written_zeros_are_not_in_use(tmp_path: Path) -> None:
    fd = sparse_file(tmp_path / "f", {100: b"x", 5000: bytes(100_000)})
    assert last_used_byte(fd, 0, SIZE) == 101
    os.close(fd)


def test_a_wiped_range_is_zero_and_what_lies_around_is_not(tmp_path: Path) -> None:
    fd = sparse_file(tmp_path / "f", {0: b"a" * 10, 2 << 20: b"b", SIZE - 1: b"c"})
    assert wipe(fd, 5, SIZE - 1) == (2 << 20) + 1 - 5
    os.close(fd)
    data = (tmp_path / "f").read_bytes()
    assert data == b"aaaaa" + bytes(SIZE - 6) + b"c"


def test_a_range_without_data_costs_nothing(tmp_path: Path) -> None:
    fd = sparse_file(tmp_path / "f", {})
    assert wipe(fd, 0, SIZE) == 0
    assert os.fstat(fd).st_blocks == 0
    os.close(fd)


def test_a_missing_directory_cannot_be_synced(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "none")
