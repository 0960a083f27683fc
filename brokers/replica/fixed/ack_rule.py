"""What a send waits for in a set without controllers (PROTOCOL 2.12), as RocketMQ reckons it.

Responsible for: how many copies are needed, when a put is refused before it is written, how far the
log is acknowledged. Refuses to know: links, the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from brokers.replica.put_rules import NOT_ENOUGH

GAP_BYTES_MAX = 256 * 1024 * 1024
"""RocketMQ's haMaxGapNotInSync: a slave that lacks no more than this counts as in sync."""


@dataclass(frozen=True, slots=True)
class FixedAckRule:
    """Counts include the master. `waits`: SYNC_MASTER; an ASYNC_MASTER needs nobody.
    `counts_in_sync`: RocketMQ's enableSlaveActingMaster, with which puts are refused for want of
    replicas in sync, and `auto` takes as many as there are. Without it neither is looked at.
    """

    waits: bool = True
    in_sync: int = 2
    min_in_sync: int = 1
    auto: bool = False
    counts_in_sync: bool = False
    gap_bytes_max: int = GAP_BYTES_MAX

    def in_sync_count(self, log_end: int, acked: Iterable[int], alive: int | None) -> int:
        """Replicas in sync; `alive`: members that name servers know, None where nobody says."""
        near = 1 + sum(log_end - offset < self.gap_bytes_max for offset in acked)
        return near if alive is None else min(near, alive)

    def needed(self, in_sync_now: int) -> int:
        """Copies that a put waits for."""
        if not self.waits:
            return 1
        if self.counts_in_sync and self.auto:
            return max(min(self.in_sync, in_sync_now), self.min_in_sync)
        return self.in_sync

    def refusal(self, in_sync_now: int) -> str | None:
        """Why a put that waits is not even written; None when it may be tried."""
        needed = self.needed(in_sync_now)
        if not self.waits or not self.counts_in_sync or needed <= in_sync_now:
            return None
        return f"{NOT_ENOUGH}: {in_sync_now} of {needed}"

    def acknowledged(self, log_end: int, acked: Iterable[int], in_sync_now: int) -> int:
        """Below it every byte is on as many replicas as are needed; 0 when there are too few."""
        others = self.needed(in_sync_now) - 1
        if others <= 0:
            return log_end
        reports = sorted(acked, reverse=True)
        return min(log_end, reports[others - 1]) if len(reports) >= others else 0
