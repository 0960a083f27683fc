"""An acknowledgement that a producer may wait for is never put off."""

import pytest

from brokers.ha.ack_pace import is_ack_due

WINDOW = 16 << 20


@pytest.mark.parametrize(
    ("end", "acked", "silent_ms", "due"),
    [
        (500, 500, 99, False),  # nothing new
        (1000, 999, 0, True),  # all that the master had
        (1500, 1000, 0, True),  # newer than that
        (900, 100, 0, False),
        (900, 100, 10, True),
    ],
)
def test_at_once_where_somebody_may_wait(end: int, acked: int, silent_ms: int, due: bool) -> None:
    assert is_ack_due(end, acked, master_end=1000, window_bytes=WINDOW, silent_ms=silent_ms) is due


def test_a_master_that_stops_at_its_window_hears_of_it_in_time() -> None:
    for window in (4, 1000, WINDOW):
        assert is_ack_due(window // 4, 0, master_end=1 << 40, window_bytes=window, silent_ms=0)
        assert not is_ack_due(
            window // 4 - 1, 0, master_end=1 << 40, window_bytes=window, silent_ms=0
        )
