"""Reads beside the log's thread."""

from pathlib import Path

from brokers.store.log.side_reader import SideLog, side_read
from tests.support.descriptors import open_count
from tests.unit.brokers.store.log_samples import NOW_MS, message, small_store


def test_a_read_taken_before_its_file_went_still_gives_the_bytes(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(message(body=b"kept"), NOW_MS)
    size = store.log_end
    wanted = store.read_log(0, size)
    read = side_read(store.log, 0, size)
    store.close()
    assert read() == wanted


def test_outside_the_log_there_is_nothing(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    assert side_read(store.log, 0, 10)() == b""


def test_a_log_taken_along_is_read_by_the_names_of_its_files(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    ends = [store.put(message(body=b"x" * 500), NOW_MS).end_offset for _ in range(6)]
    before, side = open_count(tmp_path), SideLog(store.log)
    pieces = [(0, 100), (ends[0], 700), (1000, 5000), (ends[-1] - 10, 50), (ends[-1], 1), (-1, 5)]
    assert [side.read(at, count) for at, count in pieces] == [
        store.read_log(at, count) for at, count in pieces
    ]
    side.close()
    assert open_count(tmp_path) == before
    store.log.truncate(0)
    assert side.read(0, 10) == b""
    store.close()
