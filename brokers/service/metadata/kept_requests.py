"""Serving the tables that are kept for Java's services: 45, 402, 60, 61
(PROTOCOL 2.11).

Responsible for: these answers. Refuses to know: what the tables hold.
"""

from __future__ import annotations

from brokers.clock import Clock
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.role.services import Served, Service, Where
from brokers.service.tables.kept_for_java import KeptFiles
from brokers.store.store import MessageStore


class KeptRequests(Service):
    """Asked by slaves every few seconds, answered from memory."""

    def __init__(self, kept: KeptFiles, store: MessageStore, clock: Clock) -> None:
        self._kept = kept
        self._store = store
        self._clock = clock

    def serves(self) -> dict[int, Served]:
        return dict.fromkeys(self._kept.codes, Served(self._dump, Where.TABLE))

    def _dump(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        oldest_ms = self._store.log.store_ms_at(self._store.log_min) or self._clock.wall_ms()
        return request.reply(body=self._kept.body(request.code, oldest_ms))
