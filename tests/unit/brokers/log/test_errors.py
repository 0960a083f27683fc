"""The kinds of refusal."""

from brokers.log.errors import DiskFull, LogError


def test_a_full_disk_is_a_refusal_of_the_log_that_can_be_told_from_others() -> None:
    assert issubclass(DiskFull, LogError) and not isinstance(LogError("x"), DiskFull)
