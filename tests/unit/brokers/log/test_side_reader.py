"""Reads beside the log's thread."""

from pathlib import Path

from brokers.log.side_reader import side_read
from tests.unit.brokers.log.log_samples import NOW_MS, message, small_store


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
