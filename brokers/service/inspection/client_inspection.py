"""Connected clients as operators see them, and questions that are passed on to them: 203, 204, 223,
307, 309, 328 (PROTOCOL 4.16).

Refuses to know: what a client answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from brokers.clock import Clock
from brokers.remoting import fastjson
from brokers.remoting.calls import CallTimeout, RemotingError
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.fields import BadField, reading_fields, text
from brokers.service.clients.groups import Channel, ClientGroups
from brokers.service.inspection.bodies import connection_fields, subscription_fields
from brokers.service.role.services import Served, Service
from brokers.store.index.key_query import message_at
from brokers.store.log.records import RecordError, parse_offset_message_id
from brokers.store.store import MessageStore

CLIENT_TIMEOUT_MS = 10_000
# Questions that are passed on and not answered yet.
PASSED_ON_MAX = 256
# Older Java clients do not know 307 and 309 (V3_1_8_SNAPSHOT).
KNOWS_VERSION = 58


@dataclass(frozen=True, slots=True)
class _Client:
    channel: Channel
    connection: Connection


class ClientInspection(Service):
    """`connection(id)`: an open connection of a client, None without one."""

    def __init__(
        self,
        store: MessageStore,
        groups: ClientGroups,
        clock: Clock,
        broker_name: str,
        connection: Callable[[int], Connection | None],
    ) -> None:
        self._store = store
        self._groups = groups
        self._clock = clock
        self._broker_name = broker_name
        self._connection = connection
        self._passed_on = 0

    def serves(self) -> dict[int, Served]:
        """Every replica knows the clients that greeted it."""
        asked = {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self._all_producers,
        }
        return {
            **{code: Served(reading_fields(method)) for code, method in asked.items()},
            RequestCode.GET_CONSUMER_RUNNING_INFO: Served(self.ask_client),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: Served(self.ask_client),
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Served(self.ask_clients),
        }

    def _consumers(self, request: RemotingCommand) -> RemotingCommand:
        """203."""
        name = text(request.ext, "consumerGroup")
        group = self._groups.consumers.get(name)
        if group is None or not group.channels:
            return request.reply(
                ResponseCode.CONSUMER_NOT_ONLINE, remark=f"the consumer group[{name}] not online"
            )
        body = {
            "connectionSet": self._rows(group.channels),
            "consumeFromWhere": group.consume_from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": {
                topic: subscription_fields(held.subscription)
                for topic, held in group.subscriptions.items()
            },
        }
        return request.reply(body=fastjson.dumps(body))

    def _producers(self, request: RemotingCommand) -> RemotingCommand:
        """204."""
        name = text(request.ext, "producerGroup")
        channels = self._groups.producers.get(name)
        if not channels:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=f"the producer group[{name}] not exist"
            )
        return request.reply(body=fastjson.dumps({"connectionSet": self._rows(channels)}))

    def _all_producers(self, request: RemotingCommand) -> RemotingCommand:
        """328."""
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.now_ms()
        found = {}
        for name, channels in self._groups.producers.items():
            found[name] = [
                {
                    "clientId": channel.client_id,
                    "language": channel.language,
                    "lastUpdateTimestamp": wall_ms - (now_ms - channel.last_seen_ms),
                    "remoteIP": f"/{self._peer(channel)}",
                    "version": channel.version,
                }
                for channel in channels.values()
            ]
        return request.reply(body=fastjson.dumps({"data": found}))

    def _rows(self, channels: Mapping[int, Channel]) -> list[dict[str, object]]:
        return [connection_fields(one, self._peer(one)) for one in channels.values()]

    def _peer(self, channel: Channel) -> str:
        connection = self._connection(channel.connection_id)
        return "" if connection is None else connection.peer

    # -- passed on ---------------------------------------------------------------------------------

    async def ask_client(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """307 and 309: what this client of the group answers."""
        try:
            group, client_id = text(request.ext, "consumerGroup"), text(request.ext, "clientId")
            client = self._client(group, client_id)
            if client is None:
                return request.reply(
                    ResponseCode.SYSTEM_ERROR,
                    remark=f"The Consumer <{group}> <{client_id}> not online",
                )
            question = self._question(request)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if isinstance(question, str):
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=question)
        if client.channel.version < KNOWS_VERSION:
            remark = (
                f"The Consumer <{client_id}> Version <{client.channel.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
        if self._passed_on >= PASSED_ON_MAX:
            return request.reply(
                ResponseCode.SYSTEM_BUSY, remark=f"{PASSED_ON_MAX} questions to clients wait"
            )
        return await self._passed(request, question, client, f"<{group}> <{client_id}>")

    async def ask_clients(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """223: where the clients of a group say that they are, or the one of that id; without those
        that do not answer.
        """
        try:
            group, topic = text(request.ext, "group"), text(request.ext, "topic")
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        only = request.ext.get("clientAddr", "")
        known = self._groups.consumers.get(group)
        clients = [
            client
            for channel in (known.channels.values() if known else ())
            if not only or channel.client_id == only
            if (client := self._client(group, channel.client_id)) is not None
        ]
        if not clients:
            remark = f"No Any Consumer online in the consumer group: [{group}]"
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
        if self._passed_on + len(clients) > PASSED_ON_MAX:
            return request.reply(
                ResponseCode.SYSTEM_BUSY, remark=f"{PASSED_ON_MAX} questions to clients wait"
            )
        ext = {"group": group, "topic": topic, **({"clientAddr": only} if only else {})}
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        question = RemotingCommand.request(code, ext)
        answers = await asyncio.gather(
            *(self._passed(request, question, client, f"<{group}>") for client in clients)
        )
        told = [
            b"%b:%b" % (fastjson.dumps(client.channel.client_id), places)
            for client, answer in zip(clients, answers, strict=True)
            if (places := _places(answer)) is not None
        ]
        return request.reply(body=b'{"consumerTable":{%b}}' % b",".join(told))

    async def _passed(
        self, request: RemotingCommand, question: RemotingCommand, client: _Client, who: str
    ) -> RemotingCommand:
        self._passed_on += 1
        try:
            answer = await client.connection.call(question, CLIENT_TIMEOUT_MS)
        except CallTimeout as error:
            return request.reply(
                ResponseCode.CONSUME_MSG_TIMEOUT, remark=f"consumer {who} Timeout: {error}"
            )
        except RemotingError as error:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=f"invoke consumer {who} Exception: {error}"
            )
        finally:
            self._passed_on -= 1
        return request.reply(answer.code, answer.ext, answer.body, answer.remark)

    def _client(self, group: str, client_id: str) -> _Client | None:
        known = self._groups.consumers.get(group)
        for channel in known.channels.values() if known else ():
            connection = self._connection(channel.connection_id)
            if channel.client_id == client_id and connection is not None:
                return _Client(channel, connection)
        return None

    def _question(self, request: RemotingCommand) -> RemotingCommand | str:
        """What the client is asked, or why it cannot be. BadField."""
        if request.code != RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return RemotingCommand.request(request.code, dict(request.ext), request.body)
        try:
            _, offset = parse_offset_message_id(text(request.ext, "msgId"))
        except RecordError as error:
            return str(error)
        data = message_at(self._store.log, offset, self._store.dispatched_offset)
        if not isinstance(data, bytes):
            return f"can not find message by the offset, {offset}"
        ext = {
            **request.ext,
            "brokerName": self._broker_name,
            "topicSysFlag": "0",
            "groupSysFlag": "0",
        }
        return replace(RemotingCommand.request(request.code, ext), body=data)


def _places(answer: RemotingCommand) -> bytes | None:
    """An object whose keys are queues, of what one client answered; None when it told none."""
    try:
        body = fastjson.loads(answer.body) if answer.code == ResponseCode.SUCCESS else None
    except fastjson.JsonRejected:
        return None
    table = body.get("messageQueueTable") if isinstance(body, Mapping) else None
    if not isinstance(table, Mapping):
        return None
    # a key is the text of an object already
    return b"{%b}" % b",".join(
        b"%b:%d" % (str(queue).encode(), place)
        for queue, place in table.items()
        if str(queue).startswith("{") and type(place) is int
    )
