"""Tells brokers that the smallest id of their set is another one (905, PROTOCOL 4.20).

Responsible for: one way to each receiver, one notice after the other; that a receiver which does
not take them holds up nobody, and that what waits is bounded.
Refuses to know: who is to be told, and why.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from processors.nameserver.effects import MinIdChanged

SEND_TIMEOUT_MS = 3_000
"""For the connection and the notice: RocketMQ's 300 ms are short for a new connection."""
RECEIVERS_MAX = 1_000
NOTICES_PER_RECEIVER_MAX = 8
"""A broker asks for its set itself every second: only the newest notices are of use."""

_log = logging.getLogger("regent.nameserver")


class Notices:
    """`tell` returns at once; what is told is on its way or waits."""

    def __init__(self, timeout_ms: int = SEND_TIMEOUT_MS) -> None:
        self._client = RemotingClient(connect_timeout_ms=timeout_ms)
        self._timeout_ms = timeout_ms
        self._waiting: dict[str, deque[RemotingCommand]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._no_room = 0

    @property
    def no_room(self) -> int:
        """Notices that were not sent, since too many receivers are slow."""
        return self._no_room

    @property
    def waiting(self) -> int:
        """Receivers that are still to take what they are told."""
        return len(self._waiting)

    def tell(self, change: MinIdChanged) -> None:
        """To each of its receivers."""
        for address in change.receivers:
            waiting = self._waiting.get(address)
            if waiting is None:
                if len(self._waiting) >= RECEIVERS_MAX:
                    self._no_room += 1
                    _log.warning(
                        "%s is not told of the smallest id of %s: %d brokers are slow to take "
                        "notices",
                        address,
                        change.broker_name,
                        RECEIVERS_MAX,
                    )
                    continue
                waiting = self._waiting[address] = deque(maxlen=NOTICES_PER_RECEIVER_MAX)
                self._tasks[address] = asyncio.ensure_future(self._send_all(address, waiting))
            waiting.append(
                RemotingCommand.request(
                    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, change.notice(), oneway=True
                )
            )

    async def close(self) -> None:
        """What waits is dropped."""
        for task in self._tasks.values():
            task.cancel()
        await self._client.close()

    async def _send_all(self, address: str, waiting: deque[RemotingCommand]) -> None:
        try:
            while waiting:
                notice = waiting.popleft()
                try:
                    (await self._client.connect(address, self._timeout_ms)).send(notice)
                except RemotingError as error:
                    _log.info("not told of another smallest id: %s", error)
        finally:
            del self._waiting[address], self._tasks[address]
