"""How many bytes a link moved in the last whole second, as `haStatus` shows it, and how many it
may.

Responsible for: counting by a clock it is given. Refuses to know: links, packets, directions.
"""

from __future__ import annotations

SECOND_MS = 1_000


class FlowMeter:
    """`add` what was moved, `per_second` what the second before the present one had."""

    def __init__(self) -> None:
        self._second = 0
        self._now = self._before = 0

    def add(self, count: int, now_ms: int) -> None:
        self._turn(now_ms)
        self._now += count

    def per_second(self, now_ms: int) -> int:
        self._turn(now_ms)
        return self._before

    def _turn(self, now_ms: int) -> None:
        second = now_ms // SECOND_MS
        if second != self._second:
            self._before = self._now if second == self._second + 1 else 0
            self._now, self._second = 0, second


# Unused allowance expires after this: a link that stood idle does not flood its slave.
BURST_MS = 100


class FlowLimit:
    """RocketMQ's haFlowControlEnable: `room` is what may be sent now, `take` what was."""

    def __init__(self, bytes_per_s: int, now_ms: int) -> None:
        self._bytes_per_s = bytes_per_s
        # In thousandths of a byte: what fills within a ms counts, however slow the link.
        self._room = self._burst = max(SECOND_MS, bytes_per_s * BURST_MS)
        self._filled_ms = now_ms

    def room(self, now_ms: int) -> int:
        self._room = min(self._burst, self._room + (now_ms - self._filled_ms) * self._bytes_per_s)
        self._filled_ms = now_ms
        return self._room // SECOND_MS

    def take(self, count: int) -> None:
        self._room -= count * SECOND_MS


# Of the bytes a master sends without hearing from its slave.
ACKS_PER_WINDOW = 4
ACK_AFTER_MS = 10


def is_ack_due(
    end_offset: int, acked: int, *, master_end: int, window_bytes: int, silent_ms: int
) -> bool:
    """`end_offset` of the slave's log, `acked` last, `master_end`: where the master's log ended
    when they met (bytes); `silent_ms`: since the slave wrote anything. A tick must not put it off:
    then `end_offset > acked` is enough.
    """
    unacked_bytes = end_offset - acked
    if unacked_bytes <= 0 or end_offset >= master_end:
        return unacked_bytes > 0
    return unacked_bytes >= window_bytes // ACKS_PER_WINDOW or silent_ms >= ACK_AFTER_MS


SILENT_HEARTBEATS = 3
LEAST_MS = 1_000
"""However fast the heart beats: a busy machine may need as long to run the master again."""


class Patience:
    """Told of what became of links and attempts."""

    def __init__(self, heartbeat_ms: int, longest_ms: int) -> None:
        """`heartbeat_ms`: how often this master speaks at least, as far as anybody knows;
        `longest_ms` is borne in no case.
        """
        self._longest_ms = longest_ms
        self._limit_ms = min(longest_ms, max(LEAST_MS, SILENT_HEARTBEATS * heartbeat_ms))
        self._left_silent = False

    @property
    def limit_ms(self) -> int:
        """The silence that ends a link made now. At the first attempt after a silence it is twice
        as long: a master that answers there was there all the while, its heart is slow.
        """
        return min(self._longest_ms, 2 * self._limit_ms) if self._left_silent else self._limit_ms

    def left_silent(self) -> None:
        """A link was given up for silence."""
        self._left_silent = True

    def unreachable(self) -> None:
        """An attempt failed, or nobody answered: the silence was a real one."""
        self._left_silent = False

    def answered(self) -> None:
        """The master agreed on a link: what is borne there stays."""
        self._limit_ms, self._left_silent = self.limit_ms, False
