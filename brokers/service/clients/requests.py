"""Serving clients as such: 34, 35, 38, 40, 46 (PROTOCOL 4.4).

Responsible for: recording clients and their subscriptions, telling groups that they changed.
Refuses to know: messages, offsets, who is master: every replica records the clients that greet it,
so that a new master knows them (what it was not told itself it copied: `known_clients`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from brokers.clock import Clock
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.clients import heartbeat as client_heartbeat
from brokers.service.clients.groups import ClientGroups
from brokers.service.clients.heartbeat import ConsumerData
from brokers.service.clients.wanted import FilterRefused, Filters
from brokers.service.role.services import Served, Service

CLIENT_IDS = "client_ids"
# Of clients that share a connection, as those of a proxy do; a reply to others does not find them.
IDS_PER_CONNECTION_MAX = 1_000

_log = logging.getLogger("regent.broker.clients")

EXPIRE_PERIOD_MS = 10_000


class ClientRequests(Service):
    """`greeted(consumers)` sees that consumer groups and their retry topics exist before a client
    is answered.
    """

    def __init__(
        self,
        groups: ClientGroups,
        clock: Clock,
        greeted: Callable[[Sequence[ConsumerData]], None],
        notify: Callable[[str], bool],
        filters: Filters | None = None,
    ) -> None:
        self._filters = filters or Filters()
        self._groups, self._clock = groups, clock
        self._greeted, self._notify_enabled = greeted, notify
        self._connections: dict[int, Connection] = {}
        self._by_client: dict[str, int] = {}
        self._expire_at_ms = clock.now_ms() + EXPIRE_PERIOD_MS

    def serves(self) -> dict[int, Served]:
        """Every replica knows its own clients."""
        return {
            RequestCode.HEART_BEAT: Served(self._heartbeat),
            RequestCode.UNREGISTER_CLIENT: Served(self._unregister),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: Served(self._consumer_list),
            RequestCode.CHECK_CLIENT_CONFIG: Served(self._check_client_config),
        }

    def connection_closed(self, connection: Connection) -> None:
        if self._connections.pop(connection.id, None) is not None:
            for client_id in known_ids(connection):
                if self._by_client.get(client_id) == connection.id:
                    del self._by_client[client_id]
            self._notify(self._groups.on_connection_closed(connection.id))

    def _note_client(self, client_id: str, connection: Connection) -> None:
        ids = known_ids(connection)
        if client_id not in ids:
            if len(ids) >= IDS_PER_CONNECTION_MAX:
                return
            connection.attributes[CLIENT_IDS] = {*ids, client_id}
        self._by_client[client_id] = connection.id

    def tick(self, now_ms: int) -> None:
        if now_ms >= self._expire_at_ms:
            self._expire_at_ms = now_ms + EXPIRE_PERIOD_MS
            self.expire()

    def connection(self, connection_id: int) -> Connection | None:
        """The open connection of a client that greeted this broker."""
        found = self._connections.get(connection_id)
        return None if found is None or found.closed else found

    def client(self, client_id: str) -> Connection | None:
        """The same, of the producer that greeted this broker last with that id."""
        return self.connection(self._by_client.get(client_id, -1))

    def producers(self, group: str) -> list[Connection]:
        """The connections of a group's producers, the same order each time."""
        found = [self.connection(each) for each in self._groups.producers.get(group, ())]
        return [each for each in found if each is not None]

    def expire(self) -> None:
        """Forget silent clients."""
        self._notify(self._groups.expire(self._clock.now_ms(), self._clock.wall_ms()))

    def _heartbeat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        try:
            heartbeat = client_heartbeat.parse(fastjson.loads(request.body))
            self._connections[connection.id] = connection
            self._note_client(heartbeat.client_id, connection)
            self._greeted(heartbeat.consumers)
            result = self._groups.on_heartbeat(
                connection.id, heartbeat, request.language, request.version, self._clock.now_ms()
            )
        except (client_heartbeat.BadHeartbeat, ValueError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        self._notify(result.changed)
        changed = result.fingerprint_differed or not heartbeat.fingerprint
        return request.reply(
            ext={
                "IS_SUPPORT_HEART_BEAT_V2": "true",
                "IS_SUB_CHANGE": "true" if changed else "false",
            }
        )

    def _unregister(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self._notify(
            self._groups.on_unregister(
                connection.id,
                request.ext.get("clientID", ""),
                request.ext.get("producerGroup"),
                request.ext.get("consumerGroup"),
            )
        )
        return request.reply()

    def _consumer_list(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        group = request.ext.get("consumerGroup", "")
        ids = self._groups.client_ids(group)
        if not ids:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=(f"no consumer of group {group} is known here")
            )
        return request.reply(body=fastjson.dumps({"consumerIdList": ids}))

    def _check_client_config(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        try:
            fields = fastjson.loads(request.body)
        except ValueError as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        data = fields.get("subscriptionData") if isinstance(fields, Mapping) else None
        if not isinstance(data, Mapping):
            return request.reply()
        text, expression_type = data.get("subString"), data.get("expressionType")
        try:
            self._filters.check(str(text or ""), str(expression_type or "TAG"))
        except FilterRefused as refused:
            return request.reply(refused.code, remark=str(refused))
        return request.reply()

    def _notify(self, groups: Iterable[str]) -> None:
        for group in groups:
            if not self._notify_enabled(group):
                continue
            for connection_id in self._groups.connections_of(group):
                connection = self._connections.get(connection_id)
                if connection is not None:
                    ext = {"consumerGroup": group}
                    connection.send(
                        RemotingCommand.request(
                            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext, oneway=True
                        )
                    )


def known_ids(connection: Connection) -> Set[str]:
    """The client ids that greeted over this connection."""
    known = connection.attributes.get(CLIENT_IDS, frozenset())
    assert isinstance(known, Set)
    return known
