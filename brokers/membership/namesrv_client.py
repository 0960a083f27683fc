"""The way to the name servers: this broker's place in the routes (PROTOCOL
4.1).

Responsible for: registering at every name server over a kept connection, every period and at once
on a change, again after a lost connection; giving up a master's place only for another master;
unregistering at the end; passing on which master the answers name.
Refuses to know: roles and topics, which it is given; what becomes of the master it hears of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from brokers.acting.targets import Route, read_address, read_route
from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.tables.table_text import TableText
from brokers.service.tables.topics import PERM_READ

CALL_TIMEOUT_MS = 3_000
RETRY_PAUSE_MS = 200
MASTER_ID = 0
REPLACED_WITHIN_MS, REPLACED_LOOK_MS = 5_000, 50
UNTOLD_MS = 300
"""A name server of RocketMQ 4 does not tell who is registered: another master is there by then."""

_log = logging.getLogger("regent.broker.nameservers")


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """What is registered at a name server: the master has id 0, slaves their controller id.
    `acting_master`: RocketMQ's enableSlaveActingMaster.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    timeout_ms: int
    topics: TableText
    acting_master: bool = False


def register_request(entry: RouteEntry) -> RemotingCommand:
    """103, with the whole topic table."""
    ext = _ext(entry) | {
        "haServerAddr": entry.ha_address,
        "heartbeatTimeoutMillis": str(entry.timeout_ms),
        "compressed": "false",
        "bodyCrc32": "0",
    }
    if entry.acting_master:
        ext["enableActingMaster"] = "true"
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


