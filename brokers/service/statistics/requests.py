"""Serving statistics: 315 (PROTOCOL 4.16).

Refuses to know: what is counted.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.clock import Clock
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import reading_fields, text
from brokers.service.role.services import Served, Service
from brokers.service.statistics.counters import SECOND_MS, Statistics

DAY_MS = 86_400_000


class StatisticsRequests(Service):
    """Samples the counters as time goes on, and tells them. `timed()`: messages that went into the
    timer wheel and came out of it.
    """

    def __init__(
        self, statistics: Statistics, clock: Clock, timed: Callable[[], tuple[int, int]]
    ) -> None:
        self._timed = timed
        self._statistics = statistics
        self._clock = clock
        self._next_ms = 0

    def serves(self) -> dict[int, Served]:
        """Every replica counts what it does itself."""
        return {RequestCode.VIEW_BROKER_STATS_DATA: Served(reading_fields(self._view))}

    def tick(self, now_ms: int) -> None:
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + SECOND_MS
            self._statistics.sample(now_ms, self._clock.wall_ms() // DAY_MS, self._timed())

    def _view(self, request: RemotingCommand) -> RemotingCommand:
        name, key = text(request.ext, "statsName"), text(request.ext, "statsKey")
        found = self._statistics.view(name, key)
        if found is None:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=f"The stats <{name}> <{key}> not exist"
            )
        return request.reply(body=fastjson.dumps(found))
