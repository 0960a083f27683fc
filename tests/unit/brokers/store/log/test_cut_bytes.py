"""What a start cuts off is kept, within bounds."""

import errno
from pathlib import Path

import pytest

from brokers.store.log import cut_bytes
from brokers.store.log.cut_bytes import FILES_MAX, FOLDER_NAME, keep

LOG = bytes(range(256)) * 40


def read(offset: int, count: int) -> bytes:
    return LOG[offset : min(offset + count, offset - offset % 4096 + 4096)]


def test_the_bytes_are_kept_over_the_borders_of_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = keep(tmp_path, read, 4000, 9000)
    assert path is not None and path.read_bytes() == LOG[4000:9000]
    assert str(path) in caplog.text and "5000 bytes" in caplog.text


def test_no_more_than_the_newest_are_kept_and_of_each_the_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_bytes, "BYTES_MAX", 100)
    kept = [keep(tmp_path, read, first % 2, 5000) for first in range(FILES_MAX + 3)]
    assert sorted((tmp_path / FOLDER_NAME).iterdir()) == sorted(
        path for path in kept[3:] if path is not None
    )
    assert all(path.stat().st_size == 100 for path in (tmp_path / FOLDER_NAME).iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_start_goes_on_when_nothing_can_be_kept(
    tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(offset: int, count: int) -> bytes:
        raise OSError(number, "refused")

    assert keep(tmp_path, refuse, 0, 10) is None
    assert "refused" in caplog.text
