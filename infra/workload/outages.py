"""Outages as a producer sees them: from the invocation of the first failed call to the first
success after it.

Takes times as arguments (ns, monotonic); refuses to know how calls are made.
"""

from __future__ import annotations

from dataclasses import dataclass

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage that is over. `rto_ms` is as the design's section 9 defines it."""

    started_wall_ms: int
    rto_ms: float
    failed_calls: int
    first_error: str
    address_before: str
    address_after: str


@dataclass(slots=True)
class _Open:
    invoked_ns: int
    invoked_wall_ms: int
    error: str
    address: str
    failed_calls: int = 1


class OutageMeter:
    """Feed it every call's result in the order the results came."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._succeeded_ns: int | None = None
        self._gap_ns = 0
        self.finished: list[Outage] = []

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def longest_gap_ms(self) -> float:
        """Between one call with code 0 and the next, whether calls failed meanwhile or were only
        late.
        """
        return self._gap_ns / NS_PER_MS

    def failed(self, invoked_ns: int, invoked_wall_ms: int, address: str, error: str) -> None:
        """A call without code 0. The earliest invocation among those that failed begins the
        outage.
        """
        if self._open is None:
            self._open = _Open(invoked_ns, invoked_wall_ms, error, address)
            return
        self._open.failed_calls += 1
        if invoked_ns < self._open.invoked_ns:
            self._open.invoked_ns, self._open.invoked_wall_ms = invoked_ns, invoked_wall_ms

    def succeeded(self, now_ns: int, address: str) -> Outage | None:
        """A call with code 0 was answered now; gives the outage that this ends."""
        if self._succeeded_ns is not None:
            self._gap_ns = max(self._gap_ns, now_ns - self._succeeded_ns)
        self._succeeded_ns = now_ns
        if self._open is None:
            return None
        was, self._open = self._open, None
        rto_ms = (now_ns - was.invoked_ns) / NS_PER_MS
        ended = Outage(
            was.invoked_wall_ms, round(rto_ms, 1), was.failed_calls, was.error, was.address, address
        )
        self.finished.append(ended)
        return ended
