"""Silences of replicas that ended, as facts for the history.

Responsible for: which silence is worth a record, and what stands in it: with these, other timers
can be asked about afterwards. Refuses to know: what a silence led to; that is a command with its
own evidence.
"""

from __future__ import annotations

from events.broker_events import HeartbeatGap
from processors.liveness.fact_headers import FactHeaders
from processors.liveness.pulses import Heartbeat, Pulse
from processors.liveness.rate_limit import RateLimit

REPORTED_SHARE = (2, 5)
"""Silences above this share of the timeout are told: brokers whose interval is less than that fill
no log by living.
"""
TOLD_PER_S, TOLD_AT_ONCE = 1, 5
"""Of one replica: a timeout that is no timeout must not fill the topic."""


def is_worth_telling(gap_ms: int, timeout_ms: int) -> bool:
    """Whether a silence comes near the timeout, or is above it."""
    share, of = REPORTED_SHARE
    return timeout_ms > 0 and gap_ms * of > timeout_ms * share


class HeartbeatGaps:
    """What one start of a controller records of them."""

    def __init__(self, headers: FactHeaders) -> None:
        self._headers = headers
        self._told = RateLimit()

    def ended(
        self, before: Pulse | None, beat: Heartbeat, now_ms: int, wall_ms: int
    ) -> HeartbeatGap | None:
        """The fact that `beat` ended a silence, None when there was none to speak of; `before` is
        the pulse it ends.
        """
        if before is None:
            return None
        gap_ms = now_ms - before.heard_ms
        if not is_worth_telling(gap_ms, before.timeout_ms):
            return None
        if not self._told.take(str(beat.key), now_ms, rate_per_s=TOLD_PER_S, burst=TOLD_AT_ONCE):
            return None
        header = self._headers.next(beat.key, wall_ms)
        was_gone = before.gone is not None or gap_ms > before.timeout_ms
        return HeartbeatGap(
            header,
            beat.key[2],
            gap_ms,
            before.timeout_ms,
            was_gone,
            before.incarnation != beat.incarnation,
        )
