"""The way to the name servers: this broker's place in the routes (PROTOCOL
4.1).

Responsible for: registering at every name server over a kept connection, every period and at once
on a change, again after a lost connection; unregistering at the end; passing on which master the
answers name.
Refuses to know: roles and topics, which it is given; what becomes of the master it hears of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.tables.table_text import TableText

CALL_TIMEOUT_MS = 3_000
RETRY_PAUSE_MS = 200

_log = logging.getLogger("regent.broker.nameservers")


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """What is registered at a name server: the master has id 0, slaves their controller id."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    timeout_ms: int
    topics: TableText


def register_request(entry: RouteEntry) -> RemotingCommand:
    """103, with the whole topic table."""
    ext = _ext(entry) | {
        "haServerAddr": entry.ha_address,
        "heartbeatTimeoutMillis": str(entry.timeout_ms),
        "compressed": "false",
        "bodyCrc32": "0",
    }
    version = entry.topics.version
    body = _REGISTER_BODY % (version, version, entry.topics.topics)
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, ext, body)


_REGISTER_BODY = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":%b,"mappingDataVersion":'
    b'%b,"topicConfigTable":%b,'
    b'"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
)


def unregister_request(entry: RouteEntry) -> RemotingCommand:
    """104."""
    return RemotingCommand.request(RequestCode.UNREGISTER_BROKER, _ext(entry))


def _ext(entry: RouteEntry) -> dict[str, str]:
    return {
        "clusterName": entry.cluster_name,
        "brokerName": entry.broker_name,
        "brokerId": str(entry.broker_id),
        "brokerAddr": entry.address,
    }


class _Session:
    """One name server: `wanted` counts the registrations asked for, `tried` and `done` how far they
    got.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.wanted = self.tried = self.done = 0
        self.due = asyncio.Event()
        self.moved = asyncio.Event()


class NameServers:
    """All name servers. `entry()` gives what to register now, None while this broker has no place
    in the routes.
    """

    def __init__(
        self, addresses: Iterable[str], entry: Callable[[], RouteEntry | None], period_ms: int
    ) -> None:
        self._entry = entry
        self._on_master: Callable[[str, str], None] = lambda address, ha_address: None
        self._period_ms = period_ms
        self._sessions = {address: _Session(address) for address in addresses}
        self._client = RemotingClient(on_close=self._connection_closed)
        self._tasks: list[asyncio.Task[None]] = []

    def tell_of_masters(self, on_master: Callable[[str, str], None]) -> None:
        """`on_master(address, HA address)` hears of the master that a slave's answer names."""
        self._on_master = on_master

    def start(self) -> None:
        self._tasks = [
            asyncio.ensure_future(self._run(session)) for session in self._sessions.values()
        ]

    def changed(self) -> None:
        """Register what is true now, at every name server, without waiting."""
        for session in self._sessions.values():
            session.wanted += 1
            session.due.set()

    async def register(self, timeout_ms: int = CALL_TIMEOUT_MS) -> int:
        """Register what is true now; returns how many took it, once every name server took it or
        was tried in vain.
        """
        targets = {session: session.wanted + 1 for session in self._sessions.values()}
        self.changed()
        waits = [self._until_tried(session, target) for session, target in targets.items()]
        await asyncio.wait(
            [asyncio.ensure_future(self._bounded(wait, timeout_ms)) for wait in waits]
        ) if waits else None
        return sum(session.done >= target for session, target in targets.items())

    async def close(self, last: RouteEntry | None) -> None:
        """Stop; with `last`, leave the routes of every name server that is connected."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if last is not None:
            await asyncio.gather(*(self._unregister(address, last) for address in self._sessions))
        await self._client.close()

    async def _unregister(self, address: str, last: RouteEntry) -> None:
        if self._client.connection(address) is None:
            return
        try:
            await self._client.call(address, unregister_request(last), CALL_TIMEOUT_MS // 3)
        except RemotingError as error:
            _log.info("unregistering at %s: %s", address, error)

    async def _bounded(self, wait: asyncio.Future[None] | object, timeout_ms: int) -> None:
        try:
            await asyncio.wait_for(wait, timeout_ms / 1000)  # type: ignore[arg-type]
        except TimeoutError:
            return

    async def _until_tried(self, session: _Session, target: int) -> None:
        while session.tried < target:
            session.moved.clear()
            await session.moved.wait()

    async def _run(self, session: _Session) -> None:
        while True:
            pause_ms = self._period_ms if await self._attempt(session) else RETRY_PAUSE_MS
            try:
                await asyncio.wait_for(session.due.wait(), pause_ms / 1000)
            except TimeoutError:
                session.wanted += 1

    async def _attempt(self, session: _Session) -> bool:
        session.due.clear()
        generation, entry = session.wanted, self._entry()
        taken = entry is not None and await self._register_at(session.address, entry)
        session.tried = generation
        if taken:
            session.done = generation
        session.moved.set()
        # Without a place in the routes there is nothing to repeat until something changes.
        return taken or entry is None

    async def _register_at(self, address: str, entry: RouteEntry) -> bool:
        try:
            connection = await self._client.connect(address)
            connection.attributes["name_server"] = address
            answer = await connection.call(register_request(entry), CALL_TIMEOUT_MS)
        except (RemotingError, ValueError) as error:  # ValueError: more than one frame holds
            _log.info("registering at %s: %s", address, error)
            return False
        if answer.code != ResponseCode.SUCCESS:
            _log.warning(
                "name server %s refused the registration: %s %s",
                address,
                answer.code,
                answer.remark,
            )
            return False
        master, ha_address = answer.ext.get("masterAddr"), answer.ext.get("haServerAddr")
        if master and ha_address:
            self._on_master(master, ha_address)
        return True

    def _connection_closed(self, connection: Connection) -> None:
        session = self._sessions.get(str(connection.attributes.get("name_server")))
        if session is not None:
            # The name server forgot this broker with the connection.
            session.wanted += 1
            session.due.set()
