"""The name server process: remoting in front of a RouteTable.

Responsible for: the requests of PROTOCOL 4.1 that Regent serves, expiry, start
and stop.
Refuses to know: the rules of the table (routes.py) and how a registration is written
(`nameserver.registration`).
"""

from __future__ import annotations

import asyncio
import logging
import os

from brokers.remoting import fastjson
from brokers.remoting.addresses import split_address
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer
from events.last_resort import LastResort, on_stop_signals
from processors.nameserver.config import NameServerConfig
from processors.nameserver.kept_files import NotKept
from processors.nameserver.operator_requests import OperatorRequests
from processors.nameserver.records import LiveBroker, TopicQueues, Verdict
from processors.nameserver.registration import (
    BadRegistration,
    KnownTables,
    decode_data_version,
    decode_registration,
)
from processors.nameserver.routes import MASTER_ID, RouteTable
from processors.process.controller import run_until

_log = logging.getLogger("regent.nameserver")
JAVA = "JAVA"
MASTER_WAIT_MS = 1_000
""" A Java slave has its new master's HA address from the answer to its registration alone, and asks
again after 10 s or more. Told of a new master, it may be here before that master is: its answer
waits this long for it.
"""
_FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class NameServer:
    """Serves one RouteTable on one address."""

    def __init__(self, config: NameServerConfig) -> None:
        self._config = config
        self._table = RouteTable()
        self._operators = OperatorRequests(config, self._table)
        config = self._operators.start_with
        self._serves_from_ms = 0
        self._known_tables: KnownTables[dict[str, TopicQueues]] = KnownTables()
        host, port = split_address(config.listen)
        self._server = RemotingServer(
            self._dispatcher(),
            host=host,
            port=port,
            on_close=self._connection_closed,
            idle_timeout_ms=config.idle_timeout_ms,
            limits=Limits(
                partial_frame_ms=config.partial_frame_timeout_ms, connections=config.connections_max
            ),
        )
        self._scan_timer: asyncio.TimerHandle | None = None
        self._masters_awaited: dict[str, set[asyncio.Future[None]]] = {}

    def _dispatcher(self) -> Dispatcher:
        return Dispatcher(
            {
                RequestCode.REGISTER_BROKER: self._register,
                RequestCode.UNREGISTER_BROKER: self._unregister,
                RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
                RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
                RequestCode.QUERY_DATA_VERSION: self._query_data_version,
                RequestCode.BROKER_HEARTBEAT: self._heartbeat,
                RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
                RequestCode.REGENT_PROCESS_STATUS: self._status,
                **self._operators.handlers(),
            }
        )

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be bound."""
        await self._server.start()
        config = self._operators.start_with
        if config.need_wait_for_service:
            self._serves_from_ms = _now_ms() + config.wait_for_service_s * 1_000
        self._scan()

    async def close(self) -> None:
        if self._scan_timer is not None:
            self._scan_timer.cancel()
        await self._server.close()

    @property
    def port(self) -> int:
        return self._server.port

    # -- requests of brokers -----------------------------------------------------------------------

    async def _register(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        try:
            registration = decode_registration(request, self._known_tables)
        except BadRegistration as error:
            _log.warning("registration from %s refused: %s", connection.peer, error)
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        result = self._table.register(registration, connection.id, _now_ms())
        who = f"{registration.broker_name}:{registration.broker_id} at {registration.address}"
        if result.verdict in (Verdict.SINGLE_TOPIC, Verdict.TABLE_FULL):
            _log.warning("registration of %s refused: %s", who, result.verdict.value)
            return request.reply(ResponseCode.SYSTEM_ERROR, remark="register broker failed")
        state_version = registration.version.state_version
        _log.debug(
            "registration of %s, state version %d: %s", who, state_version, result.verdict.value
        )
        if result.verdict is not Verdict.ACCEPTED:
            return request.reply()
        orders = self._operators.order_table()
        if registration.broker_id == MASTER_ID:
            self._master_is_here(registration.broker_name)
            return request.reply(body=orders)
        if result.master_address is None and state_version > 0 and request.language == JAVA:
            await self._master_comes(registration.broker_name)
        master = self._table.master_of(registration.broker_name)
        return request.reply(
            ext={}
            if master is None
            else {"haServerAddr": master.ha_address, "masterAddr": master.address},
            body=orders,
        )

    def _master_is_here(self, broker_name: str) -> None:
        for waiter in self._masters_awaited.pop(broker_name, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def _master_comes(self, broker_name: str) -> None:
        """Wait a while for the master of a set whose controller has just elected it."""
        waiter = asyncio.get_running_loop().create_future()
        self._masters_awaited.setdefault(broker_name, set()).add(waiter)
        await asyncio.wait([waiter], timeout=MASTER_WAIT_MS / 1000)
        waiters = self._masters_awaited.get(broker_name, set())
        waiters.discard(waiter)
        if not waiters:
            self._masters_awaited.pop(broker_name, None)

    def _unregister(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        name, address = request.ext.get("brokerName", ""), request.ext.get("brokerAddr", "")
        if self._table.unregister(name, address):
            _log.info("%s at %s unregistered", name, address)
        return request.reply()

    def _query_data_version(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        version = decode_data_version(request.body)
        changed, known = self._table.query_data_version(
            request.ext.get("brokerAddr", ""), version, _now_ms()
        )
        body = b"" if known is None else fastjson.dumps(known.to_wire())
        return request.reply(ext={"changed": "true" if changed else "false"}, body=body)

    def _heartbeat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self._table.heartbeat(request.ext.get("brokerAddr", ""), _now_ms())
        return request.reply()

    def _member_group(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        group = self._table.member_group(
            request.ext.get("clusterName", ""), request.ext.get("brokerName", "")
        )
        return request.reply(body=fastjson.dumps(group))

    # -- requests of clients -----------------------------------------------------------------------

    def _route(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if _now_ms() < self._serves_from_ms:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark="name server not ready")
        topic, ext = request.ext.get("topic", ""), request.ext
        zone = ext.get("__ZONE_NAME") if ext.get("__ZONE_MODE", "").lower() == "true" else None
        route = self._table.route(topic, zone)
        if route is None:
            remark = f"No topic route info in name server for the topic: {topic}\n{_FAQ}"
            return request.reply(ResponseCode.TOPIC_NOT_EXIST, remark=remark)
        return request.reply(
            body=fastjson.dumps({**route, "orderTopicConf": self._operators.order_of(topic)})
        )

    def _cluster_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.reply(body=fastjson.dumps(self._table.cluster_info()))

    def _status(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        status = {
            "ready": True,
            "kind": "namesrv",
            "pid": os.getpid(),
            "listen": f"{split_address(self._config.listen)[0]}:{self.port}",
            "brokers": len(self._table.brokers),
            "topics": len(self._table.topics),
            "controller": self._config.embedded.advertised
            if self._config.embedded is not None
            else None,
        }
        return request.reply(body=fastjson.dumps(status))

    # -- brokers that leave ------------------------------------------------------------------------

    def _connection_closed(self, connection: Connection) -> None:
        for broker in self._table.connection_closed(connection.id):
            _log.info("%s left: %s", _described(broker), connection.close_reason)

    def _scan(self) -> None:
        loop = asyncio.get_running_loop()
        self._scan_timer = loop.call_later(
            self._operators.running.scan_interval_ms / 1000, self._scan
        )
        expired = self._table.expire(_now_ms())
        # Its connection goes too, so that a broker that lives after all notices and registers
        # again.
        silent = {broker.connection_id for broker in expired}
        for broker in expired:
            _log.info("%s left: silent for more than %d ms", _described(broker), broker.timeout_ms)
        for connection in self._server.connections:
            if connection.id in silent:
                connection.close("the broker was silent for too long")


def _described(broker: LiveBroker) -> str:
    return f"{broker.broker_name}:{broker.broker_id} at {broker.address}"


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


async def run(config: NameServerConfig) -> int:
    """Serve until SIGTERM or SIGINT. The exit code: 0 after a clean stop, 71 when that hangs, 1
    when the address cannot be bound or the data folder be read.

    With a controller inside both stop together, and the process ends with the controller's code
    when that cannot go on (70: halted): one process, one fate, seen by its supervisor. While Kafka
    is away only the controller waits.
    """
    try:
        server = NameServer(config)
    except NotKept as error:
        _log.error("%s", error)
        return 1
    stop = asyncio.Event()
    on_stop_signals(stop.set, LastResort("the name server"))
    try:
        await server.start()
    except OSError as error:
        _log.error(
            "cannot listen on %s: %s; choose another listen", config.listen, error.strerror or error
        )
        return 1
    _log.info("name server listens on %s", config.listen)
    try:
        if config.embedded is not None:
            return await run_until(config.embedded, stop)
        await stop.wait()
        return 0
    finally:
        await server.close()
