"""The way to the controllers: who leads, requests to the leader, heartbeats to all (RULES
10.1, 10.4).

Responsible for: finding the leader by 1005, following a change at once, one kept connection to
every controller.
Refuses to know: what the requests mean, roles, command ids.

The kept connection is more than a convenience: its end is how controllers learn at once that a
broker is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from brokers.membership.controller_messages import metadata
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection, Handler

CALL_TIMEOUT_MS = 3_000
RESOLVE_TIMEOUT_MS = 1_000
RETRY_PAUSE_MS = 50
RECONNECT_PAUSE_MS = 200

_log = logging.getLogger("regent.broker.controllers")


class ControllerClient:
    """Talks to all controllers. `greeting()` gives the heartbeat that every new connection begins
    with, or None.
    """

    def __init__(
        self,
        addresses: Iterable[str],
        greeting: Callable[[], RemotingCommand | None],
        handler: Handler | None = None,
    ) -> None:
        self.addresses = list(dict.fromkeys(addresses))
        self.leader: str | None = None
        self._greeting = greeting
        self._lost: dict[str, asyncio.Event] = {}
        self._client = RemotingClient(handler, on_close=self._connection_closed)
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._resolving: asyncio.Task[str | None] | None = None
        self._closed = False

    def start(self) -> None:
        for address in self.addresses:
            self._keep(address)

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._keepers.values()) + ([self._resolving] if self._resolving else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def heartbeat(self, command: RemotingCommand) -> int:
        """Send to every controller that is connected; how many that were."""
        connections = [self._client.connection(address) for address in self._keepers]
        for connection in connections:
            if connection is not None:
                connection.send(command)
        return sum(connection is not None for connection in connections)

    async def ask(
        self, command: RemotingCommand, timeout_ms: int = CALL_TIMEOUT_MS
    ) -> RemotingCommand | None:
        """The leader's answer, None when there was none in time: then the outcome is unknown, never
        failed.

        The same command goes to the next leader when one fails on the way, so it must bear
        repetition.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while (left_ms := int((deadline - loop.time()) * 1000)) > 0:
            leader = self.leader or await self._resolve()
            if leader is not None:
                try:
                    answer = await self._client.call(leader, command, left_ms)
                except RemotingError as error:
                    _log.info("controller %s: %s", leader, error)
                else:
                    if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
                        return answer
                if self.leader == leader:
                    self.leader = None
            await asyncio.sleep(min(RETRY_PAUSE_MS, left_ms) / 1000)
        return None

    async def _resolve(self) -> str | None:
        if self._resolving is None or self._resolving.done():
            self._resolving = asyncio.ensure_future(self._find_leader())
        return await asyncio.shield(self._resolving)

    async def _find_leader(self) -> str | None:
        """Ask all at once: a controller that says it leads wins at once, else whoever the others
        name.
        """
        named: list[str] = []
        asked = [
            asyncio.ensure_future(self._metadata_of(address))
            for address in tuple(self._keepers) or self.addresses
        ]
        try:
            for answer in asyncio.as_completed(asked):
                ext = await answer
                address = ext.get("controllerLeaderAddress")
                if not address:
                    continue
                named.append(address)
                if ext.get("isLeader") == "true":
                    break
        finally:
            for task in asked:
                task.cancel()
        self.leader = named[-1] if named else None
        if self.leader is not None:
            # A leader outside the configured list must hear heartbeats as well (RULES 15,
            # row 16).
            self._keep(self.leader)
        return self.leader

    async def _metadata_of(self, address: str) -> dict[str, str]:
        try:
            answer = await self._client.call(address, metadata(), RESOLVE_TIMEOUT_MS)
        except RemotingError:
            return {}
        return answer.ext if answer.code == ResponseCode.SUCCESS else {}

    def _keep(self, address: str) -> None:
        if address not in self._keepers and not self._closed:
            self._keepers[address] = asyncio.ensure_future(self._keep_connected(address))

    async def _keep_connected(self, address: str) -> None:
        said = ""
        while True:
            lost = self._lost[address] = asyncio.Event()
            try:
                connection = await self._client.connect(address)
            except RemotingError as error:
                if said != (said := str(error)):  # once for each reason
                    _log.warning("a controller is not reached, and is tried again: %s", error)
                await asyncio.sleep(RECONNECT_PAUSE_MS / 1000)
                continue
            said = ""
            connection.attributes["controller"] = address
            greeting = self._greeting()
            if greeting is not None:
                connection.send(greeting)
            if not connection.closed:
                await lost.wait()
            if self.leader == address:
                self.leader = None
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    def _connection_closed(self, connection: Connection) -> None:
        lost = self._lost.get(str(connection.attributes.get("controller")))
        if lost is not None:
            lost.set()
