"""The name server process: remoting in front of a RouteTable.

Responsible for: the requests of brokers and clients (PROTOCOL 4.1), brokers that leave together,
what follows from changes, start and stop.
Refuses to know: the rules of the table (routes.py), how a registration is written
(`nameserver.registration`), how a notice gets to its broker (`nameserver.notices`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence

from brokers.remoting import fastjson
from brokers.remoting.addresses import split_address
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.fields import BadField, number, text
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer
from events.last_resort import LastResort, on_stop_signals
from processors.nameserver.config import NameServerConfig
from processors.nameserver.departures import Departure, Departures, Why
from processors.nameserver.effects import Effect, MinIdChanged
from processors.nameserver.facts import Departed, SetFacts
from processors.nameserver.kept_files import NotKept
from processors.nameserver.notices import Notices
from processors.nameserver.operator_requests import OperatorRequests
from processors.nameserver.records import MASTER_ID, LiveBroker, TopicQueues, Verdict
from processors.nameserver.registration import (
    BadRegistration,
    KnownTables,
    decode_data_version,
    decode_registration,
)
from processors.nameserver.reporting import SetReporter, shown_address
from processors.nameserver.routes import RouteTable
from processors.process.controller import run_until

_log = logging.getLogger("regent.nameserver")
JAVA = "JAVA"
MASTER_WAIT_MS = 1_000
""" A Java slave has its new master's HA address from the answer to its registration alone, and asks
again after 10 s or more. Told of a new master, it may be here before that master is: its answer
waits this long for it.
"""
STOOD_STILL_MS = 500
"""A scan that comes so late says that this process was not running, and so heard nobody."""
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
        self._departures = Departures(config.departures_max)
        self._without_room = 0
        self._notices = Notices()
        name = shown_address(config.listen)
        self._facts = SetFacts(name)
        self._reporter = SetReporter(self._config.facts_kafka, name)
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
        await self._notices.close()
        await self._reporter.close()

    @property
    def port(self) -> int:
        return self._server.port

    # -- requests of brokers -----------------------------------------------------------------------

    def _register(self, connection: Connection, request: RemotingCommand) -> Answer:
        """103. It counts at once, before whatever else came over this connection."""
        try:
            registration = decode_registration(request, self._known_tables)
        except BadRegistration as error:
            _log.warning("registration from %s refused: %s", connection.peer, error)
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        running = self._operators.running
        result = self._table.register(
            registration,
            connection.id,
            _now_ms(),
            drops_absent=running.delete_topic_with_registration,
        )
        self._carry_out(result.effects)
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
        name = registration.broker_name
        if registration.broker_id == MASTER_ID:
            self._master_is_here(name)
            return request.reply(body=self._operators.order_table())
        if result.master_address is None and state_version > 0 and request.language == JAVA:
            return self._answer_with_master(request, name)
        return self._slave_answer(request, name)

    def _slave_answer(self, request: RemotingCommand, broker_name: str) -> RemotingCommand:
        master = self._table.master_of(broker_name)
        return request.reply(
            ext={}
            if master is None
            else {"haServerAddr": master.ha_address, "masterAddr": master.address},
            body=self._operators.order_table(),
        )

    def _master_is_here(self, broker_name: str) -> None:
        for waiter in self._masters_awaited.pop(broker_name, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def _answer_with_master(
        self, request: RemotingCommand, broker_name: str
    ) -> RemotingCommand:
        """Once the master is there, of a set whose controller has just elected it; or after a
        while.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._masters_awaited.setdefault(broker_name, set()).add(waiter)
        await asyncio.wait([waiter], timeout=MASTER_WAIT_MS / 1000)
        waiters = self._masters_awaited.get(broker_name, set())
        waiters.discard(waiter)
        if not waiters:
            self._masters_awaited.pop(broker_name, None)
        return self._slave_answer(request, broker_name)

    def _unregister(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """104. Answered before it is done."""
        try:
            name, address = text(request.ext, "brokerName"), text(request.ext, "brokerAddr")
            number(request.ext, "brokerId")
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        departure = self._table.said_goodbye(name, address, connection.id)
        if departure is not None and not self._leaves(departure):
            remark = "too many brokers leave at once, ask again"
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
        return request.reply()

    def _query_data_version(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """322."""
        ext = request.ext
        try:
            version = decode_data_version(request.body)
            cluster, address = text(ext, "clusterName"), text(ext, "brokerAddr")
        except (BadRegistration, BadField) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        changed, known = self._table.query_data_version(
            cluster, address, version, connection.id, _now_ms()
        )
        body = b"" if known is None else fastjson.dumps(known.to_wire())
        return request.reply(ext={"changed": "true" if changed else "false"}, body=body)

    def _heartbeat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """904."""
        try:
            cluster, address = text(request.ext, "clusterName"), text(request.ext, "brokerAddr")
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        self._table.heartbeat(cluster, address, connection.id, _now_ms())
        return request.reply()

    def _member_group(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """901."""
        try:
            cluster, name = text(request.ext, "clusterName"), text(request.ext, "brokerName")
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return request.reply(body=fastjson.dumps(self._table.member_group(cluster, name)))

    # -- requests of clients -----------------------------------------------------------------------

    def _route(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if _now_ms() < self._serves_from_ms:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark="name server not ready")
        topic, ext = request.ext.get("topic", ""), request.ext
        zone = ext.get("__ZONE_NAME") if ext.get("__ZONE_MODE", "").lower() == "true" else None
        acting = self._operators.running.support_acting_master
        route = self._table.route(topic, zone, acting_masters=acting)
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
        for departure in self._table.connection_closed(connection.id):
            self._leaves(departure)

    def _scan(self, due_ms: int | None = None) -> None:
        now_ms, interval_ms = _now_ms(), self._operators.running.scan_interval_ms
        late_ms = 0 if due_ms is None else now_ms - due_ms
        if late_ms > STOOD_STILL_MS:
            self._table.heard_nobody(late_ms, now_ms)
        self._scan_timer = asyncio.get_running_loop().call_later(
            interval_ms / 1000, self._scan, now_ms + interval_ms
        )
        shows = self._operators.running.support_acting_master
        self._reporter.report(self._facts.shown(now_ms, shows_acting=shows), now_ms)
        self._reporter.poll()
        for departure in self._table.overdue(now_ms):
            self._leaves(departure)

    def _leaves(self, departure: Departure) -> bool:
        """Soon, together with all who leave meanwhile. False: there is no room to wait."""
        if not self._departures.add(departure):
            self._without_room += 1
            return False
        if len(self._departures) == 1:
            asyncio.get_running_loop().call_soon(self._remove_all)
        return True

    def _remove_all(self) -> None:
        if self._without_room:
            _log.warning("no room for %d more brokers that leave at once", self._without_room)
            self._without_room = 0
        left = self._table.remove(self._departures.take())
        for broker, why in left.brokers:
            _log.info("%s left: %s", _described(broker), why.value)
        self._carry_out(left.effects, left.brokers)
        # The connection of a silent one goes too, so that a broker that lives after all notices and
        # registers again; not where another broker of the same process is heard.
        silent = {broker.connection_id for broker, why in left.brokers if why is Why.SILENT}
        silent -= {broker.connection_id for broker in self._table.brokers} if silent else set()
        for connection in self._server.connections if silent else ():
            if connection.id in silent:
                connection.close("the broker was silent for too long")

    def _carry_out(self, effects: Sequence[Effect], left: Departed = ()) -> None:
        running, now_ms = self._operators.running, _now_ms()
        facts = self._facts.after(
            effects,
            left,
            now_ms,
            shows_acting=running.support_acting_master,
            notifies=running.notify_min_broker_id_changed,
        )
        self._reporter.report(facts, now_ms)
        for effect in effects:
            if isinstance(effect, MinIdChanged):
                _log.info("the smallest id of %s is %d", effect.broker_name, effect.min_id)
                if running.notify_min_broker_id_changed:
                    self._notices.tell(effect)


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
