"""The kinds of refusal."""

import errno

from brokers.log.errors import DiskFull, LogError, is_unreadable


def test_a_full_disk_is_a_refusal_of_the_log_that_can_be_told_from_others() -> None:
    assert issubclass(DiskFull, LogError) and not isinstance(LogError("x"), DiskFull)


def test_a_sector_that_cannot_be_read_is_told_from_a_want_of_descriptors() -> None:
    assert is_unreadable(OSError(errno.EIO, "")) and not is_unreadable(OSError(errno.EMFILE, ""))
