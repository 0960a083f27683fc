"""What one start of a member tells history: broker events of its group (PROTOCOL 10.14).

Responsible for: under which names, how many, its begin and its end. Refuses to know: which effects
are told (`brokers/majority/quorum/history.py`), and how events leave (`brokers/reporting`).
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.clock import Clock
from brokers.process.majority.config import MemberConfig
from brokers.process.majority.member import OpenedFolder
from brokers.reporting.event_reporter import EventReporter

TOLD_PER_S, TOLD_AT_ONCE = 10, 100
"""Elections that never end must not fill the topic."""
_THOUSANDTHS = 1_000


class Limited:
    """`per_s` facts are let through every second, up to `at_once` after a rest."""

    def __init__(self, now_ms: int, per_s: int = TOLD_PER_S, at_once: int = TOLD_AT_ONCE) -> None:
        self._per_s, self._full = per_s, at_once * _THOUSANDTHS
        self._level, self._since_ms = self._full, now_ms

    def lets_through(self, now_ms: int) -> bool:
        """Whether one more may be told now; `now_ms` never falls."""
        gained = max(0, now_ms - self._since_ms) * self._per_s
        self._level, self._since_ms = min(self._full, self._level + gained), now_ms
        if self._level < _THOUSANDTHS:
            return False
        self._level -= _THOUSANDTHS
        return True


class GroupEvents:
    """The group stands for the broker set: one broker of each name has one log. Never blocks, never
    raises; without Kafka nothing is told.
    """

    def __init__(self, config: MemberConfig, incarnation: str, clock: Clock) -> None:
        self._clock = clock
        self._limit = Limited(clock.now_ms())
        self.reporter = EventReporter(
            config.kafka, config.cluster_name, config.group, incarnation, clock
        )
        self.reporter.broker_id = config.broker_id

    def started(self, opened: OpenedFolder) -> None:
        """What the start found."""
        self.reporter.start()
        found = opened.folder.found
        started = {
            "clean": opened.boot.clean,
            "recovered_end_offset": opened.folder.log.data.end_offset,
            "cut_bytes": found.cut_bytes,
        }
        self.reporter.report("BrokerStarted", started)

    def happened(self, kind: str, fields: Mapping[str, object]) -> None:
        """One fact, unless there were too many: then a gap in the numbers tells it."""
        if self._limit.lets_through(self._clock.now_ms()):
            self.reporter.report(kind, fields)
        else:
            self.reporter.leave_out(kind)

    async def stopped(self, reason: str) -> None:
        """The last word; what waits has a bounded time to leave."""
        self.reporter.report("BrokerStopped", {"reason": reason})
        await self.reporter.close()
