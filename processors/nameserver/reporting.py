"""Facts of a name server for `regent.broker-events` (PROTOCOL 4.20).

Responsible for: headers, how many facts of one set are told, the way to Kafka where one is
configured. Refuses to know: what the facts mean. Losing one changes no route, and telling one never
waits.
"""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Iterable, Mapping

from brokers.remoting.addresses import split_address
from events.broker_events import BROKER_EVENTS
from processors.liveness.fact_headers import NO_BROKER, FactHeaders
from processors.liveness.rate_limit import RateLimit
from processors.log.facts import FactReporter
from processors.nameserver.config import ANY_HOST
from processors.nameserver.facts import Fact

FACTS_PER_S, FACTS_AT_ONCE = 10, 100
"""Of one set: a broker that comes and goes must not fill the topic."""
_RECORDS = {record.__name__: record for record in BROKER_EVENTS}


def shown_address(listen: str) -> str:
    """Which name server it is, for people: of one that listens everywhere, its host's name."""
    host, port = split_address(listen)
    return f"{socket.gethostname() if host == ANY_HOST else host}:{port}"


class SetReporter:
    """`kafka` empty: nothing is told. `name_server`: its address, which names its start too."""

    def __init__(self, kafka: Mapping[str, str], name_server: str) -> None:
        self._reporter = FactReporter(kafka) if kafka else None
        self._headers = FactHeaders(f"{name_server}/{uuid.uuid4().hex[:8]}")
        self._told = RateLimit()

    def report(self, facts: Iterable[Fact], now_ms: int) -> None:
        """Queue them. Never blocks, never raises."""
        if self._reporter is None:
            return
        for fact in facts:
            name = fact.broker_name
            # A gap in the sequence tells that one was left out.
            key = (fact.cluster_name, name, NO_BROKER)
            header = self._headers.next(key, int(time.time() * 1000))
            if self._told.take(name, now_ms, rate_per_s=FACTS_PER_S, burst=FACTS_AT_ONCE):
                self._reporter.report(_RECORDS[fact.kind](header=header, **fact.fields))

    def poll(self) -> None:
        """To be called now and then: what came of what was told."""
        if self._reporter is not None:
            self._reporter.poll()

    async def close(self) -> None:
        """Give what is queued a bounded time to leave."""
        if self._reporter is not None:
            await asyncio.to_thread(self._reporter.close)
