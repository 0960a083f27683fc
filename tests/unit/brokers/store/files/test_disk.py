"""Wiping and finding data in files with holes."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokers.store.files.disk import (
    has_room,
    is_full,
    last_used_byte,
    new_file,
    remove_files,
    sync_directory,
    wipe,
    write_all,
)
from tests.support.examples import examples

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


@pytest.mark.parametrize("behind", [b"", b"c"])
def test_a_full_disk_without_room_for_zeros_cuts_the_rest_of_the_file_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    fd = sparse_file(tmp_path / "f", {0: b"a" * 10, 2 << 20: b"b", SIZE - 1: behind})

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        if behind:
            with pytest.raises(OSError, match="full"):
                wipe(fd, 5, SIZE - 1)
        else:
            assert wipe(fd, 5, SIZE - 1) == (2 << 20) + 1 - 5
    os.close(fd)
    data = (tmp_path / "f").read_bytes()
    assert (data[:5], len(data)) == (b"aaaaa", SIZE) and any(data[5:]) == bool(behind)


def test_a_range_without_data_costs_nothing(tmp_path: Path) -> None:
    fd = sparse_file(tmp_path / "f", {})
    assert wipe(fd, 0, SIZE) == 0
    assert os.fstat(fd).st_blocks == 0
    os.close(fd)


def test_files_go_in_their_order_and_an_error_leaves_those_behind_it(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in (paths[0], paths[2]):
        path.touch()
    with pytest.raises(FileNotFoundError):
        remove_files(paths)
    assert [path.exists() for path in paths] == [False, False, True]
    remove_files(paths[2:])
    remove_files([])
    assert not list(tmp_path.iterdir())


def test_a_missing_directory_cannot_be_synced(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "none")


def test_a_new_file_has_its_room_or_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = new_file(tmp_path / "one", 10_000)
    assert os.fstat(fd).st_size == 10_000
    os.close(fd)

    def full(*_: int) -> None:
        raise OSError(errno.EDQUOT, "planted")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="planted") as refused:
        new_file(tmp_path / "two", 10_000)
    assert is_full(refused.value) and not (tmp_path / "two").exists()


def test_more_than_the_disk_has_is_not_even_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: pytest.fail("room was taken"))
    with pytest.raises(OSError, match="No space left") as refused:
        new_file(tmp_path / "huge", 1 << 60)
    assert is_full(refused.value) and not is_full(OSError(errno.EIO, "x"))


@pytest.mark.parametrize("room", [0, 1, 4096, 5000])
def test_a_write_that_finds_no_room_leaves_only_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    fd, real = sparse_file(tmp_path / "f", {}), os.pwrite
    left = [room]

    def pwrite(file: int, data: bytes, position: int) -> int:
        if not bytes(data).strip(b"\0"):
            return real(file, data, position)
        if not left[0]:
            raise OSError(errno.ENOSPC, "planted")
        count = min(left.pop(), len(data))
        left.append(0)
        return real(file, bytes(data)[:count], position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(OSError, match="planted"):
        write_all(fd, b"x" * 6000, 100)
    assert last_used_byte(fd, 0, SIZE) == 0
    left[0] = 6000
    write_all(fd, memoryview(b"x" * 6000), 100)
    assert last_used_byte(fd, 0, SIZE) == 6100
    os.close(fd)


def test_room_is_what_the_disk_tells(tmp_path: Path) -> None:
    assert has_room(tmp_path, 1) and not has_room(tmp_path, 1 << 60)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    writes=st.lists(
        st.tuples(st.integers(0, 300_000), st.integers(1, 9000), st.booleans()), max_size=6
    ),
    first=st.integers(0, 300_000),
    count=st.integers(0, 320_000),
)
def test_where_data_ends_is_what_reading_it_all_says(
    tmp_path: Path, writes: list[tuple[int, int, bool]], first: int, count: int
) -> None:
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        os.ftruncate(file.fileno(), 320_000)
        for position, size, zeros in writes:
            os.pwrite(
                file.fileno(), (b"\0" if zeros else b"x") * min(size, 320_000 - position), position
            )
        last = min(first + count, 320_000)
        there = os.pread(file.fileno(), last - first, first).rstrip(b"\0")
        assert last_used_byte(file.fileno(), first, last) == first + len(there)


def test_what_cannot_be_read_can_be_wiped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = sparse_file(tmp_path / "file", {100: b"x", 9_000: b"y"})

    def refusing(fd: int, count: int, at: int) -> bytes:
        raise OSError(errno.EIO, "planted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", refusing)
        assert wipe(fd, 50, 20_000) == 19_950
    assert not any(os.pread(fd, 20_000, 50))
    os.close(fd)
