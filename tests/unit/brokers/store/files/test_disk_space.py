"""Room that is kept back, and what is said when there is none."""

import errno
import re
from pathlib import Path

import pytest

from brokers.store.files.disk_space import (
    REFILL_FACTOR,
    Spare,
    full_disk_told,
    full_remark,
    used_ratio,
)
from brokers.store.files.errors import DiskFull
from tests.support.small_disk import small_disk

SIZE = 64 * 1024


def test_the_share_in_use_lies_between_nothing_and_all(tmp_path: Path) -> None:
    assert 0 < used_ratio(tmp_path) <= 1
    assert used_ratio(tmp_path / "none") == 0


def test_a_full_disk_is_told_in_the_words_of_the_other_kind(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert re.fullmatch(
        r"service not available now\. It may be caused by one of the following reasons: the "
        r"broker's disk is full"
        r" \[CL:  [01]\.\d\d CQ:  [01]\.\d\d INDEX:  [01]\.\d\d\], messages are put to the slave,"
        r" message store has been shut down, etc\.",
        full_remark(tmp_path),
    )


class Write:
    """Fails so many times, then does."""

    def __init__(self, failures: int, code: int = errno.ENOSPC) -> None:
        self.failures, self.code, self.calls = failures, code, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise OSError(self.code, "planted")
        return "done"


def test_the_spare_is_given_up_only_for_want_of_room(tmp_path: Path) -> None:
    spare = Spare(tmp_path, SIZE)
    assert spare.refill() and (tmp_path / "spare").stat().st_size == SIZE
    with pytest.raises(OSError, match="planted"):
        spare.run(Write(1, errno.EIO))
    assert spare.run(Write(0)) == "done" and (tmp_path / "spare").exists()
    assert spare.run(Write(1)) == "done" and not (tmp_path / "spare").exists()
    with pytest.raises(OSError, match="planted"):  # none is left to give up
        spare.run(Write(1))


def test_a_write_that_still_finds_no_room_fails_as_it_did(tmp_path: Path) -> None:
    spare, write = Spare(tmp_path, SIZE), Write(2)
    spare.refill()
    with pytest.raises(OSError, match="planted"):
        spare.run(write)
    assert write.calls == 2


def test_on_a_full_disk_the_spare_is_what_lets_a_file_be_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        spare = Spare(disk.root, SIZE)
        assert spare.refill()
        disk.fill()
        target = disk.root / "file"
        with pytest.raises(OSError, match="No space left"):
            target.write_bytes(b"x" * 4096)
        spare.run(lambda: target.write_bytes(b"x" * 4096))
        assert target.read_bytes() == b"x" * 4096
        assert not spare.refill()
        disk.fill(left=(REFILL_FACTOR + 1) * SIZE)
        assert spare.refill()


def test_want_of_room_is_told_as_such_and_nothing_else_is() -> None:
    with (
        pytest.raises(DiskFull, match=("the log cannot be cut: planted")),
        full_disk_told("the log cannot be cut"),
    ):
        raise OSError(errno.ENOSPC, "planted")
    with pytest.raises(OSError, match="planted"), full_disk_told("the log cannot be cut"):
        raise OSError(errno.EIO, "planted")