def _readable_queues(route: object) -> dict[str, int]:
    """Of a 105's body. ValueError: it is none."""
    listed = route.get("queueDatas") if isinstance(route, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no route")
    found = {}
    for queues in listed:
        name, count, perm = (
            (queues.get(key) for key in ("brokerName", "readQueueNums", "perm"))
            if isinstance(queues, dict)
            else (None, None, None)
        )
        if not isinstance(name, str) or type(count) is not int or type(perm) is not int:
            raise ValueError("a route without names or queues")
        if perm & PERM_READ and count > 0:
            found[name] = count
    return found


def _ordered_topics(body: bytes) -> list[str]:
    """Of an answer to 103; none where it is not understood."""
    try:
        fields = fastjson.loads(body, fastjson.TABLE_BYTES_MAX)
    except ValueError as error:
        _log.warning("what a name server says of ordered topics: %s", error)
        return []
    table = fields.get("table") if isinstance(fields, dict) else None
    return [str(topic) for topic in table] if isinstance(table, dict) else []


def _ext(entry: RouteEntry) -> dict[str, str]:
    return {
        "clusterName": entry.cluster_name,
        "brokerName": entry.broker_name,
        "brokerId": str(entry.broker_id),
        "brokerAddr": entry.address,
    }


class _Session:
    """One name server: `wanted` counts the registrations asked for, `tried` and `done` how far they
    got. `led`: this broker stands there as the master; `left`: it was taken away for good.
    `over_at`: when it began to wait there for another master, s of the loop.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.wanted = self.tried = self.done = 0
        self.led = self.left = False
        self.over_at: float | None = None
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
        self._leaving = False
        self._on_master: Callable[[str, str], None] = lambda address, ha_address: None
        self._on_ordered: Callable[[Iterable[str]], None] = lambda topics: None
        self._period_ms = period_ms
        self._sessions = {address: _Session(address) for address in addresses}
        self._client = RemotingClient(on_close=self._connection_closed)
        self._tasks: list[asyncio.Task[None]] = []
        self._silent: dict[str, str] = {}

    def tell_of_masters(self, on_master: Callable[[str, str], None]) -> None:
        """`on_master(address, HA address)` hears of the master that a slave's answer names."""
        self._on_master = on_master

    def tell_of_order(self, on_ordered: Callable[[Iterable[str]], None]) -> None:
        """`on_ordered(topics)` hears which topics an answer says are read in order."""
        self._on_ordered = on_ordered

    def start(self) -> None:
        self._tasks = [
            asyncio.ensure_future(self._run(session)) for session in self._sessions.values()
        ]

    def changed(self) -> None:
        """Register what is true now, at every name server, without waiting."""
        for session in self._sessions.values():
            session.wanted += 1
            session.due.set()

    def leave(self) -> None:
        """This broker stops: it has a place in the routes as a master only. Does not wait."""
        self._leaving = True
        self.changed()

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

    async def masters_of(self, topic: str, own_name: str) -> Route | None:
        """Masters of other sets that take a topic, of the first name server that knows some. None
        when no name server answers.
        """
        told: Route | None = None
        for address in self._sessions:
            try:
                route = read_route(await self._route_at(address, topic), own_name)
            except (RemotingError, ValueError) as error:
                _log.info("masters of %s at %s: %s", topic, address, error)
                continue
            if route.queues:
                return route
            told = route
        return told

    async def address_of(self, topic: str, broker_name: str) -> str | None:
        """Where messages of a topic of that set can be read now; None: no name server says."""
        for address in self._sessions:
            try:
                found = read_address(await self._route_at(address, topic), broker_name)
            except (RemotingError, ValueError) as error:
                _log.info("the set %s at %s: %s", broker_name, address, error)
                continue
            if found is not None:
                return found
        return None

    async def _route_at(self, address: str, topic: str) -> RemotingCommand:
        ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
        ask = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
        return await self._client.call(address, ask, CALL_TIMEOUT_MS // 3)

    async def readable_queues(self, topic: str) -> dict[str, int] | None:
        """Broker name to its queues of a topic that may be read; {}: the topic has no route. None
        when no name server answers.
        """
        for address in self._sessions:
            try:
                answer = await self._route_at(address, topic)
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    return {}
                if answer.code == ResponseCode.SUCCESS:
                    return _readable_queues(fastjson.loads(answer.body))
            except (RemotingError, ValueError) as error:
                _log.info("the route of %s at %s: %s", topic, address, error)
        return None

    async def ask(self, address: str, request: RemotingCommand) -> RemotingCommand:
        """What one name server answers. RemotingError."""
        return await self._client.call(address, request, CALL_TIMEOUT_MS)

    async def tell(self, address: str, request: RemotingCommand) -> None:
        """One-way, to one name server; who is not reached is not told."""
        try:
            await self._client.send_oneway(address, request)
        except RemotingError as error:
            self._note_silent(address, str(error))

    async def stop(self) -> None:
        """Tell nothing more. The place in the routes stays as long as the connections do."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self, last: RouteEntry | None = None) -> None:
        """Stop; with `last`, leave the routes of every name server that is connected."""
        await self.stop()
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
            pause_ms = await self._attempt(session)
            try:
                await asyncio.wait_for(session.due.wait(), pause_ms / 1000)
            except TimeoutError:
                session.wanted += 1

    async def _attempt(self, session: _Session) -> int:
        """How long to wait for the next one, in ms."""
        session.due.clear()
        generation, entry = session.wanted, self._entry()
        leads = entry is not None and entry.broker_id == MASTER_ID
        taken, pause_ms = False, RETRY_PAUSE_MS
        if (
            entry is not None
            and session.led
            and not leads
            and not await self._replaced(session, entry)
        ):
            pause_ms = REPLACED_LOOK_MS
        elif entry is not None and self._leaving and not leads:
            if not session.left:
                await self._unregister(session.address, entry)
            session.led, session.left = False, True
            pause_ms = self._period_ms
        elif entry is not None:
            taken = await self._register_at(session.address, entry)
            if taken:
                session.led, session.left = leads, False
                session.over_at = None
        session.tried = generation
        if taken:
            session.done = generation
        session.moved.set()
        # Without a place in the routes there is nothing to repeat until something changes.
        return self._period_ms if taken or entry is None else pause_ms

    async def _replaced(self, session: _Session, entry: RouteEntry) -> bool:
        """Whether another master stands there by now. A route without one fails sends, and a Go
        client that reads one has no address before it reads the next, half a minute later; this
        broker passes on what still comes.
        """
        now = asyncio.get_running_loop().time()
        if session.over_at is None:
            session.over_at = now
        waited_ms = (now - session.over_at) * 1000
        if waited_ms >= REPLACED_WITHIN_MS:
            return True
        try:
            master = await self._master_at(session.address, entry)
        except (RemotingError, ValueError) as error:
            _log.info("who is registered at %s: %s", session.address, error)
            return waited_ms >= UNTOLD_MS
        return master != entry.address

    async def _master_at(self, address: str, entry: RouteEntry) -> str | None:
        """The master's address there, None without one. RemotingError, ValueError: not told."""
        ext = {"clusterName": entry.cluster_name, "brokerName": entry.broker_name}
        answer = await self._client.call(
            address,
            RemotingCommand.request(RequestCode.GET_BROKER_MEMBER_GROUP, ext),
            CALL_TIMEOUT_MS // 3,
        )
        if answer.code != ResponseCode.SUCCESS:
            raise ValueError(answer.remark or f"code {answer.code}")
        body = fastjson.loads(answer.body)
        group = body.get("brokerMemberGroup") if isinstance(body, dict) else None
        addresses = group.get("brokerAddrs") if isinstance(group, dict) else None
        found = addresses.get(str(MASTER_ID)) if isinstance(addresses, dict) else None
        return found if isinstance(found, str) else None

    async def _register_at(self, address: str, entry: RouteEntry) -> bool:
        try:
            connection = await self._client.connect(address)
            connection.attributes["name_server"] = address
            answer = await connection.call(register_request(entry), CALL_TIMEOUT_MS)
        except (RemotingError, ValueError) as error:  # ValueError: more than one frame holds
            self._note_silent(address, str(error))
            return False
        if self._silent.pop(address, None) is not None:
            _log.info("name server %s is reached again", address)
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
        if answer.body:
            self._on_ordered(_ordered_topics(answer.body))
        return True

    def _note_silent(self, address: str, why: str) -> None:
        """Once for each reason: it is asked several times a second for as long as it is away."""
        if self._silent.get(address) != why:
            self._silent[address] = why
            _log.info("name server %s is not reached, and is tried again: %s", address, why)

    def _connection_closed(self, connection: Connection) -> None:
        session = self._sessions.get(str(connection.attributes.get("name_server")))
        if session is not None:
            # The name server forgot this broker with the connection.
            session.wanted += 1
            session.due.set()
